package scan

import (
	"slices"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/policies"
)

// releaseType names a release: no API serves it.
const releaseType = "releases.helm.sh"

// releaseOf returns the question about the uninstall of a release.
func releaseOf(r *check.Release) candidate {
	return candidate{kind: Releases, release: r, subject: func() check.Subject {
		s := check.Subject{Namespace: r.Namespace, Name: r.Name}
		s.Type.Group, s.Type.Resource = "helm.sh", "releases"
		return s
	}}
}

// whole sums up the answers about a release's objects in one report, and keeps them as parts.
func (a *answer) whole(set check.Set) check.Report {
	whole := check.Report{
		Target:  policies.Object{Resource: releaseType, Namespace: a.release.Namespace, Name: a.release.Name},
		Verdict: set.Verdict, Unseen: slices.Clone(set.Unseen),
	}
	a.parts = nil
	for _, item := range set.Items {
		if item.Verdict == policies.Completes {
			continue
		}
		whole.Findings = append(whole.Findings, item.Findings...)
		for _, unseen := range item.Unseen {
			if !slices.Contains(whole.Unseen, unseen) {
				whole.Unseen = append(whole.Unseen, unseen)
			}
		}
		a.parts = append(a.parts, answer{query: query{candidate{kind: resources[item.Target.Resource]}, a.place}, report: item, answered: true})
	}
	return whole
}

// holdsPartsOf returns the causes that block objects of a release, and with them the release.
func (g *grouping) holdsPartsOf(a *answer) (held []Hold, parts []Part) {
	held = []Hold{}
	for i := range a.parts {
		part := &a.parts[i]
		row := Part{part.report.Target, part.report.Verdict, g.holds(part)}
		parts = append(parts, row)
		for _, h := range row.HeldBy {
			h.Objects = slices.Concat([]policies.Object{row.Target}, h.Objects)
			h.Objects = h.Objects[:min(len(h.Objects), maxBlockers)]
			held = add(held, h)
		}
	}
	if len(held) == 0 && a.report.Verdict == policies.Unknown {
		held = append(held, g.unknown(a))
	}
	return held, parts
}
