// Package question is what policies are asked about: an AdmissionRequest, as an API
// server sends it, or would send it (k8s.io/api/admission/v1); and the facts of objects
// that are deleted together.
package question

import (
	"errors"
	"slices"

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

// Trigger is on what a request comes.
type Trigger string

// Triggers. Apply and Drain are asked by nobody but termguard's commands.
const (
	OnDelete        Trigger = "delete"
	OnEviction      Trigger = "eviction"
	OnFinalizerEdit Trigger = "finalizer-edit"
	OnFinalize      Trigger = "finalize" // of a namespace, through its subresource
	OnApply         Trigger = "apply"
	OnDrain         Trigger = "drain"
	OnOther         Trigger = "other"
)

// Resources that requests are about in a way of their own.
var (
	Namespaces = schema.GroupResource{Resource: "namespaces"}
	Nodes      = schema.GroupResource{Resource: "nodes"}
	Pods       = schema.GroupResource{Resource: "pods"}
)

// Immortal tells whether a namespace is one whose deletion the API server refuses
// (k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle/admission.go, as
// kube-apiserver registers it).
func Immortal(namespace string) bool {
	return slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, namespace)
}

// Request is an AdmissionRequest. Its objects are decoded once, when they are first
// looked at: not by several goroutines at the same time.
type Request struct {
	admission.Request
	// UnderWay says that an API server sends it: admission policies, and webhooks that
	// mutate, have let it pass.
	UnderWay bool

	subject map[string]any // the object that it is about, where the request does not carry it
	sent    map[string]any // see asSent
}

// errMissing is for a request of which a part is missing that each has.
var (
	errNoResource = errors.New("the request names no resource")
	errNoOld      = errors.New("the request has no oldObject")
	errNoNew      = errors.New("the request has no object")
	errNoName     = errors.New("the request has no name")
)

// Review is the request of a review. With an error, which tells what is missing, it can be
// asked all the same what it is about.
func Review(sent admission.Request) (*Request, error) {
	r := &Request{Request: sent, UnderWay: true}
	trigger := r.Trigger()
	switch {
	case r.Resource.Resource == "":
		return r, errNoResource
	case trigger == OnOther: // nobody looks into it
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

// Trigger tells on what the request comes.
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

// EditsFinalizers tells whether the request changes an object that stays.
func (r *Request) EditsFinalizers() bool {
	trigger := r.Trigger()
	return trigger == OnFinalizerEdit || trigger == OnFinalize
}

// GroupResource is that of the object.
func (r *Request) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
}

// Key is the object's: its namespace is "" for what is in none, as namespaces are, whose
// requests carry their own name there.
func (r *Request) Key() types.NamespacedName {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	if r.GroupResource() == Namespaces {
		key.Namespace = ""
	}
	for _, object := range []map[string]any{r.Old(), r.New()} {
		if key.Name == "" { // the items of a deletecollection come without
			key.Name = (&unstructured.Unstructured{Object: object}).GetName()
		}
	}
	return key
}

// Within is the namespace that the request is about, or in; a Namespace is in itself.
func (r *Request) Within() string {
	key := r.Key()
	if r.GroupResource() == Namespaces {
		return key.Name
	}
	return key.Namespace
}

// Dry tells whether nothing will come of it.
func (r *Request) Dry() bool { return r.DryRun != nil && *r.DryRun }

// Old is the object as it is, nil where the request carries none.
func (r *Request) Old() map[string]any { return decoded(&r.OldObject) }

// New is the object as it will be, nil where the request carries none.
func (r *Request) New() map[string]any { return decoded(&r.Object) }

// With are the options of the request, such as DeleteOptions.
func (r *Request) With() map[string]any { return decoded(&r.Options) }

// decoded decodes a part of a request, and keeps it so. What is no object is none.
func decoded(part *runtime.RawExtension) map[string]any {
	if part.Object == nil && len(part.Raw) > 0 {
		object := &unstructured.Unstructured{}
		// As the API does, with numbers without a fraction as int64.
		_ = kjson.UnmarshalCaseSensitivePreserveInts(part.Raw, &object.Object)
		part.Object, part.Raw = object, nil
	}
	if object, is := part.Object.(*unstructured.Unstructured); is {
		return object.Object
	}
	return nil
}

// Part is an object of a request that is decoded already; nil is none.
func Part(object map[string]any) runtime.RawExtension {
	if object == nil {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Object: &unstructured.Unstructured{Object: object}}
}

// Objects are those whose finalizers matter, as they are and as they will be: of an
// eviction and a drain, which carry none, what is known of the object; nil for nothing.
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

// Annotation of the object under review; of an update, the new state counts: the same
// edit may bring it.
func (r *Request) Annotation(key string) string {
	for _, object := range []map[string]any{r.New(), r.Old()} {
		if value := (&unstructured.Unstructured{Object: object}).GetAnnotations()[key]; value != "" {
			return value
		}
	}
	return ""
}

// SpecFinalizers are those of a namespace's spec, and nil for anything else.
func (r *Request) SpecFinalizers(object map[string]any) []string {
	if r.GroupResource() != Namespaces {
		return nil
	}
	finalizers, _, _ := unstructured.NestedStringSlice(object, "spec", "finalizers")
	return finalizers
}

// Finalizers are all of an object.
func (r *Request) Finalizers(object map[string]any) []string {
	return slices.Concat((&unstructured.Unstructured{Object: object}).GetFinalizers(), r.SpecFinalizers(object))
}

// Input is what policies read: the request, who removes the finalizers of its object, and
// what else refuses it at once. policies/schema/input.schema.json describes it.
func (r *Request) Input(ownership map[string]any, refusals []any) map[string]any {
	input := map[string]any{"request": r.asSent(), "ownership": ownership}
	if len(refusals) > 0 {
		input["refusals"] = refusals
	}
	return input
}

// asSent is the request as an API server sends it, in JSON. TestAsSent holds that it is.
// It is made once.
func (r *Request) asSent() map[string]any {
	if r.sent != nil {
		return r.sent
	}
	kind := kindOf(r.Kind)
	resource := resourceOf(r.Resource)
	r.sent = make(map[string]any, 14) // which is what most have
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
	told(r.sent, "subResource", r.SubResource)
	told(r.sent, "requestSubResource", r.RequestSubResource)
	told(r.sent, "name", r.Name)
	told(r.sent, "namespace", r.Namespace)
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
	told(info, "username", user.Username)
	told(info, "uid", user.UID)
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

// told sets a member that is left out where it is empty.
func told(in map[string]any, key, value string) {
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

// orNull keeps a part that is not there from being a map without members.
func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
