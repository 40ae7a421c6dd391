package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// mergeSameCause merges findings of a set with the same cause, at the first of them.
func mergeSameCause(findings []Finding) []Finding {
	type key struct {
		policy string
		cause  policies.Object
	}
	first, more := map[key]int{}, map[key]int{}
	merged := findings[:0]
	for _, f := range findings {
		if f.Question == DeleteSet && len(f.Objects) > 1 {
			k := key{f.Policy, f.Objects[1]}
			if _, ok := first[k]; ok {
				more[k]++
				continue
			}
			first[k] = len(merged)
		}
		merged = append(merged, f)
	}
	for k, n := range more {
		f := &merged[first[k]]
		f.Evidence = append(slices.Clone(f.Evidence), fmt.Sprintf("the same is true of %s of this set", page.Count(n, "more object")))
	}
	return merged
}

// dropDuplicates keeps one finding per policy and place: preferably about the object there, then its
// namespace, and the worst.
func dropDuplicates(findings []Finding) []Finding {
	type key struct {
		policy, file string
		line, column int
	}
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
	best := map[key]Finding{}
	of := func(f Finding) key {
		k := key{f.Policy, f.Place.File, f.Place.Line, f.Place.Column}
		if f.Question == ApplyObject {
			k.policy += f.Message
		}
		return k
	}
	for _, f := range findings {
		if current, ok := best[of(f)]; !ok || cmp.Or(rank(f)-rank(current), f.Severity.Compare(current.Severity)) < 0 {
			best[of(f)] = f
		}
	}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		b := best[of(f)]
		return f.Target != b.Target || f.Question != b.Question
	})
}

// addFinding places a finding at its field in its first object if the set has that, else at the subject.
func (a *evaluator) addFinding(question Question, sub *subject, f policies.Finding) {
	if len(f.Objects) > 0 && !slices.ContainsFunc(f.Objects, func(o policies.Object) bool { return o.Resource != "pods" || a.index[o] != nil }) {
		return // pods of a workload: its template is evaluated by itself
	}
	at := sub
	if len(f.Objects) > 0 && f.Objects[0] != sub.id { // several files may hold one of that name
		if other := a.index[f.Objects[0]]; other != nil {
			at = other
		}
	}
	field := f.Field
	if at.implied {
		field = ""
	}
	f = forAuthor(f)
	if hint := a.set.hintFor(sub.Object, f); hint != "" {
		f.Evidence = append(slices.Clone(f.Evidence), hint)
	}
	if f.Severity == policies.None {
		return
	}
	if question == DeleteSet && a.spansFiles(sub, f.Objects) && f.Severity != policies.Info {
		f.Severity = policies.Low
		f.Evidence = append(slices.Clone(f.Evidence), "they are in several files, which no kustomization makes one: it depends on which of them are deleted together")
	}
	if a.set.run.isSuperseded(at.Object) && f.Severity != policies.Info {
		f.Severity = policies.Low
		f.Evidence = append(slices.Clone(f.Evidence), "no kustomization names this file, and one names another of its folder that has the same object")
	}
	if since := a.removedIn(append([]policies.Object{sub.id, at.id}, f.Objects...)); since != "" && f.Severity != policies.Info {
		f.Severity = policies.Low
		f.Evidence = append(slices.Clone(f.Evidence), "as it stands, nobody can apply it: Kubernetes has not served its API version since "+since)
	}
	if !a.set.run.isSelected(sub.File) && !a.set.run.isSelected(at.File) {
		return
	}
	p, _ := at.Find(field)
	placedFinding := Finding{Finding: f, Question: question, Target: sub.id, Object: at.id, Place: placeOf(at.File, p, at.Source()), Value: p.Value}
	if b := a.set.build; b != nil && len(b.sources) > 0 {
		placedFinding.Kustomization = b.directory.Name
		if place, err := b.origin(at.Object, field, p.Value); err == nil {
			placedFinding.Place = place
		}
	}
	s := a.set
	s.run.record(func() {
		if s.findings == nil {
			s.findings = &[]Finding{}
			s.run.findings = append(s.run.findings, s.findings)
		}
		*s.findings = append(*s.findings, placedFinding)
	})
}

// spansFiles reports whether other objects of a finding are in other files that only the folder combines: a
// kustomization may name others.
func (a *evaluator) spansFiles(sub *subject, objects []policies.Object) bool {
	return slices.ContainsFunc(objects, func(o policies.Object) bool {
		other := a.index[o]
		return other != nil && other.File != sub.File && (a.set.combinedByFolder() || !a.set.run.isInKustomization(sub.File) || !a.set.run.isInKustomization(other.File))
	})
}

func (a *evaluator) removedIn(objects []policies.Object) string {
	for _, o := range objects {
		if sub := a.index[o]; sub != nil && !sub.implied {
			if release := removedIn(sub.Written, sub.Kind, a.set.run.options.KubernetesVersion); release != "" {
				return release
			}
		}
	}
	return ""
}

func forAuthor(f policies.Finding) policies.Finding {
	f.Severity = cmp.Or(f.Manifest.Severity, f.Severity)
	if f.Manifest.Remedy != "" {
		f.Remedy, f.Steps = f.Manifest.Remedy, nil
	}
	return f
}
