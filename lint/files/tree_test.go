package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInside(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "repository")
	for _, dir := range []string{"outside", "repository/.git", "repository/a/b"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"outside/file", "repository/a/file"} {
		if err := os.WriteFile(filepath.Join(base, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"in": "a/file", "up": "..", "out": filepath.Join(base, "outside"), "file": "../outside/file",
		"slash": "/", "nowhere": "../outside/not-yet", "loop": "loop", "abs": filepath.Join(base, "repository/a"),
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		reason, path string
		outside      bool
	}{
		"Itself":        {"The root is in itself.", ".", false},
		"File":          {"An ordinary file.", "a/file", false},
		"New":           {"A file that will be written.", "a/new", false},
		"NewFolder":     {"So will its folder.", "a/c/new", false},
		"Link":          {"A link within.", "in", false},
		"Absolute":      {"A link within, by its full name.", "abs/file", false},
		"Parent":        {"A path with dots.", "../outside/file", true},
		"LinkUp":        {"A link to the parent.", "up", true},
		"LinkOut":       {"A folder elsewhere.", "out", true},
		"ThroughLink":   {"A file in a folder elsewhere.", "out/file", true},
		"NewBehindLink": {"A file that would be written elsewhere.", "out/new", true},
		"FileLink":      {"A file elsewhere.", "file", true},
		"Slash":         {"The whole machine.", "slash", true},
		"Nowhere":       {"Writing to it makes a file elsewhere.", "nowhere", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Inside(root, filepath.Join(root, filepath.FromSlash(tc.path)))
			if errors.Is(err, ErrOutside) != tc.outside || !tc.outside && err != nil {
				t.Errorf("%s\noutside: want %t, got error %v", tc.reason, tc.outside, err)
			}
		})
	}
	if err := Inside(root, filepath.Join(root, "loop")); err == nil {
		t.Error("a link to itself is followed")
	}
	if got := Root(filepath.Join(root, "a", "b")); got != root {
		t.Errorf("root is %q, want %q", got, root)
	}
}
