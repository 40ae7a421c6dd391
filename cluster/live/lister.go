package live

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/termguard/termguard/cluster"
)

type lister = cache.ListerWatcherWithContext

func (c *Cluster) lister(res cluster.Resource, namespace string) lister {
	if !res.Namespaced {
		namespace = metav1.NamespaceAll
	}
	if slices.Contains(cluster.Whole(), res) {
		return cache.NewFilteredListWatchFromClient(c.rest[res.GroupVersion()], res.Resource, namespace, func(o *metav1.ListOptions) {
			if res.String() == events {
				o.FieldSelector = eventSelector
			}
		})
	}
	if whole, _, _ := c.world.Role(res); whole { // of a kind that the scheme does not know: only names are kept
		client := c.dynamic.Resource(res.GroupVersionResource).Namespace(namespace)
		return untyped(client.List, client.Watch)
	}
	client := c.metadata.Resource(res.GroupVersionResource).Namespace(namespace)
	return untyped(client.List, client.Watch)
}

func untyped[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), watch cache.WatchFuncWithContext) lister {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: watch,
	}
}
