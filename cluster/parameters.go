package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
)

const (
	// readInterval is how often the parameters of admission policies are read.
	readInterval = 10 * time.Second
	// maxRead bounds the objects that are read for admission policies, as
	// parameters or as what they would see.
	maxRead = 500
	// readRounds bounds how often Collect reads what policies ask for when they
	// know the answers so far: the objects, after the parameters.
	readRounds = 3
)

// errUnread is why a lookup is left open.
var errUnread = errors.New("not read")

// readForPolicies reads what admission policies ask for, and tells whether they
// ask for anything. What cannot be read is left open.
func (l *Live) readForPolicies(ctx context.Context) bool {
	l.world.mu.RLock()
	lookups := l.world.refusals.Lookups()
	l.world.mu.RUnlock()
	all, left := map[refusals.Lookup]refusals.Found{}, maxRead
	for _, lookup := range lookups {
		found, err := l.read(ctx, lookup, left)
		if err != nil {
			l.log.Debug("what an admission policy reads is not known", "lookup", fmt.Sprint(lookup), "error", err)
			continue
		}
		left -= len(found.Objects)
		all[lookup] = found
	}
	if ctx.Err() != nil {
		return false
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.world.refusals.TakeIn(all)
	return len(lookups) > 0
}

// read looks up at most limit objects.
func (l *Live) read(ctx context.Context, lookup refusals.Lookup, limit int) (refusals.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, firstSilence)
	defer cancel()
	res := Resource{GroupVersionResource: lookup.Resource, Namespaced: lookup.Namespace != ""}
	if !lookup.Kind.Empty() {
		list, err := l.discovery.ServerResourcesForGroupVersionWithContext(ctx, lookup.Kind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return refusals.Found{}, fmt.Errorf("discover %s: %w", lookup.Kind.GroupVersion(), err)
		}
		served := false
		if list != nil {
			for _, api := range list.APIResources {
				if api.Kind == lookup.Kind.Kind && slices.Contains(api.Verbs, "list") {
					res, served = Resource{GroupVersionResource: lookup.Kind.GroupVersion().WithResource(api.Name), Namespaced: api.Namespaced}, true
				}
			}
		}
		if err := usable(lookup, res, served); err != nil {
			return refusals.Found{Err: err}, nil
		}
	}
	if res.GroupResource() == (schema.GroupResource{Resource: "secrets"}) {
		return refusals.Found{}, fmt.Errorf("%w: what is in secrets is nobody's business", errUnread)
	}
	options := metav1.ListOptions{LabelSelector: lookup.Selector, Limit: int64(limit) + 1}
	if lookup.Name != "" { // by a list: to get objects is no right that termguard has
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, lookup.Name).String()
	}
	namespace := ""
	if res.Namespaced {
		namespace = lookup.Namespace
	}
	list, err := l.dynamic.Resource(res.GroupVersionResource).Namespace(namespace).List(ctx, options)
	switch {
	case err != nil:
		return refusals.Found{}, err
	case len(list.Items) > limit || list.GetContinue() != "":
		return refusals.Found{}, fmt.Errorf("%w: more than %d objects", errUnread, maxRead)
	}
	found := refusals.Found{}
	for i := range list.Items {
		found.Objects = append(found.Objects, &list.Items[i])
	}
	return found, nil
}

// usable is why the API server cannot use parameters of a kind.
func usable(lookup refusals.Lookup, res Resource, served bool) error {
	switch {
	case !served:
		return refusals.ErrNotServed
	case res.Namespaced && lookup.Own && lookup.Namespace == "":
		return refusals.ErrNoNamespace
	case !res.Namespaced && !lookup.Own && lookup.Namespace != "":
		return refusals.ErrClusterScope
	}
	return nil
}

// readFrom looks up among objects at hand the parameters of admission policies, and, of
// manifests, which objects they and webhooks see. Of manifests, what they do not hold may
// be in the cluster. It tells whether anything is looked up.
func (w *World) readFrom(all []*unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lookups := w.refusals.Lookups()
	if len(lookups) == 0 {
		w.refusals.TakeIn(nil)
		return false
	}
	scopes, mapped := defined(all, "spec", "scope"), resourcesOf(all)
	looked, left := map[refusals.Lookup]refusals.Found{}, maxRead
	for _, lookup := range lookups {
		if lookup.Kind.Empty() {
			found, complete := w.seen(lookup, all, mapped, left)
			if complete {
				left -= len(found)
				looked[lookup] = refusals.Found{Objects: found}
			}
			continue
		}
		scope := scopeOf(lookup.Kind, scopes)
		res := Resource{GroupVersionResource: mapped[lookup.Kind].GroupVersionResource, Namespaced: scope == apiextensionsv1.NamespaceScoped}
		selector, err := labels.Parse(lookup.Selector)
		if err != nil {
			continue // cannot happen: it was parsed before
		}
		found := refusals.Found{Err: usable(lookup, res, scope != "")}
		if found.Err == nil {
			for _, obj := range all {
				if obj.GroupVersionKind() == lookup.Kind && (!res.Namespaced || obj.GetNamespace() == lookup.Namespace) &&
					(lookup.Name == "" || obj.GetName() == lookup.Name) && selector.Matches(labels.Set(obj.GetLabels())) {
					found.Objects = append(found.Objects, obj)
				}
			}
		}
		if w.options.manifests && (found.Err != nil || len(found.Objects) == 0) || slices.Contains(facts.BuiltinGroups(), lookup.Kind.Group) && lookup.Kind.Kind == "Secret" {
			continue
		}
		looked[lookup] = found
	}
	w.refusals.TakeIn(looked)
	return true
}

// seen are the manifests that a lookup of objects finds, unless there are more than limit.
func (w *World) seen(lookup refusals.Lookup, all []*unstructured.Unstructured, mapped map[schema.GroupVersionKind]Resource, limit int) (found []*unstructured.Unstructured, complete bool) {
	wanted := func(obj *unstructured.Unstructured) bool {
		return mapped[obj.GroupVersionKind()].GroupVersionResource == lookup.Resource && obj.GetNamespace() == lookup.Namespace && (lookup.Name == "" || obj.GetName() == lookup.Name)
	}
	for _, obj := range all {
		if wanted(obj) {
			found = append(found, w.options.whole(obj))
		}
		if len(found) > limit {
			return nil, false
		}
	}
	for obj := range w.options.further {
		if wanted(obj) {
			found = append(found, obj)
		}
		if len(found) > limit {
			return nil, false
		}
	}
	return found, true
}
