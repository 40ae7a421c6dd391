package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// atCluster matches advice that only a user of the cluster can follow.
var atCluster = regexp.MustCompile(`kubectl|/var/lib/kubelet|(^|[.;:,] )[Ww]ait\b|[Bb]ring .* back|[Bb]ring back|tries again|finish(es)? by itself|too late|gone for good|\bLast, |, then delete`)

// TestWayOut checks, on all fixtures of all policies and all kept manifests, that the advice of a
// finding is a change to the manifest.
func TestWayOut(t *testing.T) {
	race.Skip(t)
	fixtures, err := filepath.Glob("../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(field, "manifests", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, file := range append(fixtures, kept...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, fmt.Sprint(i)) // a set of its own
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, lint.Options{Input: sets.Options{Paths: []string{dir}, IncludeTests: true}, KubernetesVersion: "v1.10.0"})
	ids := map[string]bool{}
	for _, f := range r.Findings {
		ids[f.Policy] = true
		texts := []string{f.Remedy}
		for _, step := range f.Steps {
			texts = append(texts, step.Do, step.Command)
		}
		for _, text := range texts {
			if match := atCluster.FindString(text); match != "" {
				t.Errorf("%s, %s: %q is no change to a manifest: %s", f.Policy, filepath.Base(f.Place.File), match, text)
			}
		}
	}
	if len(ids) < 25 {
		t.Errorf("findings of only %d policies", len(ids))
	}
}
