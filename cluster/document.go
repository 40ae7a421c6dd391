package cluster

import (
	"maps"
	"time"
)

// FromDocument returns the facts in a document, as View has it, for tests. They take in no further objects.
func FromDocument(doc map[string]any) *World {
	w := NewWorld(Options{})
	maps.Copy(w.doc, doc)
	if text, told := doc["now"].(string); told {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			w.at = &at
		}
	}
	return w
}
