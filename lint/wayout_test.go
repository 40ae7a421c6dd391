package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
)

// atCluster is what only somebody at a cluster can do, or is told there.
var atCluster = regexp.MustCompile(`kubectl|/var/lib/kubelet|(^|[.;:,] )[Ww]ait\b|[Bb]ring .* back|[Bb]ring back|tries again|finish(es)? by itself|too late|gone for good|\bLast, |, then delete`)

// TestWayOut holds that what a finding says to do is a change to the manifest, on all
// fixtures of all policies and all manifests that are kept of the field.
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
	r := run(t, lint.Options{Paths: []string{dir}, IncludeTests: true, KubernetesVersion: "v1.10.0"})
	told := map[string]bool{}
	for _, f := range r.Findings {
		told[f.Policy] = true
		texts := []string{f.Remedy}
		for _, step := range f.Steps {
			texts = append(texts, step.Do, step.Command)
		}
		for _, text := range texts {
			if said := atCluster.FindString(text); said != "" {
				t.Errorf("%s, %s: %q is no change to a manifest: %s", f.Policy, filepath.Base(f.Place.File), said, text)
			}
		}
	}
	if len(told) < 25 {
		t.Errorf("findings of %d policies, which is too few to mean anything", len(told))
	}
}
