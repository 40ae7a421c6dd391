package live

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type answer struct {
	status int
	body   string
}

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {"30"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// TestImpatient checks that only failures that waiting cannot cure are reported at once.
func TestImpatient(t *testing.T) {
	const failure = "storage is (re)initializing: failed to list x.io/v2: conversion webhook for x.io/v1, Kind=X failed: refused"
	cases := map[string]struct {
		reason string
		answer answer
		want   string
	}{
		"Unconverted": {"waiting does not help", answer{http.StatusTooManyRequests, failure}, ""},
		"Busy":        {"a server that has too much to do is left alone", answer{http.StatusTooManyRequests, "too many requests"}, "30"},
		"OtherStatus": {"other answers are passed on", answer{http.StatusServiceUnavailable, failure}, "30"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := impatient{tc.answer}.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want, tc.answer.body}, []string{response.Header.Get("Retry-After"), string(body)}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
