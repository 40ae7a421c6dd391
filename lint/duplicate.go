package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/policies"
)

// DuplicateKey is the id of findings about keys that a manifest gives twice.
const DuplicateKey = "duplicate-key"

// Policies describe what lint finds by itself, as METADATA does for the findings
// of policies.
func Policies() []policies.Policy {
	return []policies.Policy{{
		ID: DuplicateKey, Severity: policies.Low, Triggers: []policies.Trigger{},
		Title:       "Key that is there twice",
		Description: "A mapping has a key a second time. kubectl and most other programs go by the last, and say nothing; some refuse the file. The policies are asked about the object with the last.",
		Remedy:      "Remove the one that is not meant.",
		Limits:      "Keys that a merge (<<) brings.",
		RelatedResources: []policies.Resource{{
			Ref: "https://yaml.org/spec/1.2.2/#3213-node-comparison", Description: "Keys of a mapping are unique.",
		}},
	}}
}

// twice takes in the keys that objects of a document have a second time.
func (s *set) twice(file *source.File, c source.Contents) {
	if s.run.options.Off[DuplicateKey] {
		return
	}
	p := Policies()[0]
	for _, key := range c.Twice {
		var id policies.Object
		for _, o := range c.Objects {
			if o.From <= key.Line && key.Line <= o.To {
				id = named(o)
			}
		}
		s.findings = append(s.findings, Finding{
			Finding: policies.Finding{
				Policy: p.ID, Title: p.Title, Certainty: policies.May, Severity: p.Severity, Remedy: p.Remedy,
				Message: again(key),
				Objects: []policies.Object{id}, Evidence: []string{}, Field: key.Key,
			},
			Question: ApplyObject, Target: id, Object: id, Place: placed(file, key.Position, ""),
		})
	}
}

// again says that keys are there twice.
func again(key source.Twice) string {
	keys := append([]string{key.Key}, key.More...)
	switch {
	case slices.Contains(keys, "apiVersion") && slices.Contains(keys, "kind"):
		return fmt.Sprintf("a second object begins here, without --- before it: only what it says of %s counts, not line %d", strings.Join(keys, ", "), key.First)
	case len(keys) > 1:
		return fmt.Sprintf("keys %s are here twice, first from line %d: only these count", strings.Join(keys, ", "), key.First)
	}
	return fmt.Sprintf("key %q is here twice, first on line %d: only this one counts", key.Key, key.First)
}

// named is an object as policies call it.
func named(o *source.Object) policies.Object {
	about := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind}}
	resource := cluster.Resources([]*unstructured.Unstructured{about})[about.GroupVersionKind()]
	return policies.Object{Resource: resource.String(), Namespace: o.Namespace, Name: o.Name}
}
