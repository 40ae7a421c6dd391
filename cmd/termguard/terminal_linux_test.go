package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	typist "github.com/termguard/termguard/internal/typing"
)

// typing is a terminal, and the keys of it.
func typing(t *testing.T) (terminal, keys *os.File) {
	t.Helper()
	terminal, keys, err := typist.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close(); keys.Close() })
	return terminal, keys
}

// typed is a terminal at which some lines were typed.
func typed(t *testing.T, lines string) *os.File {
	t.Helper()
	terminal, keys := typing(t)
	if _, err := keys.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	return terminal
}

// Of two terminals one takes lines that change, and one does not.
func TestProgressOnTerminals(t *testing.T) {
	terminal, _ := typing(t)
	for name, tc := range map[string]struct {
		environment map[string]string
		told        bool
	}{
		"Ordinary": {map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		"Dumb":     {map[string]string{"TERM": "dumb", "NO_COLOR": ""}, false},
		"NoColor":  {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.environment {
				t.Setenv(key, value)
			}
			p := newProgress(terminal, "reading")
			defer p.clear()
			if told := p.out != nil; told != tc.told {
				t.Errorf("told: %v, want %v", told, tc.told)
			}
		})
	}
	t.Run("Quiet", func(t *testing.T) {
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", "")
		root := newRoot("termguard")
		root.SetErr(terminal)
		root.SetArgs([]string{"version", "--quiet"})
		root.SetOut(io.Discard)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if p := newProgress(root.ErrOrStderr(), "reading"); p.out != nil {
			t.Error("with --quiet, it is told")
		}
	})
}

// TestProgressOfCommands has whatever a command waits for wait until the person at the
// terminal is told that something is going on.
func TestProgressOfCommands(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for name, args := range map[string][]string{
		"check":    {"check", "namespace/demo"},
		"delete":   {"delete", "namespace/demo", "--dry-run", "--yes"},
		"scan":     {"scan"},
		"snapshot": {"snapshot"},
		"lint":     {"lint", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			terminal, keys := typing(t)
			told := make(chan struct{})
			go func() {
				defer close(told)
				var all []byte
				for buffer := make([]byte, 4096); !bytes.Contains(all, []byte(" …")); {
					n, err := keys.Read(buffer)
					if err != nil {
						return // the terminal is closed: nothing was told
					}
					all = append(all, buffer[:n]...)
				}
			}()
			waits := sync.OnceFunc(func() {
				select {
				case <-told:
				case <-time.After(30 * time.Second):
					t.Error("nothing is told to who waits")
				}
			})
			c := newFakeCluster(t, stuck())
			c.arrived = func(*http.Request) { waits() }
			stdin := manifest{waits, strings.NewReader("{apiVersion: v1, kind: Namespace, metadata: {name: demo}}")}
			if name != "lint" {
				args = append(args, "--kubeconfig", c.kubeconfig)
			}
			var out bytes.Buffer
			run(t.Context(), append([]string{"termguard"}, args...), stdin, &out, terminal)
			if out.Len() == 0 {
				t.Error("it did nothing")
			}
		})
	}
}

// manifest is read once something has happened.
type manifest struct {
	after func()
	io.Reader
}

func (m manifest) Read(p []byte) (int, error) {
	m.after()
	return m.Reader.Read(p)
}

// --ascii draws the table of what is being deleted in place, as without it.
func TestScreenOnTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	terminal, _ := typing(t)
	for name, tc := range map[string]struct {
		out            io.Writer
		inPlace, ascii bool
	}{
		"Terminal": {terminal, true, false},
		"ASCII":    {asciiOnly{terminal}, true, true},
		"File":     {asciiOnly{io.Discard}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := screenOn(tc.out)
			if inPlace := s.Size != nil; inPlace != tc.inPlace || s.Style.ASCII != tc.ascii {
				t.Errorf("in place: %v, want %v; ASCII: %v, want %v", inPlace, tc.inPlace, s.Style.ASCII, tc.ascii)
			}
		})
	}
}
