package triage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// maxPlaces bounds the places beside a finding's own.
const maxPlaces = 3

// Bundle merges a policy's findings about the same cause, if the policy says that they are one, or about
// copies of one manifest. Ignores and baselines apply before.
func Bundle(findings []lint.Finding) []lint.Finding {
	type cause struct {
		policy          string
		severity        policies.Severity
		object, target  policies.Object
		message, reason string
	}
	first, more := map[cause]int{}, map[int][]string{}
	copies := map[int]int{}
	var bundled []lint.Finding
	for _, f := range findings {
		c := cause{policy: f.Policy, severity: f.Severity, object: f.Object, target: f.Target, message: f.Message, reason: strings.Join(f.Evidence, "\n")}
		if at, ok := first[c]; ok && f.Question != "" {
			copies[at]++
			more[at] = append(more[at], fmt.Sprintf("%s:%d", f.Place.File, f.Place.Line))
			continue
		}
		if f.Manifest.Once && len(f.Objects) > 1 {
			one := cause{policy: f.Policy, severity: f.Severity, object: f.Objects[1]}
			if at, ok := first[one]; ok {
				first[c] = at // its copies have the same cause
				more[at] = append(more[at], fmt.Sprintf("%s:%d", f.Place.File, f.Place.Line))
				continue
			}
			first[one] = len(bundled)
		}
		first[c] = len(bundled)
		bundled = append(bundled, f)
	}
	for at, places := range more {
		others := page.List(places, maxPlaces)
		text := "the same at " + others
		if n := copies[at]; n > 0 && n == len(places) {
			text = fmt.Sprintf("the same in %d copies of this manifest: also at %s", n+1, others)
		}
		bundled[at].Evidence = append(slices.Clone(bundled[at].Evidence), text)
	}
	return bundled
}
