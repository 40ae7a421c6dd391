package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestNames reads files of any name, and folders that lead back to themselves once.
func TestNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file names there hold no such characters")
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: demo}\nspec: {terminationGracePeriodSeconds: 900, containers: [{name: a, image: a}]}\n"
	dir := t.TempDir()
	names := []string{"a b/with space.yaml", "line\nbreak.yaml", "not\xffutf8.yaml", "-o.yaml", "ü.yaml"}
	for i, name := range names {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, fmt.Appendf(nil, pod, fmt.Sprint("p", i)), 0o600); err != nil {
			t.Skipf("this file system has no such names: %v", err)
		}
	}
	for _, link := range []string{"a b/up", "self"} {
		if err := os.Symlink(dir, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}})
	counts := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Place.File]++
	}
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	if diff := cmp.Diff(want, counts); diff != "" || len(r.Problems) != 0 || r.Files != len(names) {
		t.Errorf("%d files, problems %v; -want, +got:\n%s", r.Files, r.Problems, diff)
	}
}

// TestNotRead checks the notes about files that a search does not read: files of tests, and links
// out of the folder.
func TestNotRead(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: demo}\n"
	dir := write(t, map[string]string{"a.yaml": config, "b/fixtures/c.yaml": config, "b/fixtures/d.yaml": config})
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "b", "out")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}})
	if r.Files != 1 || r.Tests != 2 || len(r.Problems) != 1 || r.Problems[0].File != "b/out" {
		t.Errorf("%d files, %d of tests, problems %v; want 1, 2, and one with b/out", r.Files, r.Tests, r.Problems)
	}
}

// oneFolder creates a folder with many files.
func oneFolder(t testing.TB, files int) string {
	t.Helper()
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: demo}\n"
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), fmt.Appendf(nil, config, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOneFolder lints a folder of very many files: the cost of each does not grow with their
// number. BenchmarkOneFolder does it with 100,000.
func TestOneFolder(t *testing.T) {
	race.Skip(t)
	allocated := func(files int) uint64 {
		dir := oneFolder(t, files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}})
		runtime.ReadMemStats(&after)
		if r.Files != files || r.Objects != files || len(r.Problems) != 0 {
			t.Fatalf("%d files, %d objects, problems %v", r.Files, r.Objects, r.Problems)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	const most = 8_000
	allocated(10) // what only the first run does
	few, many := allocated(most/8), allocated(most)
	if many > 12*few {
		t.Errorf("%d files take %d MiB, an eighth of them %d", most, many>>20, few>>20)
	}
}

// BenchmarkOneFolder prints the cost of each file of a folder, at sizes up to 100,000.
func BenchmarkOneFolder(b *testing.B) {
	for _, files := range []int{1_000, 10_000, 100_000} {
		dir := oneFolder(b, files)
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := lint.Run(b.Context(), lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}})
				if err != nil || r.Objects != files {
					b.Fatalf("%v, error %v", r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*files), "µs/file")
		})
	}
}

// TestBadKustomizations reads the files beside a kustomization that cannot be built, for whatever
// reason.
func TestBadKustomizations(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n"
	for name, text := range map[string]string{
		"remote bases":         "resources: [https://example.com/x.yaml, 'github.com/example/example//deploy?ref=v1']\n",
		"a cycle":              "resources: [../a]\n",
		"a longer cycle":       "resources: [../b]\n",
		"a missing file":       "resources: [absent.yaml]\npatches: [{path: absent.yaml}]\n",
		"a missing folder":     "resources: [../absent]\n",
		"a folder above":       "resources: [../..]\n",
		"another shape":        "resources: {a: b}\n",
		"nothing but a hyphen": "-\n",
		"no YAML":              "resources: [\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"a/kustomization.yaml": text, "a/pod.yaml": pod, "b/kustomization.yaml": "resources: [../a]\n"})
			r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}})
			if len(r.Findings) != 1 || len(r.Problems) != 0 {
				t.Errorf("got %q, want the findings of the pod and no problem", lines(r))
			}
		})
	}
}

// TestChangedReads reads only the files of folders with a change.
func TestChangedReads(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: demo}\n"
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("d%d/a.yaml", i)] = config
		files[fmt.Sprintf("d%d/b.yaml", i)] = strings.ReplaceAll(config, "name: c,", "name: d,")
	}
	files["d8/broken.yaml"] = "a: [" // nobody reads it
	dir := write(t, files)
	r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Only: map[string]bool{filepath.Join(dir, "d7/a.yaml"): true}}})
	if r.Files != 2 || len(r.Problems) != 0 {
		t.Errorf("%d files were read, problems %v; want 2 of 401", r.Files, r.Problems)
	}
}

// TestManyNamespaces lints a folder of 28,000 namespaces.
func TestManyNamespaces(t *testing.T) {
	race.Skip(t)
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	const n = 28_000
	files := map[string]string{}
	for i := range 28 {
		var text strings.Builder
		for j := range n / 28 {
			fmt.Fprintf(&text, "apiVersion: v1\nkind: Namespace\nmetadata: {name: n-%d-%d}\n---\n", i, j)
		}
		files[fmt.Sprintf("%d.yaml", i)] = text.String()
	}
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, files), Paths: []string{"."}}})
	if len(r.Findings)+len(r.Problems)+len(r.Notes) != 0 || r.Objects != n {
		t.Errorf("%d objects, %.2000q; want %d and nothing else", r.Objects, lines(r), n)
	}
}

// TestHalfYAML reports the broken half of a file, and the findings of the other.
func TestHalfYAML(t *testing.T) {
	const text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n---\napiVersion: v1\nkind: Pod\n  metadata: [\n"
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"a.yaml": text}), Paths: []string{"."}}})
	want := []string{"a.yaml:4:39 apply may long-grace-period: a delete may wait up to 900 s for pods/a: the grace period is 900 s", "a.yaml:8:11 problem: invalid YAML: mapping values are not allowed in this context"}
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
