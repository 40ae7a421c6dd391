package lint_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
)

// TestLongInput reads more from standard input than is kept in memory, and
// leaves nothing behind.
func TestLongInput(t *testing.T) {
	race.Skip(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	var text strings.Builder
	for text.Len() < 3<<20 {
		text.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '" + strings.Repeat("x", 1000) + "'}\n---\n")
	}
	last := strings.Count(text.String(), "\n") + 1
	text.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n")
	r := run(t, lint.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text.String())})
	var got []int
	for _, f := range r.Findings {
		got = append(got, f.Place.Line)
	}
	if diff := cmp.Diff([]int{last + 3}, got); diff != "" {
		t.Errorf("lines of findings: -want, +got:\n%s", diff)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
