package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/question"
)

type review struct {
	apiVersion string
	request    admission.Request
}

// envelope decodes objects to O at once: later, the text would be parsed again.
type envelope[O any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		admissionv1.AdmissionRequest
		Object    O              `json:"object"`
		OldObject O              `json:"oldObject"`
		Options   map[string]any `json:"options"`
	} `json:"request"`
}

// decodeReview returns an error if there is no uid to answer to.
func decodeReview(body []byte) (review, error) {
	return decode(body, func(object map[string]any) map[string]any { return object })
}

func decode[O any](body []byte, object func(O) map[string]any) (review, error) {
	if len(body) == 0 {
		return review{}, errors.New("the body is empty; want an AdmissionReview")
	}
	var e envelope[O]
	if err := unmarshalJSON(body, &e); err != nil {
		return review{}, err
	}
	switch e.APIVersion {
	case admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String():
	default:
		return review{}, fmt.Errorf("apiVersion is %q; want %s or %s", e.APIVersion, admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion)
	}
	switch {
	case e.Kind != "AdmissionReview":
		return review{}, fmt.Errorf("kind is %q; want AdmissionReview", e.Kind)
	case e.Request == nil:
		return review{}, errors.New("the AdmissionReview has no request")
	case e.Request.UID == "":
		return review{}, errors.New("the request has no uid")
	}
	request := e.Request.AdmissionRequest
	request.Object, request.OldObject, request.Options = question.Part(object(e.Request.Object)), question.Part(object(e.Request.OldObject)), question.Part(e.Request.Options)
	return review{e.APIVersion, admission.Request{AdmissionRequest: request}}, nil
}

// unmarshalJSON decodes integers as int64, as the API does. A field of another type counts as missing.
func unmarshalJSON(text []byte, into any) error {
	err := kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	return nil
}

// partialObject is for a review that is too large to decode whole.
type partialObject[T any] struct {
	APIVersion T `json:"apiVersion"`
	Kind       T `json:"kind"`
	Metadata   struct {
		Name                       T `json:"name"`
		Namespace                  T `json:"namespace"`
		UID                        T `json:"uid"`
		DeletionTimestamp          T `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds T `json:"deletionGracePeriodSeconds"`
		Finalizers                 T `json:"finalizers"`
		OwnerReferences            T `json:"ownerReferences"`
		Labels                     T `json:"labels"`
		Annotations                T `json:"annotations"`
	} `json:"metadata"`
	Spec struct { // of a namespace
		Finalizers T `json:"finalizers"`
	} `json:"spec"`
}

// rawJSON shares memory with the text, which must not change.
type rawJSON []byte

// UnmarshalJSON keeps the text.
func (p *rawJSON) UnmarshalJSON(text []byte) error {
	*p = text
	return nil
}

var errTooLarge = fmt.Errorf("what is read of it takes more than %d bytes", maxDecoded)

// decodePart decodes only the metadata of objects, up to maxDecoded.
func decodePart(body []byte) (review, error) {
	var raw struct {
		Request struct {
			Object    rawJSON `json:"object"`
			OldObject rawJSON `json:"oldObject"`
		} `json:"request"`
	}
	if err := unmarshalJSON(body, &raw); err != nil {
		return review{}, err
	}
	weight := decodedWeight(body)
	for _, text := range []rawJSON{raw.Request.Object, raw.Request.OldObject} {
		var o partialObject[rawJSON]
		if text != nil {
			_ = unmarshalJSON(text, &o) // the whole body is JSON
		}
		weight += weigh(members(reflect.ValueOf(o))) - decodedWeight(text)
	}
	if weight > maxDecoded {
		return review{}, errTooLarge
	}
	return decode(body, func(o partialObject[any]) map[string]any {
		if o.Metadata.Name == nil {
			return nil // null, or no object
		}
		return members(reflect.ValueOf(o))
	})
}

func members(part reflect.Value) map[string]any {
	decoded := map[string]any{}
	for i := range part.NumField() {
		name, value := part.Type().Field(i).Tag.Get("json"), part.Field(i)
		if value.Kind() == reflect.Struct {
			decoded[name] = members(value)
		} else if !value.IsNil() {
			decoded[name] = value.Interface()
		}
	}
	return decoded
}

func weigh(undecoded map[string]any) (weight int64) {
	for _, member := range undecoded {
		switch m := member.(type) {
		case map[string]any:
			weight += weigh(m)
		case rawJSON:
			weight += decodedWeight(m)
		}
	}
	return weight
}
