package source

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWalkExpected(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"00-assert.yaml", "1-errors.yml", "02-assert-2.yaml", "01-error.yaml", "00-install.yaml", "assert.yaml", "1-asserted.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"vendor", "node_modules"} { // others wrote what is in them
		if err := os.MkdirAll(filepath.Join(dir, folder, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "a", "vendored.yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	Walk("tests", dir, ".", dir, Exclude{}, func(d *Directory) {
		for _, file := range d.Files {
			got = append(got, path.Base(file.Name))
		}
	}, func(file, message string) { t.Error(file, message) })
	want := []string{"00-install.yaml", "1-asserted.yaml", "assert.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what tests only compare with is never applied: -want, +got:\n%s", diff)
	}
	got = nil
	Walk("vendor", filepath.Join(dir, "vendor"), "vendor", dir, Exclude{}, func(d *Directory) { got = append(got, d.Name) }, func(file, message string) { t.Error(file, message) })
	if diff := cmp.Diff([]string{"vendor/a"}, got); diff != "" {
		t.Errorf("what is named is read: -want, +got:\n%s", diff)
	}
}

func TestExcludeSeparator(t *testing.T) {
	cases := map[string]struct {
		reason, pattern string
		separator       rune
		file            string
		want            bool
	}{
		"Windows":      {"Written as the shell there writes it.", `dir\file.yaml`, '\\', "dir/file.yaml", true},
		"WindowsDeep":  {"A separator roots the pattern.", `dir\file.yaml`, '\\', "a/dir/file.yaml", false},
		"WindowsMixed": {"Both are taken there.", `a/b\**\*.yaml`, '\\', "a/b/c/d.yaml", true},
		"WindowsSlash": {"The configuration is shared with other machines.", "dir/file.yaml", '\\', "dir/file.yaml", true},
		"POSIX":        {"It separates nothing.", `dir\file.yaml`, '/', "dir/file.yaml", false},
		"POSIXEscape":  {"It is that of .gitignore.", `dir/\*.yaml`, '/', "dir/*.yaml", true},
		"POSIXStar":    {"The star is escaped.", `dir/\*.yaml`, '/', "dir/a.yaml", false},
		"POSIXItself":  {"A name may have one.", `dir\\file.yaml`, '/', `dir\file.yaml`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := newExclude([]string{tc.pattern}, tc.separator)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Matches(tc.file, false); got != tc.want {
				t.Errorf("%s\n%q, separator %c, file %q: want %t, got %t", tc.reason, tc.pattern, tc.separator, tc.file, tc.want, got)
			}
		})
	}
}

// A link may lead anywhere: what is outside is neither read nor walked through,
// and that is said.
func TestWalkStaysInside(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "repository")
	for _, folder := range []string{dir, filepath.Join(dir, "a"), filepath.Join(base, "elsewhere")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "file.yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"slash": "/", "elsewhere": "../elsewhere", "up": "..", "file2.yaml": "../elsewhere/file.yaml",
		"within": "a", "excluded": "/", "text": "../elsewhere/file.yaml", "gone.yaml": "../nothing",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	exclude, err := NewExclude([]string{"excluded"})
	if err != nil {
		t.Fatal(err)
	}
	var got, said []string
	Walk("r", dir, ".", dir, exclude, func(d *Directory) {
		for _, file := range d.Files {
			got = append(got, file.Name)
		}
	}, func(file, _ string) { said = append(said, file) })
	if diff := cmp.Diff([]string{"r/file.yaml", "r/a/file.yaml"}, got); diff != "" {
		t.Errorf("read: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"r/elsewhere", "r/file2.yaml", "r/slash", "r/up"}, said); diff != "" {
		t.Errorf("refused: -want, +got:\n%s", diff)
	}
}
