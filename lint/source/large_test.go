package source

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// endless repeats a text.
type endless struct{ text, rest []byte }

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = e.text
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestLarge reads a document of 200 MB, and the one after it, without keeping them.
func TestLarge(t *testing.T) {
	const size = 200 << 20
	for name, text := range map[string]string{"lines": "- some: more\n", "one line": "some more "} {
		t.Run(name, func(t *testing.T) {
			in := io.MultiReader(io.LimitReader(&endless{text: []byte(text)}, size), strings.NewReader("\n---\nkind: Pod\n"))
			s := newSplitter(in, false)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if d, err := s.next(); !errors.Is(err, errLarge) || d.line != 1 {
				t.Fatalf("line %d, error %v, want %v in line 1", d.line, err, errLarge)
			}
			runtime.ReadMemStats(&after)
			// Slices grow by a quarter at least: all allocated on the way to the bound are five
			// times that, and a line is kept apart from its document.
			if took := after.TotalAlloc - before.TotalAlloc; took > 12*maxDocument {
				t.Errorf("%d MiB were allocated", took>>20)
			}
			d, err := s.next()
			if err != nil || string(d.text) != "---\nkind: Pod\n" {
				t.Fatalf("%q, error %v", d.text, err)
			}
		})
	}
}

// TestLargeFile checks that a document that is too large is reported, and that the others are read.
func TestLargeFile(t *testing.T) {
	const plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := strings.Join([]string{plain, "kind: List\nitems:\n", strings.Repeat("- {apiVersion: v1, kind: Pod}\n", maxDocument/30+1), "---\n", plain}, "")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := 0
	var problems []Problem
	for c := range (&File{Name: "a.yaml", Path: path}).Read() {
		objects += len(c.Objects)
		problems = append(problems, c.Problems...)
	}
	if objects != 2 || len(problems) != 1 || problems[0].Line != 4 || !strings.Contains(problems[0].Message, "more than 32 MiB, which is no object: split it") {
		t.Errorf("%d objects, problems %v", objects, problems)
	}
}
