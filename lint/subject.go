package lint

import (
	"cmp"
	"errors"
	"fmt"
	"path"
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
	"github.com/termguard/termguard/policies"
)

// isGitOps reports whether an object is Argo CD's or Flux's: its controllers and the deployed objects are
// usually elsewhere.
func isGitOps(o *files.Object) bool {
	group, _ := path.Split(o.APIVersion)
	group = strings.TrimSuffix(group, "/")
	return group == "argoproj.io" && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, o.Kind) || strings.HasSuffix(group, "toolkit.fluxcd.io")
}

// misspellingHint names the catalog's finalizer that an unknown one probably misspells, if any.
func (s *set) misspellingHint(o *files.Object, finalizer string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	return s.run.misspelling(finalizer, plural.GroupResource().String())
}

func (r *run) misspelling(finalizer, resource string) string {
	finalizers := cmp.Or(r.options.Catalog, catalog.Default())
	if _, found := finalizers.Lookup(finalizer, resource); found {
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
		if withoutDomain(e.Finalizer) == withoutDomain(finalizer) || nearest.Misspelt(finalizer, []string{e.Finalizer}) {
			names = append(names, e.Finalizer)
		}
	}
	if hint := nearest.Hint(finalizer, names); hint != "" {
		return "the catalog knows no such finalizer on " + resource + hint
	}
	return ""
}

func withoutDomain(finalizer string) string {
	if _, name, found := strings.Cut(finalizer, "/"); found {
		return name
	}
	name, _, _ := strings.Cut(finalizer, ".")
	return name
}

func (s *set) hasMisspeltFinalizer(o *files.Object) bool {
	return isGitOps(o) && slices.ContainsFunc(o.Finalizers(), func(name string) bool { return s.misspellingHint(o, name) != "" })
}

func (s *set) hintFor(o *files.Object, f policies.Finding) string {
	if f.Policy != "unowned-finalizer" {
		return ""
	}
	for i, name := range o.Finalizers() {
		if f.Field == fmt.Sprintf("metadata.finalizers[%d]", i) {
			return s.misspellingHint(o, name)
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
}

func (s *set) subject(o *files.Object) *subject {
	if schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group == "termguard.dev" {
		return nil // our own documents, as in fixtures
	}
	if strings.HasSuffix(o.Kind, "WebhookConfiguration") && slices.ContainsFunc(s.directories, func(d *files.Directory) bool { return s.run.kustomizations[d.Path].patchesWebhooks() }) {
		s.run.note(patchedWebhooks, o.Name)
		return nil
	}
	value, err := s.value(o)
	switch {
	case errors.Is(err, files.ErrTemplate):
		s.addTemplate(o.File)
		return nil
	case err != nil:
		s.addProblem(o, err.Error())
		return nil
	}
	if !wellFormed(value) {
		return nil
	}
	u := &unstructured.Unstructured{Object: value}
	if !cluster.Reduces(cluster.Resources([]*unstructured.Unstructured{u})[u.GroupVersionKind()]) {
		delete(value, "status") // a status from some cluster
	}
	if s.isLoosePatch(o, u) {
		return nil
	}
	if lacksRules(u) {
		s.run.note(incompleteWebhooks, u.GetName())
	}
	return &subject{Object: o, object: u}
}

// isLoosePatch reports whether an object is a patch that its kustomization does not name: a workload without
// the required selector, or webhooks without rules.
func (s *set) isLoosePatch(o *files.Object, u *unstructured.Unstructured) bool {
	if s.run.isInKustomization(o.File) {
		return false
	}
	if o.APIVersion != "apps/v1" || o.Kind == "ControllerRevision" {
		return lacksRules(u)
	}
	_, selects, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "selector")
	return !selects
}

// value returns an object's content in its final namespace.
func (s *set) value(o *files.Object) (map[string]any, error) {
	value, err := o.Value()
	if err != nil {
		return value, err
	}
	modernize(value)
	namespace := s.run.kustomizations[s.folder()].Namespace
	if namespace == "" {
		return value, nil
	}
	replacePlaceholder(value, namespace)
	if metadata, ok := value["metadata"].(map[string]any); ok && o.Kind == "Namespace" && metadata["name"] == placeholder {
		metadata["name"] = namespace
	}
	return value, nil
}

func wellFormed(value map[string]any) bool {
	metadata, ok := value["metadata"].(map[string]any)
	if !ok {
		return false
	}
	for _, m := range []map[string]any{value, metadata} {
		for _, key := range []string{"apiVersion", "kind", "name", "namespace", "generateName"} {
			if v, found := m[key]; found {
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
