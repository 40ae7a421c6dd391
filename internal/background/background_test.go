package background

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		ctx, cancel := context.WithCancel(With(t.Context(), func(part string, panicked any, stack []byte) {
			if !strings.Contains(string(stack), "TestKeep") {
				t.Errorf("the stack lacks the place of the failure: %s", stack)
			}
			reported = append(reported, part+": "+panicked.(string))
		}))
		defer cancel()
		runs, started := 0, time.Now()
		Keep(ctx, "it", func(context.Context) {
			if runs++; runs < 3 {
				panic("boom")
			}
		})
		if runs != 3 || len(reported) != 2 || reported[0] != "it: boom" || time.Since(started) != 2*restartPause {
			t.Errorf("ran %d times in %v, reported %q", runs, time.Since(started), reported)
		}
		Keep(ctx, "it", func(context.Context) {
			cancel()
			panic("at the end")
		})
	})
}

func TestTry(t *testing.T) {
	want := errors.New("as it is")
	if err := Try(t.Context(), "it", func() error { return want }); !errors.Is(err, want) {
		t.Error(err)
	}
	if err := Try(t.Context(), "it", func() error { panic("boom") }); err == nil || err.Error() != "it failed inside: boom" {
		t.Error(err)
	}
}
