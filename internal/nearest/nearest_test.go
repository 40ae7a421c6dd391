package nearest_test

import (
	"testing"

	"github.com/termguard/termguard/internal/nearest"
)

func TestHint(t *testing.T) {
	candidates := []string{"job", "pods", "nodes", "orphaned-finalizer"}
	for name, want := range map[string]string{
		"jop":                `; did you mean "job"?`,
		"podz":               `; did you mean "pods"?`,
		"ndoes":              `; did you mean "nodes"?`,
		"orphaned-finaliser": `; did you mean "orphaned-finalizer"?`,
		"foo":                "", // one letter of three is not a typo
		"x":                  "",
		"":                   "",
	} {
		if got := nearest.Hint(name, candidates); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
