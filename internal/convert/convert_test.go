package convert_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/convert"
	files "github.com/termguard/termguard/lint/source"
)

// TestFromUnstructured holds our converter to the library's: on all fixtures, on every
// field of every kind that is watched, and on values of the wrong type.
func TestFromUnstructured(t *testing.T) {
	compared := 0
	compare := func(where string, gvk schema.GroupVersionKind, document map[string]any) {
		for _, into := range []func() any{
			func() any { typed, _ := cluster.Scheme().New(gvk); return typed },
			func() any { return &metav1.PartialObjectMetadata{} },
		} {
			got, want := into(), into()
			if got == nil || reflect.ValueOf(got).IsNil() {
				continue
			}
			compared++
			gotErr := convert.FromUnstructured(document, got)
			wantErr := runtime.DefaultUnstructuredConverter.FromUnstructured(document, want)
			if (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s: error %v, the library's: %v", where, gotErr, wantErr)
			} else if gotErr == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s: -library, +ours:\n%s", where, cmp.Diff(want, got))
			}
		}
	}
	paths, err := filepath.Glob("../../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	field, _ := filepath.Glob("../../test/field/manifests/*/*.yaml")
	if corpus := os.Getenv("TERMGUARD_CORPUS"); corpus != "" {
		files.Search{Root: corpus, Tests: true, Left: func(int) {}, Problem: func(string, string) {}, Visit: func(d *files.Directory) {
			for _, f := range d.Files() {
				field = append(field, f.Path)
			}
		}}.Walk(corpus, corpus, ".")
	}
	for _, path := range append(paths, field...) {
		for c := range (&files.File{Name: path, Path: path, Whole: true}).Read() {
			for _, o := range c.Objects {
				value, err := o.Value()
				if err != nil {
					continue
				}
				compare(path, (&unstructured.Unstructured{Object: value}).GroupVersionKind(), value)
			}
		}
	}
	if compared < 500 {
		t.Errorf("%d objects were compared: too few to mean anything", compared)
	}
	for gvk, of := range cluster.Scheme().AllKnownTypes() {
		if _, is := reflect.New(of).Interface().(metav1.Object); !is {
			continue
		}
		full := reflect.New(of)
		fill(full.Elem(), 0)
		text, err := json.Marshal(full.Interface())
		if err != nil {
			continue // as of a value that only some texts are
		}
		for _, wrong := range []any{nil, "a", true, int64(7), 1.5, []any{int64(1)}, map[string]any{"a": "b"}} {
			var document map[string]any
			if err := json.Unmarshal(text, &document); err != nil {
				t.Fatal(err)
			}
			compare(gvk.String(), gvk, document)
			replace(document, wrong, func() { compare(gvk.String(), gvk, document) }, 0)
		}
	}
}

// fill gives every field a value, some levels down.
func fill(v reflect.Value, depth int) {
	if depth > 6 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, depth+1)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	}
}

// replace puts a value in the place of each in turn, some levels down, and calls try.
func replace(document map[string]any, wrong any, try func(), depth int) {
	for key, was := range document {
		document[key] = wrong
		try()
		document[key] = was
		if list, is := was.([]any); is && len(list) == 1 {
			was = list[0]
		}
		if below, is := was.(map[string]any); is && depth < 4 {
			replace(below, wrong, try, depth+1)
		}
	}
}
