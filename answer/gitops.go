package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

const maxInventory = 1000

// Argo CD and Flux delete the objects in the status of these. Sources: argo-cd (controller/appcontroller.go,
// shouldBeDeleted; controller/sort_delete.go) and kustomize-controller (finalizerShouldDeleteResources).
var (
	applications    = schema.GroupResource{Group: "argoproj.io", Resource: "applications"}
	applicationSets = schema.GroupResource{Group: "argoproj.io", Resource: "applicationsets"}
	kustomizations  = schema.GroupResource{Group: "kustomize.toolkit.fluxcd.io", Resource: "kustomizations"}
	helmReleases    = schema.GroupResource{Group: "helm.toolkit.fluxcd.io", Resource: "helmreleases"}
)

// FromInventory returns the question about the object, and what Argo CD or Flux deletes with it if it is theirs.
func FromInventory(ctx context.Context, config *rest.Config, name Name) (Question, error) {
	types, err := Served(ctx, config)
	if err != nil {
		return Question{}, err
	}
	alone := Question{Names: []Name{name}, Types: &types}
	s := Subject{Name: name.Name, Namespace: name.Namespace}
	if s.Type, err = types.Find(name.Resource); err != nil { // evaluating it reports the error
		return alone, nil //nolint:nilerr
	}
	resource := s.Type.GroupResource()
	if !slices.Contains([]schema.GroupResource{applications, applicationSets, kustomizations, helmReleases}, resource) {
		return alone, nil
	}
	q := Question{Types: &types, As: AsPrune, Together: true}
	client, err := Client(config)
	if err != nil {
		return q, err
	}
	switch err := s.read(ctx, client); {
	case Gone(err):
		return alone, nil
	case err != nil:
		return q, err
	case len(s.Unseen) > 0:
		q.Names, q.Of, q.Unseen = []Name{name}, s.String(), s.Unseen
		return q, nil
	}
	object := &unstructured.Unstructured{Object: s.Object}
	switch resource {
	case applications:
		q.application(object)
		if heals, _, _ := unstructured.NestedBool(s.Object, "spec", "syncPolicy", "automated", "selfHeal"); heals {
			unheal := &policies.Action{
				Verb: policies.VerbPatch, Objects: []string{resource.String() + "/" + s.Name}, Namespace: s.Namespace,
				Type: "merge", Patch: json.RawMessage(`{"spec":{"syncPolicy":{"automated":null}}}`),
			}
			q.first = []Step{{Step: policies.Step{
				Kind: policies.Mend, Do: "Stop Argo CD from recreating what is deleted by hand", Command: unheal.Command(), Action: unheal,
			}}}
		}
	case applicationSets:
		resource := applications.WithVersion(s.Type.Version)
		list, err := client.Resource(resource).Namespace(s.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			q.Unseen = []policies.Unseen{{Resource: applications.String(), Reason: "forbidden"}}
		case err != nil:
			return q, fmt.Errorf("list the Applications of %s: %w", s, Explain(err))
		default:
			q.applicationsOf(object, list.Items)
		}
	case kustomizations:
		q.kustomization(object)
	case helmReleases:
		namespace, release, stays := helmRelease(object)
		if stays != "" {
			q.Notes = []string{stays}
		} else if q, err = FromRelease(ctx, config, namespace, release); err != nil {
			return q, err
		}
	}
	q.Types = &types
	if len(q.Names)+len(q.Notes)+len(q.Unseen) == 0 {
		return alone, nil
	}
	q.Of, q.Command = s.String(), policies.Deletion(s.ID()).Command()
	q.close(name)
	return q, nil
}

// argoFinalizer makes Argo CD delete the resources of an Application; it has variants.
const argoFinalizer = "resources-finalizer.argocd.argoproj.io"

// application adds the highest sync wave first.
func (q *Question) application(app *unstructured.Unstructured) {
	q.By, q.Waits, q.kept = "Argo CD", true, keptByArgo
	at := slices.IndexFunc(app.GetFinalizers(), func(f string) bool { return f == argoFinalizer || strings.HasPrefix(f, argoFinalizer+"/") })
	background := at >= 0 && app.GetFinalizers()[at] == argoFinalizer+"/background"
	if !background {
		q.Options = question.DeleteOptions(metav1.DeletePropagationForeground)
	}
	server, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server")
	name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "name")
	switch {
	case at < 0:
		q.Notes = append(q.Notes, "it does not have the finalizer "+argoFinalizer+": only the Application is deleted")
		return
	case server != "" && server != "https://kubernetes.default.svc" || name != "" && name != "in-cluster":
		q.Notes = append(q.Notes, fmt.Sprintf("it deletes in cluster %q: check there", server+name))
		return
	}
	var names []Name
	for _, resource := range cluster.Items(app.Object, "status", "resources") {
		wave, _ := resource["syncWave"].(int64)
		kind := schema.GroupKind{Group: stringAt(resource, "group"), Kind: stringAt(resource, "kind")}
		o := Name{Object: policies.Object{Resource: typeOf(kind), Namespace: stringAt(resource, "namespace"), Name: stringAt(resource, "name")}, Place: -int(wave)}
		self := o.Resource == "application.argoproj.io" && o.Name == app.GetName() && o.Namespace == app.GetNamespace()
		definition := o.Resource == "customresourcedefinition.apiextensions.k8s.io" // never deleted with an Application
		if !self && !definition && kind.Kind != "" && o.Name != "" {
			names = append(names, o)
		}
	}
	q.take(names, app.GetNamespace())
}

func (q *Question) applicationsOf(set *unstructured.Unstructured, all []unstructured.Unstructured) {
	owned := 0
	for i := range all {
		app := &all[i]
		if slices.ContainsFunc(app.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == set.GetUID() }) {
			owned++
			q.application(app)
			q.close(Name{Object: policies.Object{Resource: applications.String(), Namespace: set.GetNamespace(), Name: app.GetName()}})
		}
	}
	if owned > 1 { // each has its own waves
		q.Waits = false
		for i := range q.Names {
			q.Names[i].Place = 0
		}
	}
}

func keptByArgo(object *unstructured.Unstructured) string {
	annotations := object.GetAnnotations()
	for key, option := range map[string]string{"argocd.argoproj.io/sync-options": "Delete=false", "helm.sh/resource-policy": "keep"} {
		for value := range strings.SplitSeq(annotations[key], ",") {
			if strings.TrimSpace(value) == option {
				return key + ": " + option
			}
		}
	}
	return ""
}

func (q *Question) kustomization(k *unstructured.Unstructured) {
	q.By, q.kept = "Flux", keptByFlux
	prune, _, _ := unstructured.NestedBool(k.Object, "spec", "prune")
	policy, _, _ := unstructured.NestedString(k.Object, "spec", "deletionPolicy")
	stays := staysWithFlux(k)
	switch {
	case stays != "":
	case policy == "Orphan":
		stays = "its deletionPolicy is Orphan: only the Kustomization is deleted"
	case (policy == "" || policy == "MirrorPrune") && !prune:
		stays = "it does not prune: only the Kustomization is deleted"
	}
	if stays != "" {
		q.Notes = []string{stays}
		return
	}
	var names []Name
	for _, entry := range cluster.Items(k.Object, "status", "inventory", "entries") {
		if name, ok := parseEntry(stringAt(entry, "id")); ok {
			names = append(names, name)
		}
	}
	q.take(names, k.GetNamespace())
	if len(q.Names) > 0 {
		interval, _, _ := unstructured.NestedString(k.Object, "spec", "interval")
		q.Notes = append(q.Notes, fmt.Sprintf("Flux recreates objects that are deleted by hand at its next interval (%s): delete the Kustomization first", interval))
	}
}

// parseEntry parses NAMESPACE_NAME_GROUP_KIND; RBAC names have __ for a colon (cli-utils, pkg/object).
func parseEntry(id string) (Name, bool) {
	parts := strings.Split(id, "_")
	last := len(parts) - 1
	if last < 3 {
		return Name{}, false
	}
	name, kind := strings.Join(parts[1:last-1], "_"), schema.GroupKind{Group: parts[last-1], Kind: parts[last]}
	o := policies.Object{Resource: typeOf(kind), Namespace: parts[0], Name: strings.ReplaceAll(name, "__", ":")}
	return Name{Object: o}, name != "" && kind.Kind != ""
}

func keptByFlux(object *unstructured.Unstructured) string {
	for _, key := range []string{"kustomize.toolkit.fluxcd.io/prune", "kustomize.toolkit.fluxcd.io/reconcile"} {
		if strings.EqualFold(object.GetAnnotations()[key], "disabled") || strings.EqualFold(object.GetLabels()[key], "disabled") {
			return key + ": disabled"
		}
	}
	return ""
}

// helmRelease says in stays why no release is deleted.
func helmRelease(h *unstructured.Unstructured) (namespace, name, stays string) {
	if stays = staysWithFlux(h); stays != "" {
		return "", "", stays
	}
	history := cluster.Items(h.Object, "status", "history")
	if len(history) == 0 {
		return "", "", "it has no release yet: only the HelmRelease is deleted"
	}
	namespace, _, _ = unstructured.NestedString(h.Object, "status", "storageNamespace")
	return cmp.Or(namespace, h.GetNamespace()), stringAt(history[0], "name"), ""
}

func staysWithFlux(object *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); suspended {
		return "it is suspended: only the " + object.GetKind() + " is deleted"
	}
	if _, remote, _ := unstructured.NestedMap(object.Object, "spec", "kubeConfig"); remote {
		return "it deletes in the cluster of its kubeConfig: check there"
	}
	return ""
}

// take puts likely blockers first; namespace is the default.
func (q *Question) take(names []Name, namespace string) {
	builtin := cluster.BuiltinGroups()
	rank := func(n Name) int {
		if _, group, _ := strings.Cut(n.Resource, "."); slices.Contains(builtin, group) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(a, b Name) int { return cmp.Compare(rank(a), rank(b)) })
	left := max(0, maxInventory-len(q.Names))
	if beyond := len(names) - left; beyond > 0 {
		q.Unseen = append(q.Unseen, policies.Unseen{What: fmt.Sprintf("%d of the %d objects in the inventory", beyond, len(names)), Reason: fmt.Sprintf("only %d are checked", maxInventory)})
		names = names[:left]
	}
	for _, name := range names {
		name.Namespace = cmp.Or(name.Namespace, namespace)
		q.Names = append(q.Names, name)
	}
}

// close adds the owner, which is deleted last.
func (q *Question) close(name Name) {
	for _, other := range q.Names {
		name.Place = max(name.Place, other.Place+1)
	}
	q.Names = append(q.Names, name)
}

// settle leaves out targets that the command keeps by their annotations.
func (q *Question) settle() (left []Subject, notes []string) {
	for _, s := range q.Targets {
		why := ""
		if q.kept != nil {
			why = q.kept(&unstructured.Unstructured{Object: s.Object})
		}
		if why == "" {
			left = append(left, s)
			continue
		}
		notes = append(notes, fmt.Sprintf("it leaves %s: %s", s, why))
	}
	return left, notes
}

func stringAt(item map[string]any, key string) string {
	value, _ := item[key].(string)
	return value
}
