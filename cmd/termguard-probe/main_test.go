package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRepeat checks that repeat pauses after each inspection whatever its length, continues after a failure, and
// stops with its context.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began, complaints := time.Now(), 0
		var at []time.Duration
		err := repeat(ctx, 2*time.Minute, func() error {
			at = append(at, time.Since(began))
			time.Sleep(time.Minute)
			return map[bool]error{true: errors.New("no answer")}[len(at) == 2]
		}, func(error) { complaints++ })
		if diff := cmp.Diff([]time.Duration{0, 3 * time.Minute, 6 * time.Minute, 9 * time.Minute}, at); err != nil || diff != "" || complaints != 1 {
			t.Errorf("%v, %d complaints, looked at: -want +got\n%s", err, complaints, diff)
		}
		if since := time.Since(began); since != 10*time.Minute {
			t.Errorf("it stopped after %s", since)
		}
	})
	if err := repeat(t.Context(), 0, func() error { return errors.ErrUnsupported }, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of one look, it says %v", err)
	}
}

// TestUsage checks the error line and the exit code of each misuse.
func TestUsage(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "termguard-probe: the report needs the name of the node in the cluster: --node\n"},
		{[]string{"--node=n1", "--kubeconfig=/nowhere"}, 2, "termguard-probe: find the cluster: stat /nowhere: no such file or directory\n"},
		{[]string{"--nod"}, 2, "termguard-probe: unknown flag: --nod\n"},
		{[]string{"--version"}, 0, "termguard-probe version (devel)\n"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), tc.args, &out, &out); code != tc.code || out.String() != tc.want {
			t.Errorf("%q: %d: %q, want %d: %q", tc.args, code, &out, tc.code, tc.want)
		}
	}
}
