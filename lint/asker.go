package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// impliedNamespaces returns the namespaces of the set's objects that are not in the set, each at the first
// object in it.
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

// evaluator evaluates the policies about the objects of a set.
type evaluator struct {
	set         *set
	engine      *policies.Engine
	facts       *cluster.Layers
	index       map[policies.Object]*subject
	deletionSet question.Set // of the set
	hookText    string       // the Helm hooks that run before the release is deleted, in lower case
}

// evaluateSubject evaluates the questions about a subject.
func (a *evaluator) evaluateSubject(ctx context.Context, sub *subject) error {
	if isGitOps(sub.Object) && len(sub.object.GetFinalizers()) == 0 {
		return nil
	}
	questions := a.questions(ctx, sub)
	if isGitOps(sub.Object) {
		// A set that includes its controllers is deleted together with them. An Application that deploys its
		// own controller deletes that, too.
		questions = slices.DeleteFunc(questions, func(q query) bool {
			return !(q.Question == DeleteSet && hasLiveOwner(q.owners) || q.Question == DeleteObject && sub.selfManaged || q.Question == ApplyObject && a.set.hasMisspeltFinalizer(sub.Object))
		})
	} else if a.set.run.isSelected(sub.File) {
		a.countUnknownOwners(questions[0].owners)
	}
	for _, q := range questions {
		if len(a.engine.Asked(q.trigger, q.input, q.facts)) == 0 {
			continue
		}
		if err := a.evaluate(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// hasLiveOwner reports whether the set has the owner of a finalizer of the object.
func hasLiveOwner(owners cluster.Verdicts) bool {
	for _, verdict := range owners.All() {
		if verdict.State == cluster.Alive {
			return true
		}
	}
	return false
}

// query is a question about a subject.
type query struct {
	Question
	subject *subject
	trigger policies.Trigger
	input   map[string]any
	owners  cluster.Verdicts
	facts   policies.Facts
}

func (a *evaluator) questions(ctx context.Context, sub *subject) []query {
	onDelete := DeleteObject
	if sub.resource.GroupResource() == question.Namespaces {
		onDelete = DeleteNamespace
	}
	var queries []query
	deletion := sub.target().Delete(deleteOptions)
	a.facts.Ask(deletion, func(m cluster.Moment) {
		owners := m.Ownership()
		// An object with an owner is written by that owner alone.
		if len(sub.object.GetOwnerReferences()) == 0 {
			creation := sub.target().Create()
			owners := a.completeOwners(ctx, sub, owners)
			queries = append(queries, query{ApplyObject, sub, policies.Apply, creation.Input(owners, m.About(creation).Refusals()), owners, a.facts})
		}
		input := deletion.Input(owners, m.Refusals())
		queries = append(queries, query{onDelete, sub, policies.Delete, input, owners, a.facts})
		if len(sub.object.GetFinalizers()) > 0 && len(a.index) > 1 && !a.deletedByHook(sub) {
			queries = append(queries, query{DeleteSet, sub, policies.Delete, input, owners, a.deletionFacts()})
		}
	})
	return queries
}

// completeOwners completes the verdicts on finalizers whose owner neither the catalog nor the domain surely
// names: no owner for a near miss of a catalog entry, which is misspelt, and else the project of that domain,
// if a file of the run runs it.
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

// deletedByHook reports whether a Helm hook deletes an object before the rest, its controller included: a hook
// that names its kind, as kubectl delete or the rules of a role do.
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

// deletionFacts returns the facts for the deletion of the whole set.
func (a *evaluator) deletionFacts() policies.Facts {
	if a.deletionSet.Empty() {
		for id := range a.index {
			a.deletionSet.Add(id.Resource, id.Namespace, id.Name, 0)
		}
	}
	return a.deletionSet.Over(a.facts)
}

// countUnknownOwners counts the finalizers whose owners only a cluster knows.
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

func (a *evaluator) evaluate(ctx context.Context, q query) error {
	sub := q.subject
	result, err := a.engine.Evaluate(ctx, q.trigger, q.input, q.facts)
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
		a.addFinding(q.Question, sub, f)
	}
	return nil
}

// deleteOptions are kubectl's; nothing changes them.
var deleteOptions = question.Background()
