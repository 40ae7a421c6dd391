package lint_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// field has the judged findings on public repositories.
const field = "../test/field"

// verdict matches the judgement of a kept manifest about a line: its findings were right, debatable
// or wrong. Findings that "was right" or "was debatable" marks are no longer reported, as those
// that were wrong. A severity after the policy is checked, too.
var verdict = regexp.MustCompile(`# (right|was right|debatable|was debatable|wrong): (.+)$`)

// TestField compares lint with the judgements: each kept manifest, a file or a folder, gives the
// findings that were right or debatable, and no others.
func TestField(t *testing.T) {
	kept, err := os.ReadDir(filepath.Join(field, "manifests"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range kept {
		t.Run(strings.TrimSuffix(entry.Name(), ".yaml"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(field, "manifests", entry.Name())
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{path}}})
			want, count := judgedLines(t, path)
			var got []string
			inSets := slices.DeleteFunc(slices.Clone(r.Findings), func(f lint.Finding) bool { return f.Question != lint.DeleteSet })
			others := slices.DeleteFunc(r.Findings, func(f lint.Finding) bool { return f.Question == lint.DeleteSet })
			for _, f := range append(others, lint.ByCause(inSets)...) {
				line := fmt.Sprintf("%s:%d %s", f.Place.File, f.Place.Line, f.Policy)
				if !slices.Contains(want, line) {
					line = fmt.Sprintf("%s %s", line, f.Severity)
				}
				got = append(got, line)
			}
			for _, p := range r.Problems {
				got = append(got, fmt.Sprintf("%s:%d invalid-input", p.File, p.Line))
			}
			if count == 0 {
				t.Error("no line has a judgement")
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-judged right, +judged wrong:\n%s", diff)
			}
		})
	}
}

// judgedLines returns the findings that a manifest must give, and the number of its lines with a
// judgement.
func judgedLines(t *testing.T, path string) (want []string, count int) {
	t.Helper()
	for _, file := range keptIn(path) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			m := verdict.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			count++
			if m[1] == "right" || m[1] == "debatable" {
				want = append(want, fmt.Sprintf("%s:%d %s", filepath.ToSlash(file), i+1, m[2]))
			}
		}
	}
	slices.Sort(want)
	return want, count
}

// keptIn returns the files of a kept manifest: itself, or the files of a folder.
func keptIn(path string) (files []string) {
	_ = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, file)
		}
		return nil
	})
	return files
}

// TestFieldKept checks that each judged finding names a kept manifest, which has the same judgement
// of the same policy.
func TestFieldKept(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(field, "judged.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 9 {
			t.Fatalf("judged.tsv:%d has %d cells, want 9", i+2, len(cells))
		}
		policy, verdict, manifest := cells[0], cells[5], cells[8]
		judgement := ""
		path := filepath.Join(field, "manifests", manifest)
		for _, file := range append(keptIn(path), path+".yaml") {
			content, _ := os.ReadFile(file)
			judgement += string(content)
		}
		if !regexp.MustCompile(`(?m)# (was )?` + verdict + `: (.* )?` + policy + `( |$)`).MatchString(judgement) {
			t.Errorf("judged.tsv:%d: manifest %q does not say that %s is %s", i+2, manifest, policy, verdict)
		}
	}
}
