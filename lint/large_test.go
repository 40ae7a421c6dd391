package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestLargeSet reads a set up to 32 MiB of text, and refuses a larger one.
func TestLargeSet(t *testing.T) {
	race.Skip(t)
	big := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '" + strings.Repeat("x", 15<<20) + "'\n---\n"
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n---\n"
	cases := map[string]struct{ text, want string }{
		"up to it": {big + big + pod, "-:16:39 apply may long-grace-period: a delete may wait up to 900 s for pods/a: the grace period is 900 s"},
		"beyond":   {pod + big + big + big, "-:1:1 problem: more than 32 MiB of manifests are one set, and none of it is checked: lint parts of it one by one"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(tc.text)}})
			if diff := cmp.Diff([]string{tc.want}, lines(r)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
