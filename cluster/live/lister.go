package live

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
)

type lister interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func (c *Cluster) lister(res cluster.Resource, namespace string) lister {
	if !res.Namespaced {
		namespace = metav1.NamespaceAll
	}
	if slices.Contains(cluster.Whole(), res) {
		s := typedLister{client: c.rest[res.GroupVersion()], resource: res.Resource, namespace: namespace}
		if res.String() == events {
			s.selector = eventSelector
		}
		return s
	}
	if whole, _, _ := c.world.Role(res); whole { // of a kind that the scheme does not know: only names are kept
		return untyped[*unstructured.UnstructuredList]{c.dynamic.Resource(res.GroupVersionResource).Namespace(namespace)}
	}
	return untyped[*metav1.PartialObjectMetadataList]{c.metadata.Resource(res.GroupVersionResource).Namespace(namespace)}
}

type typedLister struct {
	client    rest.Interface
	resource  string
	namespace string // "" for all
	selector  string // of fields
}

func (s typedLister) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = s.selector
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Get()
}

func (s typedLister) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.FieldSelector = true, s.selector
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

type untyped[L runtime.Object] struct {
	client interface {
		List(ctx context.Context, options metav1.ListOptions) (L, error)
		Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	}
}

func (s untyped[L]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.client.List(ctx, options)
}

func (s untyped[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.client.Watch(ctx, options)
}
