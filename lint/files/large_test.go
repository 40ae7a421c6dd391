package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// TestLargerFile checks that a file that is too large is reported, and not kept in memory.
func TestLargerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	for c := range (&File{Name: "a.yaml", Path: path}).Read() {
		if len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, "more than 64 MiB") {
			t.Errorf("got %+v", c.Problems)
		}
	}
}
