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

// review is an AdmissionReview.
type review struct {
	apiVersion string
	request    admission.Request
}

// decodeReview reads an AdmissionReview. The error is for what is none: then
// there is no uid to answer to.
func decodeReview(body []byte) (review, error) {
	if len(body) == 0 {
		return review{}, errors.New("the body is empty; want an AdmissionReview")
	}
	var e struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    *struct {
			admissionv1.AdmissionRequest
			// To decode them later would take another look at all of the text.
			Object    map[string]any `json:"object"`
			OldObject map[string]any `json:"oldObject"`
			Options   map[string]any `json:"options"`
		} `json:"request"`
	}
	if err := unmarshalJSON(body, &e); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) { // what is of another type is not there
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
	var request admissionv1.AdmissionRequest
	from := &e.Request
	fields := []field{
		{from.UID, &request.UID}, {from.Kind, &request.Kind}, {from.Resource, &request.Resource}, {from.SubResource, &request.SubResource},
		{from.Name, &request.Name}, {from.Namespace, &request.Namespace}, {from.Operation, &request.Operation}, {from.UserInfo, &request.UserInfo},
		{from.DryRun, &request.DryRun}, {from.Options, nil},
	}
	request.Options.Raw = from.Options
	var objects []*members
	for _, of := range []struct {
		part
		into *runtime.RawExtension
	}{{from.Object, &request.Object}, {from.OldObject, &request.OldObject}} {
		m := of.Metadata
		if m.Name == nil {
			continue // null, or no object
		}
		metadata := &members{of: map[string]any{}, texts: map[string]piece{
			"name": m.Name, "namespace": m.Namespace, "uid": m.UID, "deletionTimestamp": m.DeletionTimestamp,
			"deletionGracePeriodSeconds": m.DeletionGracePeriodSeconds, "finalizers": m.Finalizers,
			"ownerReferences": m.OwnerReferences, "labels": m.Labels, "annotations": m.Annotations,
		}}
		spec := &members{of: map[string]any{}, texts: map[string]piece{"finalizers": finalizersIn(of.Spec)}}
		object := &members{of: map[string]any{"metadata": metadata.of, "spec": spec.of}, texts: map[string]piece{"apiVersion": of.APIVersion, "kind": of.Kind}}
		*of.into = question.Part(object.of)
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
			_ = unmarshalJSON(f.text, f.into) // what is of another type is not there
		}
	}
	for _, o := range objects {
		o.decode()
	}
	return reviewOf(e.APIVersion, e.Kind, &request)
}

// field is where a piece belongs.
type field struct {
	text piece
	into any
}

// members are those of an object, by their names, which are not decoded yet.
type members struct {
	of    map[string]any
	texts map[string]piece
}

func (m *members) decode() {
	for key, text := range m.texts {
		var value any
		if text == nil || unmarshalJSON(text, &value) != nil {
			continue // it is not there; all of the body is JSON
		}
		m.of[key] = value
	}
}

// unmarshalJSON decodes numbers without a fraction as int64, as the API does.
func unmarshalJSON(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}
