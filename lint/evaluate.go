package lint

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/manifests"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

type evaluator struct {
	*sets.Manifests
	run      *run
	engine   *policies.Engine
	world    *cluster.World
	index    map[policies.Object]*subject
	hookText string // Helm hooks that run before the release is deleted, in lower case
}

func (r *run) evaluate(ctx context.Context, m *sets.Manifests) error {
	if len(m.Objects) == 0 {
		return nil
	}
	engine, err := r.engine()
	if err != nil {
		return err
	}
	snapshot, err := r.snapshot()
	if err != nil {
		return err
	}
	e := &evaluator{Manifests: m, run: r, engine: engine, index: map[policies.Object]*subject{}}
	subjects, err := e.subjects(ctx)
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for _, sub := range subjects {
		objects = append(objects, sub.object)
	}
	objects = append(objects, r.definitionsInOtherFiles(objects)...)
	objects = append(objects, e.selfManagedControllers(subjects)...)
	installed := e.installed(subjects)
	for _, sub := range installed {
		objects = append(objects, sub.object)
	}
	set := manifests.Set{
		Objects:   objects,
		Namespace: m.Chart(),
		Others:    func(w catalog.Workload) bool { return r.runsWorkload(ctx, w) },
		Owner:     func(finalizer, resource, owner string) string { return r.ownerOf(ctx, finalizer, resource, owner) },
	}
	if m.Chart() == "" { // a chart has its own workloads, in a namespace that we name
		set.Elsewhere = func(namespace string) []*unstructured.Unstructured { return r.workloads()[namespace] }
	}
	e.world, err = manifests.Apply(cluster.Options{Owners: r.options.Owners, Catalog: r.options.Catalog}, r.options.KubernetesVersion, set)
	if err != nil {
		return err
	}
	if snapshot != nil {
		e.world.Over(snapshot)
	}
	resources := cluster.Resources(objects)
	for _, sub := range append(installed, subjects...) {
		e.add(sub, resources[sub.object.GroupVersionKind()])
	}
	return e.evaluate(ctx, append(subjects, e.impliedNamespaces(subjects)...))
}

// impliedNamespaces returns the set's missing namespaces, each at its first object.
func (e *evaluator) impliedNamespaces(subjects []*subject) (implied []*subject) {
	for _, sub := range subjects {
		name := sub.target.Namespace
		if name == "" || e.index[policies.Object{Resource: "namespaces", Name: name}] != nil || question.Immortal(name) {
			continue
		}
		namespace := &subject{Object: sub.Object, implied: true, object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
		}}}
		e.add(namespace, cluster.Resource{GroupVersionResource: question.Namespaces.WithVersion("v1")})
		implied = append(implied, namespace)
	}
	return implied
}

func (e *evaluator) add(sub *subject, resource cluster.Resource) {
	kind := sub.object.GroupVersionKind()
	sub.target = answer.Subject{
		Type:      answer.Type{GroupVersionResource: kind.GroupVersion().WithResource(resource.Resource), Kind: kind.Kind},
		Namespace: sub.object.GetNamespace(), Name: sub.object.GetName(), Object: sub.object.Object,
	}
	sub.id = sub.target.ID()
	e.index[sub.id] = sub
}

// evaluate omits deletions of GitOps objects, whose controllers are elsewhere, except in a set with both, and
// of Applications that deploy their own.
func (e *evaluator) evaluate(ctx context.Context, subjects []*subject) error {
	var applied, deleted, together []*subject
	for _, sub := range subjects {
		gitOps, finalizers := isGitOps(sub.Object), sub.object.GetFinalizers()
		if gitOps && len(finalizers) == 0 {
			continue
		}
		var owners cluster.Verdicts
		if len(finalizers) > 0 || sub.id.Resource == question.Namespaces.Resource {
			owners = e.owners(sub)
		}
		if !gitOps && e.IsSelected(sub.File) {
			e.noteUnknown(owners)
		}
		ownerWrites := len(sub.object.GetOwnerReferences()) > 0
		if !ownerWrites && (!gitOps || e.run.hasMisspeltFinalizer(sub.Object)) {
			applied = append(applied, sub)
		}
		if !gitOps || sub.selfManaged {
			deleted = append(deleted, sub)
		}
		if len(finalizers) > 0 && len(e.index) > 1 && !e.deletedByHook(sub) && (!gitOps || hasLiveOwner(owners)) {
			together = append(together, sub)
		}
	}
	if err := e.ask(ctx, ApplyObject, applied, answer.Question{As: answer.AsApply}); err != nil {
		return err
	}
	if err := e.ask(ctx, DeleteObject, deleted, answer.Question{Options: question.Background()}); err != nil {
		return err
	}
	return e.ask(ctx, DeleteSet, together, answer.Question{Options: question.Background(), Together: true, Beside: slices.Collect(maps.Keys(e.index))})
}

func (e *evaluator) ask(ctx context.Context, as Question, subjects []*subject, q answer.Question) error {
	if len(subjects) == 0 {
		return nil
	}
	for _, sub := range subjects {
		q.Targets = append(q.Targets, sub.target)
	}
	reply, err := answer.Ask(ctx, e.engine, e.world, q)
	if err != nil {
		return err
	}
	for i, item := range reply.Items {
		sub, as := subjects[i], as
		if as == DeleteObject && item.Target.Resource == question.Namespaces.Resource {
			as = DeleteNamespace
		}
		for _, id := range item.Unasked {
			e.AddNote(sets.UserPolicy, id)
		}
		for _, err := range item.Failed {
			e.addProblem(sub.Object, err.Error())
		}
		for _, f := range item.Findings {
			e.addFinding(as, sub, f)
		}
	}
	return nil
}

func (e *evaluator) owners(sub *subject) (owners cluster.Verdicts) {
	e.world.Ask(sub.target.Deletion(nil), func(m cluster.Moment) { owners = m.Ownership() })
	return owners
}

func hasLiveOwner(owners cluster.Verdicts) bool {
	for _, verdict := range owners.All() {
		if verdict.State == cluster.Alive {
			return true
		}
	}
	return false
}

func (e *evaluator) noteUnknown(owners cluster.Verdicts) {
	names := map[string]bool{}
	for _, verdict := range owners.All() {
		if verdict.State == cluster.Unasked && verdict.Owner != "" {
			names[verdict.Owner] = true
		}
	}
	for owner := range names {
		e.AddNote(sets.UnknownOwner, owner)
	}
}

// deletedByHook reports whether a Helm hook names an object's kind, as in kubectl delete or a role's rules:
// it is deleted before its controller.
func (e *evaluator) deletedByHook(sub *subject) bool {
	if e.hookText == "" {
		for _, o := range e.DeleteHooks {
			if value, err := o.Value(); err == nil {
				text, _ := json.Marshal(value)
				e.hookText += strings.ToLower(string(text))
			}
		}
	}
	plural, kind := regexp.QuoteMeta(sub.target.Type.Resource), regexp.QuoteMeta(strings.ToLower(sub.Kind))
	return e.hookText != "" && regexp.MustCompile(`\b(`+plural+`|delete[^a-z]+`+kind+`)\b`).MatchString(e.hookText)
}
