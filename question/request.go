// Package question defines the input of policies: an AdmissionRequest as an API server sends it, or would
// send it (k8s.io/api/admission/v1), and the objects deleted together.
package question

import (
	"errors"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"
)

// Trigger is the kind of a request.
type Trigger string

// Only termguard's commands use OnApply and OnDrain.
const (
	OnDelete        Trigger = "delete"
	OnEviction      Trigger = "eviction"
	OnFinalizerEdit Trigger = "finalizer-edit"
	OnFinalize      Trigger = "finalize" // the finalize subresource of a namespace
	OnApply         Trigger = "apply"
	OnDrain         Trigger = "drain"
	OnOther         Trigger = "other"
)

var (
	Namespaces  = schema.GroupResource{Resource: "namespaces"}
	Nodes       = schema.GroupResource{Resource: "nodes"}
	Pods        = schema.GroupResource{Resource: "pods"}
	Definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// Immortal reports whether the API server refuses to delete the namespace (k8s.io/apiserver,
// pkg/admission/plugin/namespace/lifecycle/admission.go, as kube-apiserver registers it).
func Immortal(namespace string) bool {
	return slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, namespace)
}

// Request is an AdmissionRequest. Its objects are decoded on first use, so it is not safe for concurrent use.
type Request struct {
	admission.Request
	// UnderWay means that an API server sent it: mutating webhooks and admission policies have admitted it.
	UnderWay bool

	subject map[string]any // if the request does not carry it
	sent    map[string]any
}

var (
	errNoResource = errors.New("the request names no resource")
	errNoOld      = errors.New("the request has no oldObject")
	errNoNew      = errors.New("the request has no object")
	errNoName     = errors.New("the request has no name")
)

// Review returns the request of a review, even with the error for a missing field.
func Review(request admission.Request) (*Request, error) {
	r := &Request{Request: request, UnderWay: true}
	trigger := r.Trigger()
	switch {
	case r.Resource.Resource == "":
		return r, errNoResource
	case trigger == OnOther:
		return r, nil
	case trigger != OnEviction && trigger != OnApply && r.Old() == nil:
		return r, errNoOld
	case trigger != OnDelete && trigger != OnEviction && r.New() == nil:
		return r, errNoNew
	case r.Key().Name == "":
		return r, errNoName
	}
	return r, nil
}

func (r *Request) Trigger() Trigger {
	resource, subresource := r.GroupResource(), r.SubResource
	switch {
	case r.Operation == admissionv1.Delete && subresource == "":
		return OnDelete
	case r.Operation == admissionv1.Create && subresource == "eviction" && resource == Pods:
		return OnEviction
	case r.Operation == admissionv1.Update && subresource == "":
		return OnFinalizerEdit
	case r.Operation == admissionv1.Update && subresource == "finalize" && resource == Namespaces:
		return OnFinalize
	case r.Operation == admissionv1.Create && subresource == "":
		return OnApply
	case r.Operation == admissionv1.Connect && subresource == "drain" && resource == Nodes:
		return OnDrain
	}
	return OnOther
}

// EditsFinalizers reports whether the request updates an object.
func (r *Request) EditsFinalizers() bool {
	trigger := r.Trigger()
	return trigger == OnFinalizerEdit || trigger == OnFinalize
}

func (r *Request) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
}

// Key returns the object's namespace and name: no namespace for a Namespace, whose requests carry its name
// there.
func (r *Request) Key() types.NamespacedName {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	if r.GroupResource() == Namespaces {
		key.Namespace = ""
	}
	for _, object := range []map[string]any{r.Old(), r.New()} {
		if key.Name == "" { // missing in a deletecollection
			key.Name = (&unstructured.Unstructured{Object: object}).GetName()
		}
	}
	return key
}

// Within returns the namespace of the object; a Namespace is within itself.
func (r *Request) Within() string {
	key := r.Key()
	if r.GroupResource() == Namespaces {
		return key.Name
	}
	return key.Namespace
}

func (r *Request) Dry() bool { return r.DryRun != nil && *r.DryRun }

// Old returns the object before the request, or nil.
func (r *Request) Old() map[string]any { return decode(&r.OldObject) }

// New returns the object after the request, or nil.
func (r *Request) New() map[string]any { return decode(&r.Object) }

// With returns the options, such as DeleteOptions.
func (r *Request) With() map[string]any { return decode(&r.Options) }

func decode(part *runtime.RawExtension) map[string]any {
	if part.Object == nil && len(part.Raw) > 0 {
		object := &unstructured.Unstructured{}
		// Integers become int64, as in the API server.
		_ = kjson.UnmarshalCaseSensitivePreserveInts(part.Raw, &object.Object)
		part.Object, part.Raw = object, nil
	}
	if object, is := part.Object.(*unstructured.Unstructured); is {
		return object.Object
	}
	return nil
}

// Part wraps a decoded object for a request; nil stays empty.
func Part(object map[string]any) runtime.RawExtension {
	if object == nil {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Object: &unstructured.Unstructured{Object: object}}
}

// Objects returns the objects whose finalizers matter: old and new, or for evictions and drains, which carry
// neither, the subject.
func (r *Request) Objects() (objects []map[string]any) {
	if r.Trigger() == OnEviction || r.Trigger() == OnDrain {
		if r.subject == nil {
			return nil
		}
		return []map[string]any{r.subject}
	}
	for _, object := range []map[string]any{r.Old(), r.New()} {
		if object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// Annotation returns an annotation. The new state takes precedence: the edit may add it.
func (r *Request) Annotation(key string) string {
	for _, object := range []map[string]any{r.New(), r.Old()} {
		if value := (&unstructured.Unstructured{Object: object}).GetAnnotations()[key]; value != "" {
			return value
		}
	}
	return ""
}

// SpecFinalizers returns the finalizers in a namespace's spec, nil for other resources.
func (r *Request) SpecFinalizers(object map[string]any) []string {
	if r.GroupResource() != Namespaces {
		return nil
	}
	finalizers, _, _ := unstructured.NestedStringSlice(object, "spec", "finalizers")
	return finalizers
}

// Finalizers returns all finalizers of an object.
func (r *Request) Finalizers(object map[string]any) []string {
	return slices.Concat((&unstructured.Unstructured{Object: object}).GetFinalizers(), r.SpecFinalizers(object))
}

// Input returns the input of policies (policies/schema/input.schema.json).
func (r *Request) Input(ownership map[string]any, refusals []any) map[string]any {
	input := map[string]any{"request": r.asSent(), "ownership": ownership}
	// Built-in kinds' status is not about their finalizers.
	if len(ownership) > 0 && strings.Contains(r.Resource.Group, ".") && r.Trigger() == OnDelete {
		if conditions := Conditions(r.Old()); len(conditions) > 0 {
			input["conditions"] = conditions
		}
	}
	if len(refusals) > 0 {
		input["refusals"] = refusals
	}
	return input
}

// asSent returns the JSON of the request as an API server sends it (TestAsSent).
func (r *Request) asSent() map[string]any {
	if r.sent != nil {
		return r.sent
	}
	kind := kindOf(r.Kind)
	resource := resourceOf(r.Resource)
	r.sent = make(map[string]any, 14) // usually
	r.sent["uid"], r.sent["kind"], r.sent["resource"], r.sent["operation"] = string(r.UID), kind, resource, string(r.Operation)
	r.sent["object"], r.sent["oldObject"], r.sent["options"] = orNull(r.New()), orNull(r.Old()), orNull(r.With())
	r.sent["userInfo"] = userOf(r.UserInfo)
	if r.RequestKind != nil {
		r.sent["requestKind"] = kind
		if *r.RequestKind != r.Kind {
			r.sent["requestKind"] = kindOf(*r.RequestKind)
		}
	}
	if r.RequestResource != nil {
		r.sent["requestResource"] = resource
		if *r.RequestResource != r.Resource {
			r.sent["requestResource"] = resourceOf(*r.RequestResource)
		}
	}
	if r.DryRun != nil {
		r.sent["dryRun"] = *r.DryRun
	}
	setNonEmpty(r.sent, "subResource", r.SubResource)
	setNonEmpty(r.sent, "requestSubResource", r.RequestSubResource)
	setNonEmpty(r.sent, "name", r.Name)
	setNonEmpty(r.sent, "namespace", r.Namespace)
	return r.sent
}

func kindOf(k metav1.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceOf(r metav1.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

func userOf(user authenticationv1.UserInfo) map[string]any {
	info := map[string]any{}
	setNonEmpty(info, "username", user.Username)
	setNonEmpty(info, "uid", user.UID)
	if len(user.Groups) > 0 {
		info["groups"] = list(user.Groups)
	}
	if len(user.Extra) > 0 {
		extra := make(map[string]any, len(user.Extra))
		for key, values := range user.Extra {
			extra[key] = list(values)
		}
		info["extra"] = extra
	}
	return info
}

func setNonEmpty(in map[string]any, key, value string) {
	if value != "" {
		in[key] = value
	}
}

func list[S ~[]string](texts S) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return values
}

// orNull avoids an empty object for a nil map.
func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
