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
)

// field is where the findings on public repositories are kept that somebody judged.
const field = "../test/field"

// verdict is what a manifest that is kept says of a line: findings on it were judged
// right, debatable or wrong. What was right or debatable is told no more, as what was wrong. A severity
// behind the policy is held to, too.
var verdict = regexp.MustCompile(`# (right|was right|debatable|was debatable|wrong): (.+)$`)

// TestField holds lint to what was judged: each manifest that is kept for it, a file
// or a folder, gives the findings that were right or debatable, those that were mended
// no more, and no others.
func TestField(t *testing.T) {
	kept, err := os.ReadDir(filepath.Join(field, "manifests"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range kept {
		t.Run(strings.TrimSuffix(entry.Name(), ".yaml"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(field, "manifests", entry.Name())
			r := run(t, lint.Options{Paths: []string{path}})
			want, judged := judgedLines(t, path)
			var got []string
			for _, f := range r.Findings {
				line := fmt.Sprintf("%s:%d %s", f.Place.File, f.Place.Line, f.Policy)
				if !slices.Contains(want, line) {
					line = fmt.Sprintf("%s %s", line, f.Severity)
				}
				got = append(got, line)
			}
			for _, p := range r.Problems {
				got = append(got, fmt.Sprintf("%s:%d invalid-input", p.File, p.Line))
			}
			if judged == 0 {
				t.Error("no line of it says what was judged")
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was judged right (-) or wrong (+):\n%s", diff)
			}
		})
	}
}

// judgedLines are the findings that a manifest is to give, and how many lines of it
// say what was judged.
func judgedLines(t *testing.T, path string) (want []string, judged int) {
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
			judged++
			if m[1] == "right" || m[1] == "debatable" {
				want = append(want, fmt.Sprintf("%s:%d %s", filepath.ToSlash(file), i+1, m[2]))
			}
		}
	}
	slices.Sort(want)
	return want, judged
}

// keptIn are the files of a manifest that is kept: itself, or those of a folder.
func keptIn(path string) (files []string) {
	_ = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, file)
		}
		return nil
	})
	return files
}

// TestFieldKept holds the findings that were judged to the manifests that are kept:
// each names one, which says the same of the same policy.
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
		said := ""
		path := filepath.Join(field, "manifests", manifest)
		for _, file := range append(keptIn(path), path+".yaml") {
			content, _ := os.ReadFile(file)
			said += string(content)
		}
		if !regexp.MustCompile(`(?m)# (was )?` + verdict + `: (.* )?` + policy + `( |$)`).MatchString(said) {
			t.Errorf("judged.tsv:%d: manifest %q does not say that %s is %s", i+2, manifest, policy, verdict)
		}
	}
}
