package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// merges is what a strategic merge patch asks of the OpenAPI document of Kubernetes: by
// which key lists of built-in kinds are merged. It takes 1 ms to read, the document that
// kustomize brings 35. TestMerges makes it of that, and holds it against it.
//
//go:embed merges.json
var merges []byte

// readMerges has kustomize go by it. A document that a kustomization names counts as before.
// The library's own reader of such documents takes four times as long.
var readMerges = sync.OnceValue(setMerges)

func setMerges() error {
	var few struct {
		Definitions map[string]merged `json:"definitions"`
	}
	if err := json.Unmarshal(merges, &few); err != nil {
		return fmt.Errorf("read how lists are merged: %w", err)
	}
	all := make(spec.Definitions, len(few.Definitions))
	for name, m := range few.Definitions {
		all[name] = m.schema()
	}
	openapi.SuppressBuiltInSchemaUse()
	openapi.AddDefinitions(all)
	return nil
}

// merged is what merges holds of a schema.
type merged struct {
	Ref        string            `json:"$ref"`
	Strategy   string            `json:"x-kubernetes-patch-strategy"`
	Key        string            `json:"x-kubernetes-patch-merge-key"`
	Keys       []any             `json:"x-kubernetes-list-map-keys"`
	Kinds      []any             `json:"x-kubernetes-group-version-kind"`
	Properties map[string]merged `json:"properties"`
	Items      *merged           `json:"items"`
	Values     *merged           `json:"additionalProperties"`
}

func (m *merged) schema() (s spec.Schema) {
	if m.Ref != "" {
		s.Ref = spec.MustCreateRef(m.Ref)
	}
	for key, value := range map[string]any{extensions[0]: m.Strategy, extensions[1]: m.Key} {
		if value != "" {
			s.AddExtension(key, value)
		}
	}
	for key, value := range map[string][]any{extensions[2]: m.Keys, extensions[3]: m.Kinds} {
		if value != nil {
			s.AddExtension(key, value)
		}
	}
	if len(m.Properties) > 0 {
		s.Properties = make(map[string]spec.Schema, len(m.Properties))
		for name, p := range m.Properties {
			s.Properties[name] = p.schema()
		}
	}
	if m.Items != nil {
		item := m.Items.schema()
		s.Type, s.Items = spec.StringOrArray{"array"}, &spec.SchemaOrArray{Schema: &item}
	}
	if m.Values != nil {
		value := m.Values.schema()
		s.AdditionalProperties = &spec.SchemaOrBool{Schema: &value}
	}
	return s
}

// The extensions that say how a list is merged, and which kind a definition is of.
var extensions = []string{"x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-list-map-keys", "x-kubernetes-group-version-kind"}
