package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// addFinding places a finding at its field in its first object if the set has that, else at the subject.
func (e *evaluator) addFinding(question Question, sub *subject, f policies.Finding) {
	if len(f.Objects) > 0 && !slices.ContainsFunc(f.Objects, func(o policies.Object) bool { return o.Resource != "pods" || e.index[o] != nil }) {
		return // pods of a workload: its template is evaluated by itself
	}
	at := sub
	if len(f.Objects) > 0 && f.Objects[0] != sub.id { // several files may hold one of that name
		if other := e.index[f.Objects[0]]; other != nil {
			at = other
		}
	}
	f = forAuthor(f)
	if hint := e.run.hintFor(sub.Object, f); hint != "" {
		f.Evidence = append(slices.Clone(f.Evidence), hint)
	}
	for _, o := range f.Objects {
		if other := e.index[o]; other != nil && other.installedBy != "" {
			f.Evidence = append(slices.Clone(f.Evidence), fmt.Sprintf("%s installs %s %s", other.installedBy, other.target.Type.Kind, other.target.Name))
		}
	}
	if f.Severity == policies.None {
		return
	}
	var doubts []string
	if question == DeleteSet && e.spansFiles(sub, f.Objects) {
		doubts = append(doubts, "they are in several files, which no kustomization makes one: it depends on which of them are deleted together")
	}
	if e.IsSuperseded(at.Object) {
		doubts = append(doubts, "no kustomization names this file, and one names another of its folder that has the same object")
	}
	if since := e.removedIn(append([]policies.Object{sub.id, at.id}, f.Objects...)); since != "" {
		doubts = append(doubts, "it cannot be applied: Kubernetes has not served its API version since "+since)
	}
	if len(doubts) > 0 && f.Severity != policies.Info {
		f.Severity = policies.Low
		f.Evidence = slices.Concat(f.Evidence, doubts)
	}
	if !e.IsSelected(sub.File) && !e.IsSelected(at.File) {
		return
	}
	field := f.Field
	if at.implied {
		field = ""
	}
	place, kustomization := e.Place(at.Object, field)
	finding := Finding{Finding: f, Set: e.Number, Question: question, Target: sub.id, Object: at.id, Place: place, Kustomization: kustomization}
	e.Record(func() { e.run.findings = append(e.run.findings, finding) })
}

// spansFiles reports whether other objects of a finding are in files that no kustomization combines with it.
func (e *evaluator) spansFiles(sub *subject, objects []policies.Object) bool {
	return slices.ContainsFunc(objects, func(o policies.Object) bool {
		other := e.index[o]
		return other != nil && other.File != sub.File && (e.ByFolder() || !e.IsListed(sub.File) || !e.IsListed(other.File))
	})
}

func (e *evaluator) removedIn(objects []policies.Object) string {
	for _, o := range objects {
		if sub := e.index[o]; sub != nil && !sub.implied {
			if release := sets.RemovedIn(sub.Written, sub.Kind, e.run.options.KubernetesVersion); release != "" {
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
