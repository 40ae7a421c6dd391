package policies_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/internal/race"
)

// readElsewhere has the fields of the catalog that no policy reads, and their readers.
var readElsewhere = map[string]string{
	"carries":       "lint, which puts finalizers on objects of manifests as their owner will",
	"seldom":        "lint",
	"set":           "lint",
	"set.image":     "lint",
	"set.before":    "lint",
	"set.option":    "lint",
	"set.since":     "lint",
	"clears":        "steps: checked by the goldens of check, not by fixtures",
	"drains.source": "people",
	"note":          "people",
}

// TestCatalogIsNeeded empties one field of the catalog at a time, in all entries: a fixture must
// fail, or the catalog must reject it.
func TestCatalogIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	if race.Detector {
		t.Skip("one goroutine: make check runs it without the race detector")
	}
	text, err := os.ReadFile("../cluster/catalog/finalizers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	engine := newEngine(t)
	wrong := func(entries *catalog.Catalog, f fixture) bool {
		p, err := f.PrepareWith(cluster.Options{Catalog: entries})
		if err != nil {
			t.Fatal(err)
		}
		result, err := p.Evaluate(t.Context(), engine)
		if err != nil {
			t.Fatal(err)
		}
		return len(f.Problems(result.Findings)) > 0
	}
	nothing, err := catalog.Parse([]byte("[]"))
	if err != nil {
		t.Fatal(err)
	}
	concerned := slices.DeleteFunc(fixtures(t), func(f fixture) bool { return !wrong(nothing, f) })
	about := map[string]bool{}
	for _, f := range concerned {
		about[filepath.Dir(f.File)] = true
	}
	for _, f := range fixtures(t) { // near misses, which a catalog that says less may make hangs
		if !f.Hangs() && about[filepath.Dir(f.File)] {
			concerned = append(concerned, f)
		}
	}
	// Reading all entries repeatedly would take longer than the rest.
	var named strings.Builder
	for _, f := range concerned {
		text, err := os.ReadFile(f.File)
		if err != nil {
			t.Fatal(err)
		}
		named.Write(text)
	}
	read := func() (entries []any) {
		if err := json.Unmarshal(text, &entries); err != nil {
			t.Fatal(err)
		}
		return entries
	}
	fields := fieldsOf(read(), "")
	entries := slices.DeleteFunc(read(), func(entry any) bool {
		for _, by := range []string{"finalizer", "prefix", "suffix", "regex"} {
			if text, is := entry.(map[string]any)[by].(string); is && (by == "regex" || strings.Contains(named.String(), text)) {
				return false
			}
		}
		return true
	})
	if text, err = json.Marshal(entries); err != nil {
		t.Fatal(err)
	}
	for field := range readElsewhere {
		if !fields[field] {
			t.Errorf("the catalog has no field %s: take it out of readElsewhere", field)
		}
		delete(fields, field)
	}
	for field := range fields {
		entries := read()
		empty(entries, strings.Split(field, "."))
		changed, err := json.Marshal(entries)
		if err != nil {
			t.Fatal(err)
		}
		other, err := catalog.Parse(changed)
		if err != nil {
			continue // nobody can leave it out
		}
		if !slices.ContainsFunc(concerned, func(f fixture) bool { return wrong(other, f) }) {
			t.Errorf("no fixture fails without %s in the catalog: add one, or delete the field", field)
		}
	}
}

// fieldsOf returns the paths of all fields in a document, through lists.
func fieldsOf(document any, path string) map[string]bool {
	fields := map[string]bool{}
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			maps.Copy(fields, fieldsOf(item, path))
		}
	case map[string]any:
		for key, value := range d {
			below := strings.TrimPrefix(path+"."+key, ".")
			fields[below] = true
			maps.Copy(fields, fieldsOf(value, below))
		}
	}
	return fields
}

// empty removes a field from a document, at every place.
func empty(document any, path []string) {
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			empty(item, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(d, path[0])
			return
		}
		empty(d[path[0]], path[1:])
	}
}
