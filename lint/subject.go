package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// isGitOps reports whether an object is Argo CD's or Flux's: its controllers and the deployed objects are
// usually elsewhere.
func isGitOps(o *files.Object) bool {
	group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
	return group == "argoproj.io" && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, o.Kind) || strings.HasSuffix(group, "toolkit.fluxcd.io")
}

// misspellingHint names the catalog's finalizer that an unknown one probably misspells, if any.
func (r *run) misspellingHint(o *files.Object, finalizer string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	return r.misspelling(finalizer, plural.GroupResource().String())
}

func (r *run) misspelling(finalizer, resource string) string {
	finalizers := cmp.Or(r.options.Catalog, catalog.Default())
	if _, ok := finalizers.Lookup(finalizer, resource); ok {
		return ""
	}
	var names []string
	for _, e := range finalizers.Entries() {
		if e.Finalizer == "" || !slices.Contains(e.On, resource) {
			continue
		}
		if strings.HasPrefix(finalizer, e.Finalizer+"/") {
			return "" // a form of it
		}
		if withoutDomain(e.Finalizer) == withoutDomain(finalizer) || nearest.IsTypo(finalizer, []string{e.Finalizer}) {
			names = append(names, e.Finalizer)
		}
	}
	if hint := nearest.Hint(finalizer, names); hint != "" {
		return "the catalog knows no such finalizer on " + resource + hint
	}
	return ""
}

func withoutDomain(finalizer string) string {
	if _, name, ok := strings.Cut(finalizer, "/"); ok {
		return name
	}
	name, _, _ := strings.Cut(finalizer, ".")
	return name
}

func (r *run) hasMisspeltFinalizer(o *files.Object) bool {
	return isGitOps(o) && slices.ContainsFunc(o.Finalizers(), func(name string) bool { return r.misspellingHint(o, name) != "" })
}

func (r *run) hintFor(o *files.Object, f policies.Finding) string {
	if f.Policy != "unowned-finalizer" {
		return ""
	}
	for i, name := range o.Finalizers() {
		if f.Field == fmt.Sprintf("metadata.finalizers[%d]", i) {
			return r.misspellingHint(o, name)
		}
	}
	return ""
}

type subject struct {
	*files.Object
	id          policies.Object
	target      answer.Subject
	object      *unstructured.Unstructured // as it would be in the cluster
	implied     bool                       // manifests name it, but do not contain it
	selfManaged bool                       // an Application that deploys its own Argo CD
	installedBy string                     // of an implied workload
}

func (e *evaluator) subjects(ctx context.Context) (subjects []*subject, err error) {
	for _, o := range e.Objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		u := e.object(o)
		if u == nil {
			continue
		}
		subjects = append(subjects, &subject{Object: o, object: u})
		if app := e.generatedApp(o, u.Object); app != nil {
			subjects = append(subjects, &subject{Object: o, object: &unstructured.Unstructured{Object: app}, implied: true})
		}
	}
	return subjects, nil
}

// object returns an object as it would be in the cluster, nil if it is not evaluated.
func (e *evaluator) object(o *files.Object) *unstructured.Unstructured {
	if schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group == "termguard.dev" {
		return nil // our own documents, as in fixtures
	}
	if strings.HasSuffix(o.Kind, "WebhookConfiguration") && e.PatchesWebhooks() {
		e.AddNote(sets.PatchedWebhooks, o.Name)
		return nil
	}
	value, err := e.Value(o)
	switch {
	case errors.Is(err, files.ErrTemplate):
		e.AddTemplate(o.File)
		return nil
	case err != nil:
		e.addProblem(o, err.Error())
		return nil
	}
	u := &unstructured.Unstructured{Object: value}
	if !wellFormed(value) || e.isLoosePatch(o, u) {
		return nil
	}
	if !cluster.Reduces(cluster.Resources([]*unstructured.Unstructured{u})[u.GroupVersionKind()]) {
		delete(value, "status") // a status from some cluster
	}
	if lacksRules(u) {
		e.AddNote(sets.IncompleteWebhooks, u.GetName())
	}
	return u
}

func (e *evaluator) addProblem(o *files.Object, message string) {
	at, _ := o.Find("")
	e.AddProblem(at, message)
}

// isLoosePatch reports whether an object is a patch that its kustomization does not name: a workload without
// the required selector, or webhooks without rules.
func (e *evaluator) isLoosePatch(o *files.Object, u *unstructured.Unstructured) bool {
	if e.IsListed(o.File) {
		return false
	}
	if o.APIVersion != "apps/v1" || o.Kind == "ControllerRevision" {
		return lacksRules(u)
	}
	_, selects, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "selector")
	return !selects
}

func wellFormed(value map[string]any) bool {
	metadata, ok := value["metadata"].(map[string]any)
	if !ok {
		return false
	}
	for _, m := range []map[string]any{value, metadata} {
		for _, key := range []string{"apiVersion", "kind", "name", "namespace", "generateName"} {
			if v, exists := m[key]; exists {
				if _, ok := v.(string); !ok && v != nil {
					return false
				}
			}
		}
	}
	return true
}

// lacksRules reports whether a webhook configuration lacks rules, which software fills in at run time.
func lacksRules(u *unstructured.Unstructured) bool {
	if !strings.HasSuffix(u.GetKind(), "WebhookConfiguration") {
		return false
	}
	webhooks := cluster.Items(u.Object, "webhooks")
	return len(webhooks) == 0 || slices.ContainsFunc(webhooks, func(hook map[string]any) bool { return len(cluster.Items(hook, "rules")) == 0 })
}
