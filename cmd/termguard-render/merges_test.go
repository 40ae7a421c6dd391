package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// reduced is what merges holds of a document: the way from each kind to each list that is
// merged. What is no scalar on that way keeps its name: what stands under it is not looked up
// by a kind of its own.
func reduced(whole spec.Definitions) ([]byte, error) {
	leads := map[string]bool{} // definitions with a list that is merged
	name := func(s spec.Schema) string {
		if tokens := s.Ref.GetPointer().DecodedTokens(); len(tokens) == 2 {
			return tokens[1]
		}
		return ""
	}
	var reaches func(s spec.Schema) bool
	reaches = func(s spec.Schema) bool {
		if _, merged := s.Extensions[extensions[0]]; merged && !isScalar(s) || leads[name(s)] {
			return true
		}
		for _, p := range s.Properties {
			if reaches(p) {
				return true
			}
		}
		return s.Items != nil && reaches(*s.Items.Schema) || s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && reaches(*s.AdditionalProperties.Schema)
	}
	for more := true; more; {
		more = false
		for of, s := range whole {
			if !leads[of] && reaches(s) {
				leads[of], more = true, true
			}
		}
	}
	var reduce func(s spec.Schema) spec.Schema
	reduce = func(s spec.Schema) (to spec.Schema) {
		if !reaches(s) {
			return to
		}
		to.Ref = s.Ref
		for _, key := range extensions {
			if value, found := s.Extensions[key]; found {
				to.AddExtension(key, value)
			}
		}
		for field, p := range s.Properties {
			if !isScalar(p) {
				to.SetProperty(field, reduce(p))
			}
		}
		if s.Items != nil && reaches(*s.Items.Schema) {
			item := reduce(*s.Items.Schema)
			to.Items = &spec.SchemaOrArray{Schema: &item}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			value := reduce(*s.AdditionalProperties.Schema)
			to.AdditionalProperties = &spec.SchemaOrBool{Schema: &value}
		}
		return to
	}
	kept := spec.Definitions{}
	for of, s := range whole {
		_, kind := s.Extensions["x-kubernetes-group-version-kind"]
		if leads[of] || kind {
			d := reduce(s)
			if kind {
				d.AddExtension("x-kubernetes-group-version-kind", s.Extensions["x-kubernetes-group-version-kind"])
			}
			kept[of] = d
		}
	}
	return json.Marshal(map[string]any{"definitions": kept})
}

func isScalar(s spec.Schema) bool {
	return len(s.Type) == 1 && s.Type[0] != "object" && s.Type[0] != "array"
}

// whole is the document that kustomize brings.
func whole(t *testing.T) spec.Definitions {
	t.Helper()
	openapi.ResetOpenAPI()
	text, err := json.Marshal(openapi.Schema().Definitions)
	if err != nil {
		t.Fatal(err)
	}
	openapi.ResetOpenAPI()
	t.Cleanup(func() { // as it was
		openapi.ResetOpenAPI()
		readMerges = sync.OnceValue(setMerges)
	})
	var all spec.Definitions
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMerges holds what is known of merges to the document of kustomize: made of it anew it
// is the same, and each list of each kind, 30 fields deep, is merged as the document says.
func TestMerges(t *testing.T) {
	all := whole(t)
	want, err := reduced(all)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("merges.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		merges = want
	}
	if !bytes.Equal(want, merges) {
		t.Fatal("merges.json is not what kustomize's document says: run UPDATE_GOLDEN=1 go test -run TestMerges, and go test")
	}
	if len(merges) > 200<<10 {
		t.Errorf("merges.json has %d bytes: it is to be small", len(merges))
	}
	openapi.ResetOpenAPI()
	if err := setMerges(); err != nil {
		t.Fatal(err)
	}
	few := openapi.Schema().Definitions
	lists := 0
	for name, s := range all {
		if _, kind := s.Extensions["x-kubernetes-group-version-kind"]; !kind {
			continue
		}
		if _, found := few[name]; !found {
			t.Errorf("%s is not there", name)
			continue
		}
		lists += alike(t, name, s, few[name], all, few, nil)
	}
	if lists < 500 {
		t.Errorf("%d lists are merged, which are too few to be all", lists)
	}
}

// alike compares what is merged below a schema, and counts it.
func alike(t *testing.T, at string, a, b spec.Schema, all, few spec.Definitions, open []string) (lists int) {
	t.Helper()
	if name := pointed(a); name != "" {
		if slices.Contains(open, name) {
			return 0
		}
		open = append(slices.Clone(open), name)
		told(t, at, a, b)
		a = all[name]
		if pointed(b) != "" {
			b = few[pointed(b)]
		}
	}
	lists = told(t, at, a, b)
	for field, p := range a.Properties {
		lists += alike(t, at+"."+field, p, b.Properties[field], all, few, open)
	}
	if a.Items != nil {
		item := spec.Schema{}
		if b.Items != nil {
			item = *b.Items.Schema
		}
		lists += alike(t, at+"[]", *a.Items.Schema, item, all, few, open)
	}
	if a.AdditionalProperties != nil && a.AdditionalProperties.Schema != nil {
		value := spec.Schema{}
		if b.AdditionalProperties != nil {
			value = *b.AdditionalProperties.Schema
		}
		lists += alike(t, at+".*", *a.AdditionalProperties.Schema, value, all, few, open)
	}
	return lists
}

// told compares what is said of one field itself. Of a scalar, it is no matter.
func told(t *testing.T, at string, a, b spec.Schema) int {
	t.Helper()
	if isScalar(a) || a.Extensions[extensions[0]] == nil && b.Extensions[extensions[0]] == nil {
		return 0
	}
	for _, key := range extensions[:3] {
		if fmt.Sprint(a.Extensions[key]) != fmt.Sprint(b.Extensions[key]) {
			t.Errorf("%s: %s is %v, want %v", at, key, b.Extensions[key], a.Extensions[key])
		}
	}
	return 1
}

func pointed(s spec.Schema) string {
	if tokens := s.Ref.GetPointer().DecodedTokens(); len(tokens) == 2 {
		return tokens[1]
	}
	return ""
}
