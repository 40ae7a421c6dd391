package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/question"
)

type review struct {
	apiVersion string
	request    admission.Request
}

// decodeReview decodes an AdmissionReview. An error means that there is no uid to answer to.
func decodeReview(body []byte) (review, error) {
	if len(body) == 0 {
		return review{}, errors.New("the body is empty; want an AdmissionReview")
	}
	var e struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    *struct {
			admissionv1.AdmissionRequest
			// Decoded at once: doing so later would parse the text again.
			Object    map[string]any `json:"object"`
			OldObject map[string]any `json:"oldObject"`
			Options   map[string]any `json:"options"`
		} `json:"request"`
	}
	if err := unmarshalJSON(body, &e); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) { // a field of another type is treated as missing
		return review{}, fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	if e.Request == nil {
		return reviewOf(e.APIVersion, e.Kind, nil)
	}
	request := &e.Request.AdmissionRequest
	request.Object, request.OldObject, request.Options = question.Part(e.Request.Object), question.Part(e.Request.OldObject), question.Part(e.Request.Options)
	return reviewOf(e.APIVersion, e.Kind, request)
}

func reviewOf(apiVersion, kind string, request *admissionv1.AdmissionRequest) (review, error) {
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
	if request.UID == "" {
		return review{}, errors.New("the request has no uid")
	}
	return review{apiVersion: apiVersion, request: admission.Request{AdmissionRequest: *request}}, nil
}

// rawJSON is an undecoded part of a JSON text. It shares memory with the text, which must not change.
type rawJSON []byte

// UnmarshalJSON implements json.Unmarshaler.
func (p *rawJSON) UnmarshalJSON(text []byte) error {
	*p = text
	return nil
}

// envelope is a review that is too large to decode whole: it omits the objects' content except their
// metadata, and unknown fields.
type envelope struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID         rawJSON       `json:"uid"`
		Kind        rawJSON       `json:"kind"`
		Resource    rawJSON       `json:"resource"`
		SubResource rawJSON       `json:"subResource"`
		Name        rawJSON       `json:"name"`
		Namespace   rawJSON       `json:"namespace"`
		Operation   rawJSON       `json:"operation"`
		UserInfo    rawJSON       `json:"userInfo"`
		DryRun      rawJSON       `json:"dryRun"`
		Options     rawJSON       `json:"options"`
		Object      partialObject `json:"object"`
		OldObject   partialObject `json:"oldObject"`
	} `json:"request"`
}

// partialObject is the decoded part of an object then.
type partialObject struct {
	APIVersion rawJSON `json:"apiVersion"`
	Kind       rawJSON `json:"kind"`
	Metadata   struct {
		Name                       rawJSON `json:"name"`
		Namespace                  rawJSON `json:"namespace"`
		UID                        rawJSON `json:"uid"`
		DeletionTimestamp          rawJSON `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds rawJSON `json:"deletionGracePeriodSeconds"`
		Finalizers                 rawJSON `json:"finalizers"`
		OwnerReferences            rawJSON `json:"ownerReferences"`
		Labels                     rawJSON `json:"labels"`
		Annotations                rawJSON `json:"annotations"`
	} `json:"metadata"`
	Spec rawJSON `json:"spec"` // of any type
}

// specFinalizers returns the finalizers in the spec of a namespace, nil in most other specs.
func specFinalizers(spec rawJSON) rawJSON {
	var s struct {
		Finalizers rawJSON `json:"finalizers"`
	}
	if spec == nil || unmarshalJSON(spec, &s) != nil {
		return nil
	}
	return s.Finalizers
}

// errTooLarge is for a review whose metadata alone is too large.
var errTooLarge = fmt.Errorf("what is read of it takes more than %d bytes", maxDecoded)

// decodePart decodes the envelope of a large AdmissionReview, up to maxDecoded.
func decodePart(body []byte) (review, error) {
	var e envelope
	if err := unmarshalJSON(body, &e); err != nil {
		return review{}, fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	var request admissionv1.AdmissionRequest
	from := &e.Request
	fields := []field{
		{from.UID, &request.UID}, {from.Kind, &request.Kind}, {from.Resource, &request.Resource}, {from.SubResource, &request.SubResource},
		{from.Name, &request.Name}, {from.Namespace, &request.Namespace}, {from.Operation, &request.Operation}, {from.UserInfo, &request.UserInfo},
		{from.DryRun, &request.DryRun}, {from.Options, nil},
	}
	request.Options.Raw = from.Options
	var objects []*members
	for _, item := range []struct {
		partialObject
		into *runtime.RawExtension
	}{{from.Object, &request.Object}, {from.OldObject, &request.OldObject}} {
		m := item.Metadata
		if m.Name == nil {
			continue // null, or no object
		}
		metadata := &members{values: map[string]any{}, texts: map[string]rawJSON{
			"name": m.Name, "namespace": m.Namespace, "uid": m.UID, "deletionTimestamp": m.DeletionTimestamp,
			"deletionGracePeriodSeconds": m.DeletionGracePeriodSeconds, "finalizers": m.Finalizers,
			"ownerReferences": m.OwnerReferences, "labels": m.Labels, "annotations": m.Annotations,
		}}
		spec := &members{values: map[string]any{}, texts: map[string]rawJSON{"finalizers": specFinalizers(item.Spec)}}
		object := &members{values: map[string]any{"metadata": metadata.values, "spec": spec.values}, texts: map[string]rawJSON{"apiVersion": item.APIVersion, "kind": item.Kind}}
		*item.into = question.Part(object.values)
		objects = append(objects, metadata, spec, object)
	}
	weight := int64(0)
	for _, f := range fields {
		weight += decodedWeight(f.text)
	}
	for _, o := range objects {
		for _, text := range o.texts {
			weight += decodedWeight(text)
		}
	}
	if weight > maxDecoded {
		return review{}, errTooLarge
	}
	for _, f := range fields {
		if f.text != nil && f.into != nil {
			_ = unmarshalJSON(f.text, f.into) // a field of another type is treated as missing
		}
	}
	for _, o := range objects {
		o.decode()
	}
	return reviewOf(e.APIVersion, e.Kind, &request)
}

// field is the destination of a piece.
type field struct {
	text rawJSON
	into any
}

// members are undecoded members of an object, by name.
type members struct {
	values map[string]any
	texts  map[string]rawJSON
}

func (m *members) decode() {
	for key, text := range m.texts {
		var value any
		if text == nil || unmarshalJSON(text, &value) != nil {
			continue // it is missing; the whole body is JSON
		}
		m.values[key] = value
	}
}

// unmarshalJSON decodes numbers without a fraction as int64, as the API does.
func unmarshalJSON(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}
