package lint

import (
	"cmp"
	"slices"

	"github.com/termguard/termguard/policies"
)

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
		f.Evidence = append(slices.Clone(f.Evidence), "it cannot be applied: Kubernetes has not served its API version since "+since)
	}
	if !a.set.run.isSelected(sub.File) && !a.set.run.isSelected(at.File) {
		return
	}
	p, _ := at.Find(field)
	placedFinding := Finding{Finding: f, Set: a.set.number, Question: question, Target: sub.id, Object: at.id, Place: placeOf(at.File, p, at.Source()), Value: p.Value}
	if b := a.set.build; b != nil && len(b.sources) > 0 {
		placedFinding.Kustomization = b.directory.Name
		if place, err := b.origin(at.Object, field, p.Value); err == nil {
			placedFinding.Place = place
		}
	}
	a.set.run.record(func() { a.set.run.findings = append(a.set.run.findings, placedFinding) })
}

// spansFiles reports whether other objects of a finding are in files that no kustomization combines with it.
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
