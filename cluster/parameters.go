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

// errUnread is why an answer is left open.
var errUnread = errors.New("not read")

// readForPolicies reads what admission policies ask for, and tells whether they
// ask for anything. What cannot be read is left open.
func (l *Live) readForPolicies(ctx context.Context) bool {
	l.world.mu.RLock()
	questions := l.world.refusals.Questions()
	l.world.mu.RUnlock()
	answers, left := map[refusals.Question]refusals.Answer{}, maxRead
	for _, q := range questions {
		answer, err := l.read(ctx, q, left)
		if err != nil {
			l.log.Debug("what an admission policy reads is not known", "question", fmt.Sprint(q), "error", err)
			continue
		}
		left -= len(answer.Objects)
		answers[q] = answer
	}
	if ctx.Err() != nil {
		return false
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.world.refusals.Answer(answers)
	return len(questions) > 0
}

// read answers a question with at most limit objects.
func (l *Live) read(ctx context.Context, q refusals.Question, limit int) (refusals.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, firstSilence)
	defer cancel()
	res := Resource{GroupVersionResource: q.Resource, Namespaced: q.Namespace != ""}
	if !q.Kind.Empty() {
		list, err := l.discovery.ServerResourcesForGroupVersionWithContext(ctx, q.Kind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return refusals.Answer{}, fmt.Errorf("discover %s: %w", q.Kind.GroupVersion(), err)
		}
		found := false
		if list != nil {
			for _, api := range list.APIResources {
				if api.Kind == q.Kind.Kind && slices.Contains(api.Verbs, "list") {
					res, found = Resource{GroupVersionResource: q.Kind.GroupVersion().WithResource(api.Name), Namespaced: api.Namespaced}, true
				}
			}
		}
		if err := usable(q, res, found); err != nil {
			return refusals.Answer{Err: err}, nil
		}
	}
	if res.GroupResource() == (schema.GroupResource{Resource: "secrets"}) {
		return refusals.Answer{}, fmt.Errorf("%w: what is in secrets is nobody's business", errUnread)
	}
	options := metav1.ListOptions{LabelSelector: q.Selector, Limit: int64(limit) + 1}
	if q.Name != "" { // by a list: to get objects is no right that termguard has
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()
	}
	namespace := ""
	if res.Namespaced {
		namespace = q.Namespace
	}
	list, err := l.dynamic.Resource(res.GroupVersionResource).Namespace(namespace).List(ctx, options)
	switch {
	case err != nil:
		return refusals.Answer{}, err
	case len(list.Items) > limit || list.GetContinue() != "":
		return refusals.Answer{}, fmt.Errorf("%w: more than %d objects", errUnread, maxRead)
	}
	answer := refusals.Answer{}
	for i := range list.Items {
		answer.Objects = append(answer.Objects, &list.Items[i])
	}
	return answer, nil
}

// usable is why the API server cannot use parameters of a kind.
func usable(q refusals.Question, res Resource, served bool) error {
	switch {
	case !served:
		return refusals.ErrNotServed
	case res.Namespaced && q.Own && q.Namespace == "":
		return refusals.ErrNoNamespace
	case !res.Namespaced && !q.Own && q.Namespace != "":
		return refusals.ErrClusterScope
	}
	return nil
}

// readFrom answers from objects at hand what admission policies ask for their
// parameters, and, of manifests, which objects they and webhooks see. Of manifests, what
// they do not hold may be in the cluster. It tells whether anything is asked.
func (w *World) readFrom(all []*unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	questions := w.refusals.Questions()
	if len(questions) == 0 {
		w.refusals.Answer(nil)
		return false
	}
	scopes, mapped := defined(all, "spec", "scope"), resourcesOf(all)
	answers := map[refusals.Question]refusals.Answer{}
	left := maxRead
	for _, q := range questions {
		if q.Kind.Empty() {
			found, complete := w.seen(q, all, mapped, left)
			if complete {
				left -= len(found)
				answers[q] = refusals.Answer{Objects: found}
			}
			continue
		}
		scope := scopeOf(q.Kind, scopes)
		res := Resource{GroupVersionResource: mapped[q.Kind].GroupVersionResource, Namespaced: scope == apiextensionsv1.NamespaceScoped}
		selector, err := labels.Parse(q.Selector)
		if err != nil {
			continue // cannot happen: it was parsed before
		}
		answer := refusals.Answer{Err: usable(q, res, scope != "")}
		if answer.Err == nil {
			for _, obj := range all {
				if obj.GroupVersionKind() == q.Kind && (!res.Namespaced || obj.GetNamespace() == q.Namespace) &&
					(q.Name == "" || obj.GetName() == q.Name) && selector.Matches(labels.Set(obj.GetLabels())) {
					answer.Objects = append(answer.Objects, obj)
				}
			}
		}
		if w.options.manifests && (answer.Err != nil || len(answer.Objects) == 0) || slices.Contains(facts.BuiltinGroups(), q.Kind.Group) && q.Kind.Kind == "Secret" {
			continue
		}
		answers[q] = answer
	}
	w.refusals.Answer(answers)
	return true
}

// seen are the manifests that a question about objects asks for, unless there are more
// than limit.
func (w *World) seen(q refusals.Question, all []*unstructured.Unstructured, mapped map[schema.GroupVersionKind]Resource, limit int) (found []*unstructured.Unstructured, complete bool) {
	wanted := func(obj *unstructured.Unstructured) bool {
		return mapped[obj.GroupVersionKind()].GroupVersionResource == q.Resource && obj.GetNamespace() == q.Namespace && (q.Name == "" || obj.GetName() == q.Name)
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
