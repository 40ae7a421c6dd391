// Package schemas generates JSON Schemas from the types of termguard's machine-readable output, and validates
// real output.
package schemas

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/doctor"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

const home = "https://github.com/termguard/termguard/docs/schemas/"

var documents = map[string]struct {
	document any
	examples string
}{
	"answer.json": {answer.Answer{}, "answer/testdata/*.json"},
	"config.json": {config.Config{}, "docs/configuration.md"},
	"doctor.json": {doctor.Report{}, "doctor/testdata/report.json"},
	"scan.json":   {scan.Scan{}, "scan/testdata/scan.json"},
	"lint.json":   {report.Document{}, "lint/report/testdata/[ef]*.json"},
}

// TestSchemas compares the schemas in docs with the types; UPDATE_GOLDEN=1 rewrites them. A change that is not
// an addition needs a new apiVersion.
func TestSchemas(t *testing.T) {
	t.Chdir("../..") // comments of types are found by the folders of their packages
	for name, p := range documents {
		t.Run(name, func(t *testing.T) {
			r := jsonschema.Reflector{
				AllowAdditionalProperties: name != "config.json", // output may gain keys; input must not have unknown ones
				BaseSchemaID:              jsonschema.ID(home),
				Mapper:                    words,
			}
			if err := r.AddGoComments("github.com/termguard/termguard", "./"); err != nil {
				t.Fatal(err)
			}
			schema := r.Reflect(p.document)
			schema.ID = jsonschema.ID(home + name)
			text, err := json.MarshalIndent(schema, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, '\n')
			file := filepath.Join("docs/schemas", name)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			stored, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(stored), string(text)); diff != "" {
				t.Errorf("run UPDATE_GOLDEN=1 go test ./schemas: -kept, +printed:\n%s", diff)
			}
			holds(t, name, text, p.examples)
		})
	}
}

// words returns the possible values of a configuration key, which its type does not show.
func words(of reflect.Type) *jsonschema.Schema {
	switch of {
	case reflect.TypeFor[config.Mode]():
		return &jsonschema.Schema{Type: "string", Enum: []any{config.Warn, config.Deny, config.DryRun, config.Off}}
	case reflect.TypeFor[policies.Unseen]():
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

var example = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// holds validates examples against a schema: JSON files, or the first YAML block of a page.
func holds(t *testing.T, name string, text []byte, examples string) {
	t.Helper()
	document, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource(name, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(examples)
	if err != nil || examples != "" && len(files) == 0 {
		t.Fatalf("%s: no examples: %v", examples, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file) == ".md" {
			if text, err = yaml.YAMLToJSON(example.FindSubmatch(text)[1]); err != nil {
				t.Fatal(err)
			}
		}
		document, err := validator.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if schema.Validate(map[string]any{"apiVersion": 1}) == nil {
		t.Error("the schema takes anything")
	}
}
