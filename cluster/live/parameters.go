package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/refusals"
)

// readInterval is between reads of policies' parameters.
const readInterval = 10 * time.Second

var errUnread = errors.New("not read")

// readForPolicies performs lookups of policies, and reports whether there are any. Failed ones stay open.
func (c *Cluster) readForPolicies(ctx context.Context) bool {
	lookups := c.world.Lookups()
	all, left := map[refusals.Lookup]refusals.LookupResult{}, cluster.MaxRead
	for _, lookup := range lookups {
		result, err := c.read(ctx, lookup, left)
		if err != nil {
			c.log.Debug("the objects that an admission policy reads are unseen", "lookup", fmt.Sprint(lookup), "error", err)
			continue
		}
		left -= len(result.Objects)
		all[lookup] = result
	}
	if ctx.Err() != nil {
		return false
	}
	c.world.TakeIn(all)
	return len(lookups) > 0
}

func (c *Cluster) read(ctx context.Context, lookup refusals.Lookup, limit int) (refusals.LookupResult, error) {
	ctx, cancel := context.WithTimeout(ctx, firstSilence)
	defer cancel()
	res := cluster.Resource{GroupVersionResource: lookup.Resource, Namespaced: lookup.Namespace != ""}
	if !lookup.Kind.Empty() {
		list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, lookup.Kind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return refusals.LookupResult{}, fmt.Errorf("discover %s: %w", lookup.Kind.GroupVersion(), err)
		}
		served := false
		if list != nil {
			for _, api := range list.APIResources {
				if api.Kind == lookup.Kind.Kind && slices.Contains(api.Verbs, "list") {
					res, served = cluster.Resource{GroupVersionResource: lookup.Kind.GroupVersion().WithResource(api.Name), Namespaced: api.Namespaced}, true
				}
			}
		}
		if err := lookup.Usable(res.Namespaced, served); err != nil {
			return refusals.LookupResult{Err: err}, nil
		}
	}
	if res.GroupResource() == (schema.GroupResource{Resource: "secrets"}) {
		return refusals.LookupResult{}, fmt.Errorf("%w: termguard reads no Secrets", errUnread)
	}
	options := metav1.ListOptions{LabelSelector: lookup.Selector, Limit: int64(limit) + 1}
	if lookup.Name != "" { // by a list: termguard lacks the right to get objects
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, lookup.Name).String()
	}
	namespace := ""
	if res.Namespaced {
		namespace = lookup.Namespace
	}
	list, err := c.dynamic.Resource(res.GroupVersionResource).Namespace(namespace).List(ctx, options)
	switch {
	case err != nil:
		return refusals.LookupResult{}, err
	case len(list.Items) > limit || list.GetContinue() != "":
		return refusals.LookupResult{}, fmt.Errorf("%w: more than %d objects", errUnread, cluster.MaxRead)
	}
	result := refusals.LookupResult{}
	for i := range list.Items {
		result.Objects = append(result.Objects, &list.Items[i])
	}
	return result, nil
}
