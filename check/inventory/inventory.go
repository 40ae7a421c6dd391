// Package inventory lists the objects that Argo CD or Flux deletes with one of its own objects: the inventory
// in the status, and whether it prunes. Sources: argo-cd (controller/appcontroller.go, shouldBeDeleted;
// controller/sort_delete.go) and kustomize-controller (finalizerShouldDeleteResources).
package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources with an inventory.
var (
	Applications    = schema.GroupResource{Group: "argoproj.io", Resource: "applications"}
	ApplicationSets = schema.GroupResource{Group: "argoproj.io", Resource: "applicationsets"}
	Kustomizations  = schema.GroupResource{Group: "kustomize.toolkit.fluxcd.io", Resource: "kustomizations"}
	HelmReleases    = schema.GroupResource{Group: "helm.toolkit.fluxcd.io", Resource: "helmreleases"}
)

// Resources are all of these.
var Resources = []schema.GroupResource{Applications, ApplicationSets, Kustomizations, HelmReleases}

// Entry is an object in an inventory.
type Entry struct {
	schema.GroupKind
	Namespace, Name string
	// Wave is the sync wave of Argo CD, which deletes the highest first.
	Wave int
}

// Inventory lists the objects that are deleted with an object.
type Inventory struct {
	Entries []Entry
	// By names the software that deletes them.
	By string
	// Waits says that one wave is deleted before the next begins.
	Waits bool
	// Foreground says that they are deleted in the foreground.
	Foreground bool
	// Stays says why nothing else is deleted, or "".
	Stays string
	// Kept returns why an object stays, by its annotations and labels.
	Kept func(*unstructured.Unstructured) string
}

// finalizer of an Application that deletes its resources, and its variants.
const finalizer = "resources-finalizer.argocd.argoproj.io"

// Application reads the inventory of an Application of Argo CD.
func Application(app *unstructured.Unstructured) Inventory {
	i := Inventory{By: "Argo CD", Waits: true, Foreground: true, Kept: keptByArgo}
	at := slices.IndexFunc(app.GetFinalizers(), func(f string) bool { return f == finalizer || strings.HasPrefix(f, finalizer+"/") })
	if at < 0 {
		i.Stays = "it does not have the finalizer " + finalizer + ": only the Application goes"
		return i
	}
	i.Foreground = app.GetFinalizers()[at] != finalizer+"/background"
	server, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server")
	name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "name")
	if server != "" && server != "https://kubernetes.default.svc" || name != "" && name != "in-cluster" {
		i.Stays = fmt.Sprintf("it deletes in the cluster %q: ask about that there", server+name)
		return i
	}
	for _, resource := range list(app, "status", "resources") {
		wave, _ := resource["syncWave"].(int64)
		e := Entry{schema.GroupKind{Group: text(resource, "group"), Kind: text(resource, "kind")}, text(resource, "namespace"), text(resource, "name"), int(wave)}
		definition := e.Group == "apiextensions.k8s.io" && e.Kind == "CustomResourceDefinition" // never deleted with an Application
		self := e.Group == Applications.Group && e.Kind == "Application" && e.Name == app.GetName() && e.Namespace == app.GetNamespace()
		if !definition && !self && e.Kind != "" && e.Name != "" {
			i.Entries = append(i.Entries, e)
		}
	}
	return i
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

// Kustomization reads the inventory of a Kustomization of Flux.
func Kustomization(k *unstructured.Unstructured) Inventory {
	i := Inventory{By: "Flux", Kept: keptByFlux}
	prune, _, _ := unstructured.NestedBool(k.Object, "spec", "prune")
	policy, _, _ := unstructured.NestedString(k.Object, "spec", "deletionPolicy")
	switch i.Stays = held(k); {
	case i.Stays != "":
	case policy == "Orphan":
		i.Stays = "its deletionPolicy is Orphan: only the Kustomization goes"
	case (policy == "" || policy == "MirrorPrune") && !prune:
		i.Stays = "it does not prune: only the Kustomization goes"
	}
	if i.Stays != "" {
		return i
	}
	for _, entry := range list(k, "status", "inventory", "entries") {
		if e, ok := parse(text(entry, "id")); ok {
			i.Entries = append(i.Entries, e)
		}
	}
	return i
}

// parse parses NAMESPACE_NAME_GROUP_KIND (cli-utils, pkg/object). RBAC names have two underscores for a
// colon.
func parse(id string) (Entry, bool) {
	namespace, rest, ok := strings.Cut(id, "_")
	at := strings.LastIndex(rest, "_")
	if !ok || at < 0 {
		return Entry{}, false
	}
	rest, kind := rest[:at], rest[at+1:]
	at = strings.LastIndex(rest, "_")
	if at < 1 || kind == "" {
		return Entry{}, false
	}
	return Entry{
		GroupKind: schema.GroupKind{Group: rest[at+1:], Kind: kind}, Namespace: namespace,
		Name: strings.ReplaceAll(rest[:at], "__", ":"),
	}, true
}

func keptByFlux(object *unstructured.Unstructured) string {
	for _, key := range []string{"kustomize.toolkit.fluxcd.io/prune", "kustomize.toolkit.fluxcd.io/reconcile"} {
		if strings.EqualFold(object.GetAnnotations()[key], "disabled") || strings.EqualFold(object.GetLabels()[key], "disabled") {
			return key + ": disabled"
		}
	}
	return ""
}

// HelmRelease returns the Helm release of a HelmRelease of Flux; stays says why none is deleted.
func HelmRelease(h *unstructured.Unstructured) (namespace, name, stays string) {
	if stays = held(h); stays != "" {
		return "", "", stays
	}
	history := list(h, "status", "history")
	if len(history) == 0 {
		return "", "", "it has no release yet: only the HelmRelease goes"
	}
	namespace, _, _ = unstructured.NestedString(h.Object, "status", "storageNamespace")
	return cmp.Or(namespace, h.GetNamespace()), text(history[0], "name"), ""
}

// held returns why Flux deletes nothing here.
func held(object *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); suspended {
		return "it is suspended: only the " + object.GetKind() + " goes"
	}
	if _, remote, _ := unstructured.NestedMap(object.Object, "spec", "kubeConfig"); remote {
		return "it deletes in the cluster of its kubeConfig: ask about that there"
	}
	return ""
}

// Owned returns the Applications that an ApplicationSet owns.
func Owned(set *unstructured.Unstructured, applications []unstructured.Unstructured) (owned []*unstructured.Unstructured) {
	for at := range applications {
		for _, owner := range applications[at].GetOwnerReferences() {
			if owner.UID == set.GetUID() {
				owned = append(owned, &applications[at])
			}
		}
	}
	return owned
}

func list(object *unstructured.Unstructured, path ...string) (items []map[string]any) {
	values, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	all, _ := values.([]any)
	for _, value := range all {
		if item, ok := value.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

func text(item map[string]any, key string) string {
	value, _ := item[key].(string)
	return value
}
