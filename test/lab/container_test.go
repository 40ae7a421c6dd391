package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExpand(t *testing.T) {
	environment := []string{"A=one", "B=$(A)", "A=two", "EMPTY="}
	for text, want := range map[string]string{
		"--a=$(A)":           "--a=two", // the last wins
		"--b=$(B)":           "--b=$(A)",
		"--c=$(C),$(EMPTY).": "--c=$(C),.",
		"$A":                 "$A",
	} {
		if got := expand(text, environment); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestFilesFollow(t *testing.T) {
	root := t.TempDir()
	before := contents{"/certs": {"same": []byte("1"), "other": []byte("1")}}
	if err := before.write(root, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "certs", "same")); err != nil { // it would reappear if rewritten
		t.Fatal(err)
	}
	now := contents{"/certs": {"same": []byte("1"), "other": []byte("2"), "new": []byte("1")}}
	if err := now.write(root, before); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"same": "", "other": "2", "new": "1"} {
		if got, _ := os.ReadFile(filepath.Join(root, "certs", name)); string(got) != want {
			t.Errorf("content of %s is %q, want %q", name, got, want)
		}
	}
}
