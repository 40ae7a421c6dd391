package lint_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestStopped ends a run that is blocked: the findings up to then are reported.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: \"b\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slow := filepath.Join(dir, "b.yaml")
	if err := syscall.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	opened := make(chan *os.File, 1)
	go func() {
		out, _ := os.OpenFile(slow, os.O_WRONLY, 0) // waits for its reader, which is done with the other file
		cancel(why)
		opened <- out
	}()
	r, err := lint.Run(ctx, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"a.yaml", "b.yaml"}}})
	defer func() { (<-opened).Close() }()
	if !errors.Is(err, why) {
		t.Fatalf("error %v, want %v", err, why)
	}
	want := []string{"a.yaml:2:7 problem: invalid YAML: the quotes that are opened here are not closed"}
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestStoppedInput ends a run that waits for standard input.
func TestStoppedInput(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = out.Write([]byte("apiVersion: v1\n")) // returns when it has been read
		cancel()
	}()
	if _, err := lint.Run(ctx, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: in}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
