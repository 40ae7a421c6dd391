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
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

type evaluator struct {
	set      *set
	engine   *policies.Engine
	world    *cluster.World
	index    map[policies.Object]*subject
	hookText string // Helm hooks that run before the release is deleted, in lower case
}

// impliedNamespaces returns the set's missing namespaces, each at its first object.
func (a *evaluator) impliedNamespaces(subjects []*subject) (implied []*subject) {
	for _, sub := range subjects {
		name := sub.target.Namespace
		if name == "" || a.index[policies.Object{Resource: "namespaces", Name: name}] != nil || question.Immortal(name) {
			continue
		}
		namespace := &subject{Object: sub.Object, implied: true, object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
		}}}
		a.add(namespace, cluster.Resource{GroupVersionResource: question.Namespaces.WithVersion("v1")})
		implied = append(implied, namespace)
	}
	return implied
}

func (a *evaluator) add(sub *subject, resource cluster.Resource) {
	kind := sub.object.GroupVersionKind()
	sub.target = answer.Subject{
		Type:      answer.Type{GroupVersionResource: kind.GroupVersion().WithResource(resource.Resource), Kind: kind.Kind},
		Namespace: sub.object.GetNamespace(), Name: sub.object.GetName(), Object: sub.object.Object,
	}
	sub.id = sub.target.ID()
	a.index[sub.id] = sub
}

// evaluate omits deletions of GitOps objects, whose controllers are elsewhere, except in a set with both, and
// of Applications that deploy their own.
func (a *evaluator) evaluate(ctx context.Context, subjects []*subject) error {
	var applied, deleted, together []*subject
	for _, sub := range subjects {
		gitOps, finalizers := isGitOps(sub.Object), sub.object.GetFinalizers()
		if gitOps && len(finalizers) == 0 {
			continue
		}
		var owners cluster.Verdicts
		if len(finalizers) > 0 || sub.id.Resource == question.Namespaces.Resource {
			owners = a.owners(sub)
		}
		if !gitOps && a.set.run.isSelected(sub.File) {
			a.noteUnknown(owners)
		}
		ownerWrites := len(sub.object.GetOwnerReferences()) > 0
		if !ownerWrites && (!gitOps || a.set.hasMisspeltFinalizer(sub.Object)) {
			applied = append(applied, sub)
		}
		if !gitOps || sub.selfManaged {
			deleted = append(deleted, sub)
		}
		if len(finalizers) > 0 && len(a.index) > 1 && !a.deletedByHook(sub) && (!gitOps || hasLiveOwner(owners)) {
			together = append(together, sub)
		}
	}
	if err := a.ask(ctx, ApplyObject, applied, answer.Question{As: answer.AsApply}); err != nil {
		return err
	}
	if err := a.ask(ctx, DeleteObject, deleted, answer.Question{Options: question.Background()}); err != nil {
		return err
	}
	return a.ask(ctx, DeleteSet, together, answer.Question{Options: question.Background(), Together: true, Beside: slices.Collect(maps.Keys(a.index))})
}

func (a *evaluator) ask(ctx context.Context, as Question, subjects []*subject, q answer.Question) error {
	if len(subjects) == 0 {
		return nil
	}
	for _, sub := range subjects {
		q.Targets = append(q.Targets, sub.target)
	}
	reply, err := answer.Ask(ctx, a.engine, a.world, q)
	if err != nil {
		return err
	}
	for i, item := range reply.Items {
		sub, as := subjects[i], as
		if as == DeleteObject && item.Target.Resource == question.Namespaces.Resource {
			as = DeleteNamespace
		}
		for _, id := range item.Unasked {
			a.set.run.note(userPolicy, id)
		}
		for _, err := range item.Failed {
			a.set.addProblem(sub.Object, err.Error())
		}
		for _, f := range item.Findings {
			a.addFinding(as, sub, f)
		}
	}
	return nil
}

func (a *evaluator) owners(sub *subject) (owners cluster.Verdicts) {
	a.world.Ask(sub.target.Deletion(nil), func(m cluster.Moment) { owners = m.Ownership() })
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

func (a *evaluator) noteUnknown(owners cluster.Verdicts) {
	names := map[string]bool{}
	for _, verdict := range owners.All() {
		if verdict.State == cluster.Unasked && verdict.Owner != "" {
			names[verdict.Owner] = true
		}
	}
	for owner := range names {
		a.set.run.note(unknownOwner, owner)
	}
}

// deletedByHook reports whether a Helm hook names an object's kind, as in kubectl delete or a role's rules:
// it is deleted before its controller.
func (a *evaluator) deletedByHook(sub *subject) bool {
	if a.hookText == "" {
		for _, o := range a.set.deleteHooks {
			if value, err := o.Value(); err == nil {
				text, _ := json.Marshal(value)
				a.hookText += strings.ToLower(string(text))
			}
		}
	}
	plural, kind := regexp.QuoteMeta(sub.target.Type.Resource), regexp.QuoteMeta(strings.ToLower(sub.Kind))
	return a.hookText != "" && regexp.MustCompile(`\b(`+plural+`|delete[^a-z]+`+kind+`)\b`).MatchString(a.hookText)
}
