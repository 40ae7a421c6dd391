// Package convert reads objects as they come in documents into Go types.
package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// Decode converts an object to its Go type. Where that fails it goes through
// JSON, whose errors name the field, as those of the converter do not.
func Decode(obj *unstructured.Unstructured, into any) error {
	if err := FromUnstructured(obj.Object, into); err == nil {
		return nil
	}
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// FromUnstructured reads a document into a Go type, as runtime.DefaultUnstructuredConverter
// does. That fills a cache of fields in the square of their number, which was a tenth of
// what a run over manifests takes. TestFromUnstructured holds them to the same.
func FromUnstructured(document map[string]any, into any) error {
	return convert(document, reflect.ValueOf(into).Elem())
}

func convert(from any, into reflect.Value) error {
	if from == nil {
		into.SetZero()
		return nil
	}
	switch layout := layoutOf(into.Type()); {
	case layout.unmarshals:
		text, err := json.Marshal(from)
		if err != nil {
			return err
		}
		return into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text)
	case into.Kind() == reflect.Struct:
		return convertStruct(from, into, layout.fields)
	}
	switch into.Kind() {
	case reflect.Interface:
		into.Set(reflect.ValueOf(from))
		return nil
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return convert(from, into.Elem())
	case reflect.Slice:
		return convertSlice(from, into)
	case reflect.Map:
		return convertMap(from, into)
	}
	return convertScalar(from, into)
}

func convertStruct(from any, into reflect.Value, fields []field) error {
	m, is := from.(map[string]any)
	if !is {
		return mismatch(from, into)
	}
	for _, f := range fields {
		value, there := m[f.name]
		if f.inline {
			value, there = m, true
		}
		if !there {
			continue
		}
		if err := convert(value, into.Field(f.index)); err != nil {
			return err
		}
	}
	return nil
}

func convertSlice(from any, into reflect.Value) error {
	if text, is := from.(string); is && into.Type().Elem().Kind() == reflect.Uint8 {
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		var data []byte
		if err := json.Unmarshal(quoted, &data); err != nil {
			return err
		}
		into.SetBytes(data)
		return nil
	}
	list, is := from.([]any)
	if !is {
		return mismatch(from, into)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
	for i, item := range list {
		if err := convert(item, into.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func convertMap(from any, into reflect.Value) error {
	m, is := from.(map[string]any)
	if !is {
		return mismatch(from, into)
	}
	of := into.Type()
	into.Set(reflect.MakeMapWithSize(of, len(m)))
	for key, item := range m {
		value := reflect.New(of.Elem()).Elem()
		if err := convert(item, value); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(key).Convert(of.Key()), value)
	}
	return nil
}

func convertScalar(from any, into reflect.Value) error {
	switch value := from.(type) {
	case string:
		if into.Kind() == reflect.String {
			into.SetString(value)
			return nil
		}
	case bool:
		if into.Kind() == reflect.Bool {
			into.SetBool(value)
			return nil
		}
	case int64:
		switch {
		case into.CanInt():
			into.SetInt(value) // cut short, as a conversion does
			return nil
		case into.CanFloat():
			into.SetFloat(float64(value))
			return nil
		}
	case float64:
		switch {
		case into.CanFloat():
			into.SetFloat(value)
			return nil
		case into.CanInt() && value == math.Trunc(value):
			into.Set(reflect.ValueOf(value).Convert(into.Type()))
			return nil
		}
	}
	return mismatch(from, into)
}

func mismatch(from any, into reflect.Value) error {
	return fmt.Errorf("cannot convert %T to %s", from, into.Type())
}

// layout is what is to be known of a type.
type layout struct {
	unmarshals bool    // it reads JSON by itself
	fields     []field // of a struct
}

type field struct {
	index  int
	name   string
	inline bool
}

var layouts sync.Map // by reflect.Type

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func layoutOf(t reflect.Type) *layout {
	if known, is := layouts.Load(t); is {
		return known.(*layout)
	}
	s := &layout{}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		s.unmarshals = reflect.PointerTo(t).Implements(unmarshaler)
	}
	if t.Kind() == reflect.Struct && !s.unmarshals {
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			inline := name == "" && f.Anonymous
			if name == "" {
				name = f.Name
			}
			s.fields = append(s.fields, field{i, name, inline})
		}
	}
	layouts.Store(t, s)
	return s
}
