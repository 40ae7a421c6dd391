package cluster

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/cluster/refusals"
)

const (
	// MaxRead bounds the objects read for admission policies.
	MaxRead = 500
	// ReadRounds bounds the rounds of lookups: objects depend on parameters.
	ReadRounds = 3
)

// AskForObjects adds to Lookups the objects of a namespace, "" for all, that policies and webhooks see.
func (w *World) AskForObjects(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals.AskForObjects(namespace)
}

// Lookups returns the lookups of admission policies, and of operators' settings.
func (w *World) Lookups() []refusals.Lookup {
	w.mu.RLock()
	defer w.mu.RUnlock()
	lookups := w.refusals.Lookups()
	for _, at := range w.ownership.Settings() {
		lookups = append(lookups, holding(at))
	}
	return lookups
}

func holding(at ownership.Setting) refusals.Lookup {
	return refusals.Lookup{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: at.Namespace, Name: at.Name}
}

// TakeIn sets the results of Lookups. Missing ones stay open.
func (w *World) TakeIn(results map[refusals.Lookup]refusals.LookupResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	settings := map[ownership.Setting]string{}
	for _, at := range w.ownership.Settings() {
		if of, exists := results[holding(at)]; exists && len(of.Objects) == 1 {
			settings[at], _, _ = unstructured.NestedString(of.Objects[0].Object, "data", at.Key)
		}
	}
	w.ownership.TakeSettings(settings)
	maps.DeleteFunc(results, func(l refusals.Lookup, _ refusals.LookupResult) bool { return l.Kind.Empty() && l.Name != "" }) // the settings
	w.refusals.TakeIn(results)
}

// readFrom reports whether there were lookups. Objects missing from manifests may exist in the cluster.
func (w *World) readFrom(all []*unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lookups := w.refusals.Lookups()
	if len(lookups) == 0 {
		w.refusals.TakeIn(nil)
		return false
	}
	scopes, mapped := Defined(all, "spec", "scope"), Resources(all)
	results, left := map[refusals.Lookup]refusals.LookupResult{}, MaxRead
	for _, lookup := range lookups {
		var result refusals.LookupResult
		namespaced, is := true, func(obj *unstructured.Unstructured) bool {
			return mapped[obj.GroupVersionKind()].GroupVersionResource == lookup.Resource
		}
		parameters := !lookup.Kind.Empty()
		if parameters {
			scope := ScopeOf(lookup.Kind, scopes)
			namespaced = scope == apiextensionsv1.NamespaceScoped
			selector, err := labels.Parse(lookup.Selector)
			if err != nil {
				continue // it was parsed before
			}
			result.Err = lookup.Usable(namespaced, scope != "")
			is = func(obj *unstructured.Unstructured) bool {
				return obj.GroupVersionKind() == lookup.Kind && selector.Matches(labels.Set(obj.GetLabels()))
			}
		}
		for _, obj := range all {
			if result.Err == nil && is(obj) && (!namespaced || obj.GetNamespace() == lookup.Namespace) && (lookup.Name == "" || obj.GetName() == lookup.Name) {
				result.Objects = append(result.Objects, obj)
			}
		}
		switch {
		case parameters && (w.options.Manifests != nil && len(result.Objects) == 0 || lookup.Kind.Kind == "Secret" && slices.Contains(facts.BuiltinGroups(), lookup.Kind.Group)):
			continue
		case !parameters && len(result.Objects) > left:
			continue
		case !parameters:
			left -= len(result.Objects)
		}
		results[lookup] = result
	}
	w.refusals.TakeIn(results)
	return true
}

// onlyManifests limits webhooks to the manifests that they match.
func (w *World) onlyManifests(all []*unstructured.Unstructured) {
	w.mu.Lock()
	resources := sync.OnceValue(func() map[schema.GroupVersionKind]Resource { return Resources(all) })
	w.refusals.OnlyManifests(func(is func(resource schema.GroupVersionResource, namespace string, labels map[string]string) bool) bool {
		return slices.ContainsFunc(all, func(obj *unstructured.Unstructured) bool {
			return is(resources()[obj.GroupVersionKind()].GroupVersionResource, obj.GetNamespace(), obj.GetLabels())
		})
	})
	w.mu.Unlock()
	w.Settle()
}
