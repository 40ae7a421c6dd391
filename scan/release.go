package scan

import (
	"slices"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/policies"
)

// releaseOf returns the question about the uninstall of a release.
func releaseOf(r *check.Release) candidate {
	return candidate{kind: Releases, release: r, subject: func() check.Subject {
		s := check.Subject{Namespace: r.Namespace, Name: r.Name}
		s.Type.Group, s.Type.Resource = "helm.sh", "releases"
		return s
	}}
}

// whole sums up the answer about a release's objects in one item, and keeps them as parts.
func (a *answer) whole(of check.Answer) {
	a.item = check.Item{Target: a.subject().ID(), Verdict: of.Verdict, Unseen: of.Unseen}
	for _, item := range of.Items {
		if item.Verdict == policies.Completes {
			continue
		}
		a.item.Findings = append(a.item.Findings, item.Findings...)
		for _, unseen := range item.Unseen {
			if !slices.Contains(a.item.Unseen, unseen) {
				a.item.Unseen = append(a.item.Unseen, unseen)
			}
		}
		a.parts = append(a.parts, answer{query: query{candidate{kind: resources[item.Target.Resource]}, a.place}, item: item, answered: true})
	}
}

// holdsParts returns the causes that block objects of a release, and with them the release.
func (g *grouping) holdsParts(a *answer) (by []check.Hold, parts []check.Item) {
	by = []check.Hold{}
	for i := range a.parts {
		part, _ := g.holds(&a.parts[i])
		row := held(a.parts[i].item, "", part, nil)
		parts = append(parts, row)
		for _, h := range part {
			h.Objects = slices.Concat([]policies.Object{row.Target}, h.Objects)
			h.Objects = h.Objects[:min(len(h.Objects), maxBlockers)]
			by = add(by, h)
		}
	}
	return by, parts
}
