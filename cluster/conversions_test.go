package cluster

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDeletionVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		served string
		want   string
	}{
		"Newest":    {"discovery puts the highest version first", "v1 v2", "v2"},
		"Stable":    {"what is stable goes before what is not, whatever the number", "v1 v2beta1 v3alpha1", "v1"},
		"Numbers":   {"numbers are compared as such", "v9 v10", "v10"},
		"NotServed": {"nobody can ask for a version that is not served", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v99", Storage: true}}
			for _, v := range strings.Fields(tc.served) {
				crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true})
			}
			if got := deletionVersion(crd); got != tc.want {
				t.Errorf("%s: deletionVersion(%s) = %q, want %q", tc.reason, tc.served, got, tc.want)
			}
		})
	}
}

type answer struct {
	status int
	body   string
}

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {"30"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// TestImpatient holds that only what waiting does not mend is answered at once.
func TestImpatient(t *testing.T) {
	const failure = "storage is (re)initializing: failed to list x.io/v2: conversion webhook for x.io/v1, Kind=X failed: refused"
	cases := map[string]struct {
		reason string
		answer answer
		want   string
	}{
		"Unconverted": {"nobody knows more when the time is over", answer{http.StatusTooManyRequests, failure}, ""},
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
