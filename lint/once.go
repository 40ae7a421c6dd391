package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// once keeps the first of the findings that share a cause. others are the rest, by its index.
func once(findings []Finding, causesOf func(Finding) []any) (kept []Finding, others map[int][]Finding) {
	at, others := map[any]int{}, map[int][]Finding{}
	for _, f := range findings {
		causes := causesOf(f)
		index := len(kept)
		for _, cause := range causes {
			if first, ok := at[cause]; ok {
				index = min(index, first)
			}
		}
		for _, cause := range causes {
			at[cause] = index
		}
		if index == len(kept) {
			kept = append(kept, f)
		} else {
			others[index] = append(others[index], f)
		}
	}
	return kept, others
}

// byPlace keeps a policy's finding at each place, preferably about the object there, then its namespace.
func byPlace(findings []Finding) []Finding {
	rank := func(f Finding) int {
		switch {
		case f.Certainty == policies.Will && f.Target == f.Object:
			return 0
		case f.Certainty == policies.Will:
			return 1
		case f.Target == f.Object:
			return 2
		case f.Question == DeleteNamespace:
			return 3
		}
		return 4
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(rank(a)-rank(b), a.Severity.Compare(b.Severity), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Question, b.Question), slices.Compare(a.Evidence, b.Evidence))
	})
	type cause struct {
		policy, message, file string
		line, column          int
	}
	kept, others := once(findings, func(f Finding) []any {
		here := cause{policy: f.Policy, file: f.Place.File, line: f.Place.Line, column: f.Place.Column}
		same := here
		same.message = f.Message
		if f.Question == ApplyObject && f.Kustomization == "" { // the API server may object to several things
			return []any{same}
		}
		return []any{here, same}
	})
	for i, f := range kept {
		if f.Kustomization == "" {
			continue
		}
		names := []string{f.Kustomization}
		for _, other := range others[i] {
			names = append(names, other.Kustomization)
		}
		kept[i].Evidence = append(slices.Clone(f.Evidence), "applied by "+sets.JoinFirst(names))
	}
	slices.SortFunc(kept, func(a, b Finding) int {
		return cmp.Or(a.Place.Compare(b.Place), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Question, b.Question))
	})
	return kept
}

const maxPlaces = 3

// ByCause keeps the first finding for each cause in another object, per set or as the policy says, and for
// copies of one manifest. Ignores and baselines apply before.
func ByCause(findings []Finding) []Finding {
	type cause struct {
		policy          string
		object, target  policies.Object
		message, reason string
		set             int64
	}
	kept, others := once(findings, func(f Finding) (causes []any) {
		if f.Question == "" { // about an ignore
			return nil
		}
		causes = append(causes, cause{policy: f.Policy, object: f.Object, target: f.Target, message: f.Message, reason: strings.Join(f.Evidence, "\n")})
		switch {
		case len(f.Objects) < 2:
		case f.Manifest.Once:
			causes = append(causes, cause{policy: f.Policy, object: f.Objects[1]})
		case f.Question == DeleteSet:
			causes = append(causes, cause{policy: f.Policy, object: f.Objects[1], set: f.Set})
		}
		return causes
	})
	for i, same := range others {
		var places []string
		for _, f := range same {
			places = append(places, fmt.Sprintf("%s:%d", f.Place.File, f.Place.Line))
		}
		kept[i].Evidence = append(slices.Clone(kept[i].Evidence), "the same at "+page.List(places, maxPlaces))
	}
	return kept
}
