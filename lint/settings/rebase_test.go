package settings

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRebase(t *testing.T) {
	cases := map[string]struct {
		reason   string
		from, to string
		patterns []string
		want     []string
	}{
		"Same":    {"Nothing to do.", "/r", "/r", []string{"a", "b/c"}, []string{"a", "b/c"}},
		"Below":   {"The configuration is further down.", "/r/a", "/r", []string{"x", "b/c", "/d/", "!k"}, []string{"/a/**/x", "/a/b/c", "/a/d/", "!/a/**/k"}},
		"Beside":  {"It is elsewhere.", "/r/a", "/r/b", []string{"x"}, []string{"/../a/**/x"}},
		"Above":   {"It is further up.", "/r", "/r/a/b", []string{"x", "a/b/c", "a/*/d", "z/c"}, []string{"/../../**/x", "/**/x", "/../../a/b/c", "/c", "/../../a/*/d", "/d", "/../../z/c"}},
		"Itself":  {"All that was given is read all the same.", "/r", "/r/a", []string{"a/"}, []string{"/../**/a/", "/**/a/"}},
		"Through": {"Two stars stay.", "/r", "/r/a/b", []string{"a/**/c"}, []string{"/../../a/**/c", "/**/c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Rebase(tc.patterns, tc.from, tc.to)); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
