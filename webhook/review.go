package webhook

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/policies"
)

// review is an AdmissionReview, with its request as it was sent.
type review struct {
	apiVersion string
	uid        types.UID
	request    map[string]any
	partial    bool  // of the objects, only the metadata was read
	load       *load // what it holds, nil for nothing
}

// decodeReview reads an AdmissionReview. The error is for what is none: then
// there is no uid to answer to.
func decodeReview(body []byte) (review, error) {
	if len(body) == 0 {
		return review{}, errors.New("the body is empty; want an AdmissionReview")
	}
	var m map[string]any
	if err := unmarshalJSON(body, &m); err != nil {
		return review{}, fmt.Errorf("the body is not JSON; want an AdmissionReview: %w", err)
	}
	return reviewOf(str(m, "apiVersion"), str(m, "kind"), child(m, "request"))
}

func reviewOf(apiVersion, kind string, request map[string]any) (review, error) {
	switch apiVersion {
	case admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String():
	default:
		return review{}, fmt.Errorf("apiVersion is %q; want %s or %s", apiVersion, admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion)
	}
	if kind != "AdmissionReview" {
		return review{}, fmt.Errorf("kind is %q; want AdmissionReview", kind)
	}
	if request == nil {
		return review{}, errors.New("the AdmissionReview has no request")
	}
	uid := types.UID(str(request, "uid"))
	if uid == "" {
		return review{}, errors.New("the request has no uid")
	}
	return review{apiVersion: apiVersion, uid: uid, request: request}, nil
}

// piece is a part of a JSON text that is not decoded yet. It stays within the
// text, which nobody changes.
type piece []byte

// UnmarshalJSON is for the decoder.
func (p *piece) UnmarshalJSON(text []byte) error {
	*p = text
	return nil
}

// envelope is a review that is too large to be decoded whole: what its objects
// hold beside their metadata is left out, and so is what no review has.
type envelope struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID         piece `json:"uid"`
		Kind        piece `json:"kind"`
		Resource    piece `json:"resource"`
		SubResource piece `json:"subResource"`
		Name        piece `json:"name"`
		Namespace   piece `json:"namespace"`
		Operation   piece `json:"operation"`
		UserInfo    piece `json:"userInfo"`
		DryRun      piece `json:"dryRun"`
		Options     piece `json:"options"`
		Object      part  `json:"object"`
		OldObject   part  `json:"oldObject"`
	} `json:"request"`
}

// part is what is read of an object then.
type part struct {
	APIVersion piece `json:"apiVersion"`
	Kind       piece `json:"kind"`
	Metadata   struct {
		Name                       piece `json:"name"`
		Namespace                  piece `json:"namespace"`
		UID                        piece `json:"uid"`
		DeletionTimestamp          piece `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds piece `json:"deletionGracePeriodSeconds"`
		Finalizers                 piece `json:"finalizers"`
		OwnerReferences            piece `json:"ownerReferences"`
		Labels                     piece `json:"labels"`
		Annotations                piece `json:"annotations"`
	} `json:"metadata"`
	Spec piece `json:"spec"` // of any type
}

// finalizersIn are those in the spec of a namespace, nil in most others.
func finalizersIn(spec piece) piece {
	var s struct {
		Finalizers piece `json:"finalizers"`
	}
	if spec == nil || unmarshalJSON(spec, &s) != nil {
		return nil
	}
	return s.Finalizers
}

// errTooLarge is for a review of which not even the metadata fits.
var errTooLarge = fmt.Errorf("what is read of it takes more than %d bytes", maxDecoded)

// decodePart reads of a large AdmissionReview what fits into maxDecoded.
func decodePart(body []byte) (review, error) {
	var e envelope
	if err := unmarshalJSON(body, &e); err != nil {
		return review{}, fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	request := map[string]any{}
	pieces := []field{
		{request, "uid", e.Request.UID}, {request, "kind", e.Request.Kind}, {request, "resource", e.Request.Resource},
		{request, "subResource", e.Request.SubResource}, {request, "name", e.Request.Name}, {request, "namespace", e.Request.Namespace},
		{request, "operation", e.Request.Operation}, {request, "userInfo", e.Request.UserInfo}, {request, "dryRun", e.Request.DryRun},
		{request, "options", e.Request.Options},
	}
	for key, p := range map[string]part{"object": e.Request.Object, "oldObject": e.Request.OldObject} {
		m := p.Metadata
		if m.Name == nil {
			continue // null, or no object
		}
		object, metadata, spec := map[string]any{}, map[string]any{}, map[string]any{}
		request[key], object["metadata"], object["spec"] = object, metadata, spec
		pieces = append(pieces, field{object, "apiVersion", p.APIVersion}, field{object, "kind", p.Kind}, field{spec, "finalizers", finalizersIn(p.Spec)},
			field{metadata, "name", m.Name}, field{metadata, "namespace", m.Namespace}, field{metadata, "uid", m.UID},
			field{metadata, "deletionTimestamp", m.DeletionTimestamp}, field{metadata, "deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds},
			field{metadata, "finalizers", m.Finalizers}, field{metadata, "ownerReferences", m.OwnerReferences},
			field{metadata, "labels", m.Labels}, field{metadata, "annotations", m.Annotations})
	}
	weight := int64(0)
	for _, f := range pieces {
		if weight += decodedWeight(f.text); weight > maxDecoded {
			return review{}, errTooLarge
		}
		var value any
		if f.text == nil || unmarshalJSON(f.text, &value) != nil {
			continue // it is not there; all of the body is JSON
		}
		f.into[f.key] = value
	}
	r, err := reviewOf(e.APIVersion, e.Kind, request)
	r.partial = true
	return r, err
}

// field is where a piece belongs.
type field struct {
	into map[string]any
	key  string
	text piece
}

// unmarshalJSON decodes numbers without a fraction as int64, as the API does.
func unmarshalJSON(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// occasion is what a request is about, as a label of metrics.
type occasion string

const (
	onDelete        occasion = "delete"
	onEviction      occasion = "eviction"
	onFinalizerEdit occasion = "finalizer-edit"
	onFinalize      occasion = "finalize"
	onOther         occasion = "other"
)

var (
	namespaces = schema.GroupResource{Resource: "namespaces"}
	nodes      = schema.GroupResource{Resource: "nodes"}
	pods       = schema.GroupResource{Resource: "pods"}
)

// request is an AdmissionRequest that policies are asked about.
type request struct {
	raw             map[string]any // as the API server sent it
	occasion        occasion
	trigger         policies.Trigger
	resource        schema.GroupResource
	kind            string
	namespace, name string         // namespace is "" for what is not in one
	object, old     map[string]any // nil where the request has none
	dryRun          bool
}

// errUnexpected is for a request that this webhook has nothing to say about.
var errUnexpected = errors.New("no policy is about such a request; see the rules of the ValidatingWebhookConfiguration")

// parseRequest tells what a request is about. With an error, what could be read
// is returned all the same.
func parseRequest(raw map[string]any) (request, error) {
	gvr := child(raw, "resource")
	r := request{
		raw:       raw,
		occasion:  onOther,
		resource:  schema.GroupResource{Group: str(gvr, "group"), Resource: str(gvr, "resource")},
		kind:      str(child(raw, "kind"), "kind"),
		namespace: str(raw, "namespace"),
		name:      str(raw, "name"),
		object:    child(raw, "object"),
		old:       child(raw, "oldObject"),
	}
	r.dryRun, _ = raw["dryRun"].(bool)
	if r.resource == namespaces {
		r.namespace = "" // a namespace's request carries its own name there
	}
	for _, object := range []map[string]any{r.old, r.object} {
		if r.name == "" { // the items of a deletecollection come without
			r.name = str(child(object, "metadata"), "name")
		}
	}
	operation, subresource := str(raw, "operation"), str(raw, "subResource")
	switch {
	case r.resource.Resource == "":
		return r, errors.New("the request names no resource")
	case operation == string(admissionv1.Delete) && subresource == "":
		r.occasion, r.trigger = onDelete, policies.Delete
	case operation == string(admissionv1.Create) && subresource == "eviction" && r.resource == pods:
		r.occasion, r.trigger = onEviction, policies.Delete
	case operation == string(admissionv1.Update) && subresource == "":
		r.occasion, r.trigger = onFinalizerEdit, policies.FinalizerEdit
	case operation == string(admissionv1.Update) && subresource == "finalize" && r.resource == namespaces:
		r.occasion, r.trigger = onFinalize, policies.FinalizerEdit
	default:
		return r, errUnexpected
	}
	switch {
	case r.old == nil && r.occasion != onEviction:
		return r, errors.New("the request has no oldObject")
	case r.object == nil && r.trigger == policies.FinalizerEdit:
		return r, errors.New("the request has no object")
	case r.name == "":
		return r, errors.New("the request has no name")
	}
	return r, nil
}

// annotation of the object under review; of an update, the new state counts:
// the same edit may bring it.
func (r request) annotation(key string) string {
	for _, object := range []map[string]any{r.object, r.old} {
		if value := str(child(child(object, "metadata"), "annotations"), key); value != "" {
			return value
		}
	}
	return ""
}

// target is the object as kubectl and kubectl termguard take it.
func (r request) target() string {
	target := quote(r.resource.String() + "/" + r.name)
	if r.namespace != "" {
		target += " -n " + quote(r.namespace)
	}
	return target
}

// specFinalizers are those of a namespace's spec.
func specFinalizers(res schema.GroupResource, object map[string]any) []string {
	if res != namespaces {
		return nil
	}
	finalizers, _, _ := unstructured.NestedStringSlice(object, "spec", "finalizers")
	return finalizers
}

// within is the namespace that a request is about, or in; a Namespace is in itself.
func (r request) within() string {
	if r.resource == namespaces {
		return r.name
	}
	return r.namespace
}

// finalizersOf are those in the metadata of an object.
func finalizersOf(object map[string]any) []string {
	return (&unstructured.Unstructured{Object: object}).GetFinalizers()
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func str(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// labelsOf are the labels in the metadata of an object; malformed ones are left
// out.
func labelsOf(object map[string]any) map[string]string {
	return stringMap(child(child(object, "metadata"), "labels"))
}

func stringMap(m map[string]any) map[string]string {
	labels := make(map[string]string, len(m))
	for key, value := range m {
		if s, ok := value.(string); ok {
			labels[key] = s
		}
	}
	return labels
}
