package triage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/policies"
)

// maxPlaces bounds the places that a finding names beside its own.
const maxPlaces = 3

// Bundle tells once what several findings of a policy say of the same cause, where
// the policy says that they are one: at the first place, with the others named.
// Ignores and baselines have been held against each before. prints are fingerprints,
// in the order of the findings.
func Bundle(findings []lint.Finding, prints []string) ([]lint.Finding, []string) {
	type cause struct {
		policy   string
		severity policies.Severity
		object   policies.Object
	}
	first, more := map[cause]int{}, map[int][]string{}
	var kept []lint.Finding
	var keptPrints []string
	for i, f := range findings {
		if f.Manifest.Once && len(f.Objects) > 1 {
			c := cause{f.Policy, f.Severity, f.Objects[1]}
			at, again := first[c]
			if again {
				more[at] = append(more[at], fmt.Sprintf("%s:%d", f.Place.File, f.Place.Line))
				continue
			}
			first[c] = len(kept)
		}
		kept, keptPrints = append(kept, f), append(keptPrints, prints[i])
	}
	for at, places := range more {
		others := strings.Join(places[:min(len(places), maxPlaces)], ", ")
		if n := len(places) - maxPlaces; n > 0 {
			others += fmt.Sprintf(" and %d more", n)
		}
		kept[at].Evidence = append(slices.Clone(kept[at].Evidence), "so it is at "+others)
	}
	return kept, keptPrints
}
