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
