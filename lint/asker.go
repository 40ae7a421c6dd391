package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// impliedNamespaces returns the namespaces that the set lacks, each at the first object in it.
func (a *evaluator) impliedNamespaces(subjects []*subject) []*subject {
	var missing []*subject
	for _, sub := range subjects {
		id := policies.Object{Resource: "namespaces", Name: sub.id.Namespace}
		if id.Name == "" || a.index[id] != nil || question.Immortal(id.Name) {
			continue
		}
		namespace := &subject{Object: sub.Object, id: id, resource: &namespaces, implied: true, object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": id.Name, "labels": map[string]any{"kubernetes.io/metadata.name": id.Name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
		}}}
		a.index[id] = namespace
		missing = append(missing, namespace)
	}
	return missing
}

var namespaces = cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}

type evaluator struct {
	set         *set
	engine      *policies.Engine
	facts       *cluster.Layers
	index       map[policies.Object]*subject
	deletionSet question.Set
	hookText    string // Helm hooks that run before the release is deleted, in lower case
}

// evaluateSubject evaluates a subject. A GitOps object's controllers are elsewhere: its deletion hangs only
// with them, in a set with both, or if it is an Application that deploys its own.
func (a *evaluator) evaluateSubject(ctx context.Context, sub *subject) error {
	gitOps, finalizers := isGitOps(sub.Object), sub.object.GetFinalizers()
	if gitOps && len(finalizers) == 0 {
		return nil
	}
	deletion, creation := sub.target().Delete(question.Background()), sub.target().Create()
	applied := len(sub.object.GetOwnerReferences()) == 0 // else its owner writes it
	var owners, appliedOwners cluster.Verdicts
	var deletionInput, creationInput map[string]any
	a.facts.Ask(deletion, func(m cluster.Moment) {
		owners = m.Ownership()
		appliedOwners = owners
		deletionInput = deletion.Input(owners, m.Refusals())
		if applied {
			appliedOwners = a.completeOwners(ctx, sub, owners)
			creationInput = creation.Input(appliedOwners, m.About(creation).Refusals())
		}
	})
	if !gitOps && a.set.run.isSelected(sub.File) {
		a.countUnknownOwners(appliedOwners)
	}
	if applied && (!gitOps || a.set.hasMisspeltFinalizer(sub.Object)) {
		if err := a.evaluate(ctx, sub, ApplyObject, policies.Apply, creationInput, a.facts); err != nil {
			return err
		}
	}
	onDelete := DeleteObject
	if sub.resource.GroupResource() == question.Namespaces {
		onDelete = DeleteNamespace
	}
	if !gitOps || sub.selfManaged {
		if err := a.evaluate(ctx, sub, onDelete, policies.Delete, deletionInput, a.facts); err != nil {
			return err
		}
	}
	if len(finalizers) == 0 || len(a.index) <= 1 || a.deletedByHook(sub) || gitOps && !hasLiveOwner(owners) {
		return nil
	}
	if a.deletionSet.Empty() {
		for id := range a.index {
			a.deletionSet.Add(id.Resource, id.Namespace, id.Name, 0)
		}
	}
	return a.evaluate(ctx, sub, DeleteSet, policies.Delete, deletionInput, a.deletionSet.Over(a.facts))
}

func (a *evaluator) evaluate(ctx context.Context, sub *subject, q Question, trigger policies.Trigger, input map[string]any, facts policies.Facts) error {
	if len(a.engine.Asked(trigger, input, facts)) == 0 {
		return nil
	}
	result, err := a.engine.Evaluate(ctx, trigger, input, facts)
	if err != nil {
		return fmt.Errorf("ask the policies about %s %s: %w", sub.Kind, sub.Name, err)
	}
	for _, id := range result.UserReaders {
		a.set.run.note(userPolicy, id)
	}
	result = result.OfNobody() // no manifest names the user who sends the request
	for _, err := range result.Errors {
		a.set.addProblem(sub.Object, err.Error())
	}
	for _, f := range result.Findings {
		a.addFinding(q, sub, f)
	}
	return nil
}

func hasLiveOwner(owners cluster.Verdicts) bool {
	for _, verdict := range owners.All() {
		if verdict.State == cluster.Alive {
			return true
		}
	}
	return false
}

// completeOwners sets owners that neither the catalog nor the domain surely names: none for a misspelt
// catalog entry, else the project of that domain, if a file of the run runs it.
func (a *evaluator) completeOwners(ctx context.Context, sub *subject, owners cluster.Verdicts) cluster.Verdicts {
	for finalizer, verdict := range owners.All() {
		entry, ok := owners[finalizer].(map[string]any)
		if !ok || verdict.State != cluster.Unasked {
			continue
		}
		owner := verdict.Owner
		if a.set.misspellingHint(sub.Object, finalizer) != "" {
			owner = ""
		} else if owner == "" {
			owner = a.set.run.ownerByDomain(ctx, finalizer)
		}
		if owner != verdict.Owner {
			entry, owners = maps.Clone(entry), maps.Clone(owners)
			entry["owner"], owners[finalizer] = owner, entry
		}
	}
	return owners
}

// deletedByHook reports whether a Helm hook that names an object's kind, as kubectl delete or a role's rules
// do, deletes it before the rest, its controller included.
func (a *evaluator) deletedByHook(sub *subject) bool {
	if a.hookText == "" {
		for _, o := range a.set.deleteHooks {
			if value, err := o.Value(); err == nil {
				text, _ := json.Marshal(value)
				a.hookText += strings.ToLower(string(text))
			}
		}
	}
	plural, kind := regexp.QuoteMeta(sub.resource.Resource), regexp.QuoteMeta(strings.ToLower(sub.Kind))
	return a.hookText != "" && regexp.MustCompile(`\b(`+plural+`|delete[^a-z]+`+kind+`)\b`).MatchString(a.hookText)
}

func (a *evaluator) countUnknownOwners(owners cluster.Verdicts) {
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
