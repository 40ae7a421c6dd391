package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commit commits files ("" deletes one), with a tag unless that is "".
func commit(t *testing.T, dir, tag string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if text == "" {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	steps := [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@a.io", "commit", "-q", "-m", "change"}}
	if tag != "" {
		steps = append(steps, []string{"tag", tag})
	}
	for _, args := range steps {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

func catalogOf(t *testing.T, finalizer, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(file, []byte("- "+finalizer+"\n  owner: a\n  source: \""+source+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRun(t *testing.T) {
	clones := t.TempDir()
	commit(t, filepath.Join(clones, "o+r"), "v1.9.0", map[string]string{
		"old.go": "package r\n\nconst old = \"old.r.io/gone\"\n",
	})
	commit(t, filepath.Join(clones, "o+r"), "v1.10.0", map[string]string{
		"old.go":          "",
		"whole.go":        "package r\n\n// whole.r.io/f is removed\nconst whole = \"whole.r.io/f\"\nconst longer = \"whole.r.io/f-2\"\n",
		"parts.go":        "package r\n\nconst domain = \"parts.r.io\"\nconst part = domain + \"/cleanup\"\nconst alone = \"/lonely\"\n",
		"new/moved.go":    "package r\n\nconst moved = \"moved.r.io/f\"\n",
		"new/other.go":    "package r\n\nvar use = \"moved.r.io/f\"\n",
		"new/a_test.go":   "package r\n\nconst tested = \"tested.r.io/f\"\n",
		"vendor/v/own.go": "package v\n\nconst vendored = \"vendored.r.io/f\"\n",
		"format.go":       "package r\n\nvar f = fmt.Sprintf(\"%s.format.r.io/%s\", kind, what)\n",
		"pattern.go":      "package r\n\n\nvar f = kind + \".pattern\"\n",
	})
	commit(t, filepath.Join(clones, "o+r"), "v2.0.0-rc.1", map[string]string{"whole.go": "package r\n"})
	commit(t, filepath.Join(clones, "o", "untagged"), "", map[string]string{"a.go": "package a\n\nconst a = \"a.r.io/f\"\n"})

	tests := map[string]struct{ reason, finalizer, source, state, want string }{
		"held":     {"the newest release, no candidate; no comment and no longer one", "finalizer: whole.r.io/f", "github.com/o/r:whole.go", "held", "github.com/o/r@v1.10.0:whole.go#L4"},
		"newer":    {"a recorded value is updated", "finalizer: whole.r.io/f", "github.com/o/r@v1.9.0:whole.go#L9", "held", "github.com/o/r@v1.10.0:whole.go#L4"},
		"composed": {"the end, where the rest stands elsewhere", "finalizer: parts.r.io/cleanup", "github.com/o/r:parts.go", "held", "github.com/o/r@v1.10.0:parts.go#L4"},
		"no rest":  {"a suffix without its prefix is no proof", "finalizer: other.io/lonely", "github.com/o/r:parts.go", "lost", "github.com/o/r:parts.go"},
		"format":   {"a format that makes it", "finalizer: a.format.r.io/b", "github.com/o/r:format.go", "held", "github.com/o/r@v1.10.0:format.go#L3"},
		"quoted":   {"a line that a person named proves what a program cannot read", "regex: '.*\\.pattern'", "github.com/o/r@v1.10.0:pattern.go#L4", "held", "github.com/o/r@v1.10.0:pattern.go#L4"},
		"moved":    {"moved to its definition, in a file of the same name", "finalizer: moved.r.io/f", "github.com/o/r:moved.go", "moved", "github.com/o/r@v1.10.0:new/moved.go#L3"},
		"gone":     {"the last release that has it", "finalizer: old.r.io/gone", "github.com/o/r:old.go", "gone", "github.com/o/r@v1.9.0:old.go#L3"},
		"tested":   {"a test does not set it", "finalizer: tested.r.io/f", "github.com/o/r:a.go", "lost", "github.com/o/r:a.go"},
		"vendored": {"nor does what others wrote", "finalizer: vendored.r.io/f", "github.com/o/r:a.go", "lost", "github.com/o/r:a.go"},
		"no clone": {"it was not verified", "finalizer: a.io/f", "github.com/o/absent@v1.0.0:a.go#L1", "no clone", "github.com/o/absent@v1.0.0:a.go#L1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := catalogOf(t, tc.finalizer, tc.source)
			var out bytes.Buffer
			err := run(clones, file, false, &out)
			first, _, _ := strings.Cut(out.String(), "\n")
			key := strings.Trim(strings.SplitN(tc.finalizer, ": ", 2)[1], "'")
			if want := tc.state + "\t" + key + "\t" + tc.want; first != want {
				t.Errorf("%s: got %q, want %q", tc.reason, first, want)
			}
			if differs := tc.want != tc.source || tc.state == "lost"; errors.Is(err, errDiffers) != differs {
				t.Errorf("%s: got error %v", tc.reason, err)
			}
			if tc.state == "lost" {
				return
			}
			if err := run(clones, file, true, &out); err != nil {
				t.Errorf("write: %v", err)
			}
			if err := run(clones, file, false, &out); err != nil {
				t.Errorf("recorded values differ from those in the source: %v", err)
			}
		})
	}

	file := catalogOf(t, "finalizer: a.r.io/f", "github.com/o/untagged:a.go")
	var out bytes.Buffer
	if err := run(clones, file, true, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if head, ok := strings.CutPrefix(strings.Split(string(text), "source: ")[1], `"github.com/o/untagged@`); !ok || strings.Index(head, ":a.go#L3") != 12 {
		t.Errorf("a project that tags nothing is read at its newest commit: got %s", text)
	}
}
