package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// Apply is kubectl apply --server-side --force-conflicts, and returns once discovery includes any
// definitions. kubectl would take a third of a second of CPU time, mostly for schemas.
func (l *Lab) Apply(ctx context.Context, manifests string) error {
	a, err := newApplier(l)
	if err != nil {
		return err
	}
	var errs []error
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader("---\n"+manifests), 4<<10); ; {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return errors.Join(append(errs, fmt.Errorf("read manifests: %w", err))...)
		}
		if raw.Raw = bytes.TrimSpace(raw.Raw); len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		errs = append(errs, a.apply(ctx, raw.Raw))
	}
	if len(a.defined) > 0 {
		errs = append(errs, l.Await(ctx, time.Minute, "the definitions to be served", a.serves))
	}
	return errors.Join(errs...)
}

type applier struct {
	discovery *discovery.DiscoveryClient
	objects   dynamic.Interface
	served    map[schema.GroupVersion]*metav1.APIResourceList
	defined   []schema.GroupVersionResource // by applied definitions
}

func newApplier(l *Lab) (*applier, error) {
	d, err := discovery.NewDiscoveryClientForConfig(l.config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(l.config)
	if err != nil {
		return nil, err
	}
	return &applier{discovery: d, objects: objects, served: map[schema.GroupVersion]*metav1.APIResourceList{}}, nil
}

func (a *applier) apply(ctx context.Context, manifest []byte) error {
	decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(manifest, nil, nil)
	if err != nil {
		return err
	}
	if list, ok := decoded.(*unstructured.UnstructuredList); ok {
		var errs []error
		for _, o := range list.Items {
			errs = append(errs, a.applyObject(ctx, &o))
		}
		return errors.Join(errs...)
	}
	return a.applyObject(ctx, decoded.(*unstructured.Unstructured))
}

func (a *applier) applyObject(ctx context.Context, o *unstructured.Unstructured) error {
	what := fmt.Sprintf("apply %s %s", o.GetKind(), o.GetName())
	resource, err := a.resource(ctx, o.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	data, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	objects := a.objects.Resource(o.GroupVersionKind().GroupVersion().WithResource(resource.Name))
	var at dynamic.ResourceInterface = objects
	if resource.Namespaced {
		at = objects.Namespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault))
	}
	force := true
	applied, err := at.Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "kubectl", Force: &force, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if o.GetKind() == "CustomResourceDefinition" {
		err = a.define(applied)
	}
	return err
}

func (a *applier) define(applied *unstructured.Unstructured) error {
	var d apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, &d); err != nil {
		return err
	}
	for _, v := range d.Spec.Versions {
		if v.Served {
			a.defined = append(a.defined, schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural})
		}
	}
	return nil
}

// serves reports whether discovery, which kubectl and the namespace controller use, has every defined
// resource: requests succeed earlier.
func (a *applier) serves(ctx context.Context) (bool, error) {
	_, lists, _, err := a.discovery.GroupsAndMaybeResourcesWithContext(ctx)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(a.defined, func(r schema.GroupVersionResource) bool {
		list := lists[r.GroupVersion()]
		return list == nil || !slices.ContainsFunc(list.APIResources, func(s metav1.APIResource) bool { return s.Name == r.Resource })
	}), nil
}

func (a *applier) resource(ctx context.Context, kind schema.GroupVersionKind) (metav1.APIResource, error) {
	version := kind.GroupVersion()
	list := a.served[version]
	if list == nil {
		var err error
		if list, err = a.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.String()); err != nil {
			return metav1.APIResource{}, err
		}
		a.served[version] = list
	}
	for _, r := range list.APIResources {
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
			return r, nil
		}
	}
	return metav1.APIResource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}
