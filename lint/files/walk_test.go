package files

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWalkTests skips files that only tests read, unless they are named or included by a flag.
func TestWalkTests(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"deploy.yaml", "assert.yaml", "app.golden.yaml", "policy_test.yaml", "latest.yaml",
		"case/00-assert.yaml", "case/00-install.yaml", "case/below/crd.yaml", "each/chainsaw-test.yaml", "each/pod.yaml", ".chainsaw-test/pod.yaml", ".kyverno-test/pod.yaml",
		"pkg/testdata/a.yaml", "pkg/testdata/deep/b.yaml", "pkg/test_files/invalid.yaml", "pkg/fixtures/c.json", "render_test/d.yaml", "test/e.yaml", "integrationtests/f.yaml",
		"test/e2e/g.yaml", "test/integration/h.yaml", "integration/i.yaml", "acceptance/j.yaml", "tests/cli/k.yaml", "expected/l.yaml", "src/test/resources/m.yaml",
		"clusters/acceptance/n.yaml", "clusters/production/o.yaml", "clusters/test/p.yaml",
		"program/main.go", "program/test/q.yaml", "everything/go.mod", "everything/prod/r.yaml", "everything/test/s.yaml",
		"vendor/a/vendored.yaml", "node_modules/a/vendored.yaml", // others wrote what is in them
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		reason, folder string
		tests          bool
		want           []string
		left           int
	}{
		"All":       {"Tests are left out; acceptance beside production is where things run, and so is test, but beside a program.", ".", false, []string{"assert.yaml", "deploy.yaml", "latest.yaml", "below/crd.yaml", "acceptance/n.yaml", "production/o.yaml", "test/p.yaml", "prod/r.yaml", "test/s.yaml", "integration/i.yaml", "test/e.yaml"}, 21},
		"Included":  {"A flag includes them.", ".", true, []string{"app.golden.yaml", "assert.yaml", "deploy.yaml", "latest.yaml", "policy_test.yaml", ".chainsaw-test/pod.yaml", ".kyverno-test/pod.yaml", "acceptance/j.yaml", "case/00-assert.yaml", "case/00-install.yaml", "below/crd.yaml", "acceptance/n.yaml", "production/o.yaml", "test/p.yaml", "each/chainsaw-test.yaml", "each/pod.yaml", "prod/r.yaml", "test/s.yaml", "expected/l.yaml", "integration/i.yaml", "integrationtests/f.yaml", "fixtures/c.json", "test_files/invalid.yaml", "testdata/a.yaml", "deep/b.yaml", "test/q.yaml", "render_test/d.yaml", "resources/m.yaml", "test/e.yaml", "e2e/g.yaml", "integration/h.yaml", "cli/k.yaml"}, 0},
		"Named":     {"A folder of fixtures that is named is read.", "pkg/testdata", false, []string{"testdata/a.yaml", "deep/b.yaml"}, 0},
		"NamedCase": {"The manifests of a named test.", "case", false, []string{"case/00-install.yaml", "below/crd.yaml"}, 1},
		"Vendor":    {"Vendored files are read if they are named.", "vendor", false, []string{"a/vendored.yaml"}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			left := 0
			Search{
				Root: dir, Tests: tc.tests, SkipTests: func(files int) { left += files },
				Visit: func(d *Directory) {
					for _, file := range d.Files() {
						got = append(got, path.Join(path.Base(d.Name), path.Base(file.Name)))
					}
				},
				Problem: func(file, message string) { t.Error(file, message) },
			}.Walk(tc.folder, filepath.Join(dir, tc.folder))
			if diff := cmp.Diff(tc.want, got); diff != "" || left != tc.left {
				t.Errorf("%s\n%d files left out, want %d; read: -want, +got:\n%s", tc.reason, left, tc.left, diff)
			}
		})
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
		"POSIXEscape":  {"The pattern of .gitignore.", `dir/\*.yaml`, '/', "dir/*.yaml", true},
		"POSIXStar":    {"The star is escaped.", `dir/\*.yaml`, '/', "dir/a.yaml", false},
		"POSIXItself":  {"A name may have one.", `dir\\file.yaml`, '/', `dir\file.yaml`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var e Exclude
			if err := e.add("/", []string{tc.pattern}, tc.separator); err != nil {
				t.Fatal(err)
			}
			if got := e.Matches("/"+tc.file, false); got != tc.want {
				t.Errorf("%s\n%q, separator %c, file %q: want %t, got %t", tc.reason, tc.pattern, tc.separator, tc.file, tc.want, got)
			}
		})
	}
}

// A link may lead anywhere: files outside the folder are neither read nor searched, which a note
// says.
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
	var exclude Exclude
	if err := exclude.Add(dir, "excluded"); err != nil {
		t.Fatal(err)
	}
	var got, problems []string
	Search{
		Root: dir, Exclude: exclude,
		Visit: func(d *Directory) {
			for _, file := range d.Files() {
				got = append(got, file.Name)
			}
		},
		Problem: func(file, _ string) { problems = append(problems, file) },
	}.Walk("r", dir)
	if diff := cmp.Diff([]string{"r/file.yaml", "r/a/file.yaml"}, got); diff != "" {
		t.Errorf("read: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"r/elsewhere", "r/file2.yaml", "r/slash", "r/up"}, problems); diff != "" {
		t.Errorf("refused: -want, +got:\n%s", diff)
	}
}
