package lint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// BenchmarkRun lints the folder that TERMGUARD_CORPUS names.
func BenchmarkRun(b *testing.B) {
	corpus := os.Getenv("TERMGUARD_CORPUS")
	if corpus == "" {
		b.Skip("TERMGUARD_CORPUS names no folder of manifests")
	}
	for b.Loop() {
		if _, err := lint.Run(b.Context(), lint.Options{Input: sets.Options{Paths: []string{corpus}}}); err != nil {
			b.Fatal(err)
		}
	}
}

const (
	configMap  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"
	deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d-%d, namespace: ns-%d}\nspec:\n  selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    spec: {containers: [{name: c, image: nginx}]}\n"
)

// shapes are inputs of about n lines or objects; each once took quadratic time or more.
var shapes = map[string]func(n int) string{
	"List": func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
		for i := range n {
			item := fmt.Sprintf(deployment, i, i%50)
			b.WriteString("- " + strings.ReplaceAll(strings.TrimSuffix(item, "\n"), "\n", "\n  ") + "\n")
		}
		return b.String()
	},
	"OneLine": func(n int) string {
		items := []any{}
		for i := range n {
			items = append(items, map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": fmt.Sprintf("d-%d", i), "namespace": fmt.Sprintf("ns-%d", i%50)}})
		}
		text, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		return string(text)
	},
	"Documents": func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(fmt.Sprintf(deployment, i, i%50) + "---\n")
		}
		return b.String()
	},
	"BlankLines": func(n int) string {
		return configMap + "# termguard:ignore orphaned-finalizer -- a\n" + strings.Repeat("\n", n) + "data: {}\n"
	},
	"Ignores": func(n int) string {
		return configMap + strings.Repeat("# termguard:ignore orphaned-finalizer -- a\n", n) + "data: {}\n"
	},
	"Merges": func(n int) string {
		var b strings.Builder
		b.WriteString("x0: &x0 {}\n")
		for i := range n {
			fmt.Fprintf(&b, "x%d: &x%d {<<: [*x%d, *x%d, *x%d]}\n", i+1, i+1, i, i, i)
		}
		fmt.Fprintf(&b, "<<: *x%d\n%s", n, configMap)
		return b.String()
	},
	"SharedMerges": func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: List\nx: &x\n")
		for i := range n {
			fmt.Fprintf(&b, "  k%d: v\n", i)
		}
		b.WriteString("items:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {<<: *x, apiVersion: v1, kind: ConfigMap, metadata: {name: n%d, namespace: a}}\n", i)
		}
		return b.String()
	},
	"Schemas": func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {plural: as, kind: A}\n  versions:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - name: v%d\n    served: true\n    storage: %t\n    schema:\n      openAPIV3Schema:\n        type: object\n", i+1, i == 0)
		}
		return b.String()
	},
	"Duplicates": func(n int) string { return configMap + strings.Repeat("data: {}\n", n) },
	"Names": func(n int) string {
		return strings.Replace(configMap, "name: a", "name: "+strings.Repeat("a", 64*n), 1)
	},
}

// TestShapes lints each shape: quadratic time would exceed the timeout of the tests.
func TestShapes(t *testing.T) {
	n := 2000
	if race.Detector {
		n = 400
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(shape(n))}})
			if r.Objects == 0 && len(r.Problems) == 0 {
				t.Error("neither objects nor problems")
			}
		})
	}
}

// BenchmarkShapes prints the time for each shape at sizes that double.
func BenchmarkShapes(b *testing.B) {
	for name, shape := range shapes {
		for _, n := range []int{1000, 2000, 4000, 8000, 16000} {
			text := shape(n)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := lint.Run(b.Context(), lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
