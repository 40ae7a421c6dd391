package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/termguard/termguard/cluster/facts"
)

// FromDocument returns the facts in a document, as View has it, and takes ownership of it. They take in no
// further objects. It returns an error for a document of another version.
func FromDocument(doc map[string]any) (*World, error) {
	if doc["apiVersion"] != apiVersion || doc["kind"] != "Facts" {
		return nil, fmt.Errorf("it has apiVersion %v, kind %v", doc["apiVersion"], doc["kind"])
	}
	w := NewWorld(Options{})
	var missing []any // missing sections are unknown, not absent
	for _, key := range slices.Sorted(maps.Keys(w.doc)) {
		empty := w.doc[key]
		switch value := doc[key].(type) {
		case nil:
			if _, written := doc[key]; !written {
				missing = append(missing, map[string]any{"resource": key, "namespaced": false, "reason": facts.UnseenVersion, "message": "another version of termguard wrote the snapshot"})
			}
			doc[key] = empty
		default:
			if section, made := empty.(facts.Section); made {
				empty = section.All()
			}
			if fmt.Sprintf("%T", value) != fmt.Sprintf("%T", empty) {
				return nil, fmt.Errorf("%q is a %T", key, value)
			}
		}
	}
	unseen, _ := doc["unseen"].([]any)
	doc["unseen"] = append(unseen, missing...)
	maps.Copy(w.doc, doc)
	w.snapshot = true
	if text, told := doc["now"].(string); told {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			w.at = &at
		}
	}
	// The state that verdicts from the document alone need.
	for name := range w.doc.Child("crds") {
		w.ownership.Define(name)
	}
	for name := range w.doc.Child("csidrivers") {
		w.ownership.Install(name)
	}
	return w, nil
}
