package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"go.yaml.in/yaml/v3"
)

// metadata reads the METADATA block of a policy's package. OPA's own parser
// drops keys that it does not know, so the block is read again, as YAML, and
// held to its schema if it is checked.
func metadata(file string, module *ast.Module, check bool) (Policy, error) {
	at := slices.IndexFunc(module.Annotations, func(a *ast.Annotations) bool { return a.Scope == "package" })
	if at < 0 {
		return Policy{}, fmt.Errorf("%s:%d: no METADATA above the package: say what the policy is, as the other policies do", file, module.Package.Location.Row)
	}
	first := module.Annotations[at].Location.Row
	block := yamlBlock(first, module.Comments)
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(block), &document); err != nil || len(document.Content) == 0 {
		return Policy{}, fmt.Errorf("%s:%d: METADATA is not YAML: %w", file, first, err)
	}
	var raw struct {
		Title            string
		Description      string
		RelatedResources []Resource `yaml:"related_resources"`
		Custom           struct {
			ID        string
			Severity  Severity
			Triggers  []Trigger
			Resources []string
			Needs     []string
			Remedy    string
			Limits    string
		}
	}
	if check {
		if errs := checkMetadata(file, first, document.Content[0]); len(errs) > 0 {
			return Policy{}, errors.Join(errs...)
		}
	}
	if err := document.Decode(&raw); err != nil {
		return Policy{}, fmt.Errorf("%s:%d: METADATA: %w", file, first, err)
	}
	return Policy{
		ID:               raw.Custom.ID,
		Title:            raw.Title,
		Description:      strings.TrimSpace(raw.Description),
		Severity:         raw.Custom.Severity,
		Triggers:         raw.Custom.Triggers,
		Resources:        raw.Custom.Resources,
		Needs:            raw.Custom.Needs,
		Remedy:           strings.TrimSpace(raw.Custom.Remedy),
		Limits:           strings.TrimSpace(raw.Custom.Limits),
		RelatedResources: raw.RelatedResources,
	}, nil
}

// yamlBlock is the text of the comments that follow the METADATA line without
// a gap, each on its own line, so that line n of it is line first+n of the file.
func yamlBlock(first int, comments []*ast.Comment) string {
	var block strings.Builder
	next := first + 1
	for _, c := range comments {
		if c.Location.Row == next && c.Location.Col == 1 {
			block.WriteString(strings.TrimPrefix(string(c.Text), " ") + "\n")
			next++
		}
	}
	return block.String()
}

// checkMetadata compares a METADATA block with its schema.
func checkMetadata(file string, first int, block *yaml.Node) []error {
	var value, schema any
	if err := block.Decode(&value); err != nil {
		return []error{fmt.Errorf("%s:%d: METADATA: %w", file, first, err)}
	}
	if err := readSchema("metadata.schema", &schema); err != nil {
		return []error{err}
	}
	violations, err := matchSchema(value, schema)
	if err != nil {
		return []error{fmt.Errorf("%s:%d: METADATA: %w", file, first, err)}
	}
	errs := make([]error, len(violations))
	for i, v := range violations {
		var where string
		var path []string
		if v.field != root {
			where, path = " in "+v.field, strings.Split(v.field, ".")
		}
		switch v.kind {
		case "additional_property_not_allowed":
			line := first + lineOf(block, append(path, v.property))
			errs[i] = fmt.Errorf("%s:%d: METADATA: unknown key %q%s", file, line, v.property, where)
		case "required":
			errs[i] = fmt.Errorf("%s:%d: METADATA: missing key %q%s", file, first+lineOf(block, path), v.property, where)
		default:
			errs[i] = fmt.Errorf("%s:%d: METADATA: key %q: %s", file, first+lineOf(block, path), v.field, v.description)
		}
	}
	return errs
}

// root is the field of a violation of the document as a whole.
const root = "(root)"

// violation is one place where a document does not fit its schema.
type violation struct {
	kind        string
	field       string // dotted path, or root
	property    string // that is missing or too many
	description string
}

// matchSchema validates with the JSON schema that OPA carries for its built-in
// function json.match_schema: the binary needs no second one.
func matchSchema(document, schema any) ([]violation, error) {
	operands := make([]*ast.Term, 2)
	for i, operand := range []any{document, schema} {
		v, err := ast.InterfaceToValue(operand)
		if err != nil {
			return nil, err
		}
		operands[i] = ast.NewTerm(v)
	}
	var violations []violation
	bctx := topdown.BuiltinContext{Context: context.Background(), Capabilities: &ast.Capabilities{AllowNet: []string{}}}
	err := topdown.GetBuiltin(ast.JSONMatchSchema.Name)(bctx, operands, func(result *ast.Term) error {
		pair, err := ast.JSON(result.Value)
		if err != nil {
			return err
		}
		list, _ := pair.([]any)[1].([]any)
		for _, item := range list {
			m, _ := item.(map[string]any)
			text := func(key string) string { s, _ := m[key].(string); return s }
			v := violation{kind: text("type"), field: strings.ReplaceAll(text("field"), "(Root)", root), description: text("desc")}
			switch words := strings.Fields(v.description); {
			case v.kind == "required" && len(words) > 0: // "remedy is required"
				v.property = words[0]
			case v.kind == "additional_property_not_allowed" && len(words) > 2: // "Additional property foo is not allowed"
				v.property = words[2]
			}
			violations = append(violations, v)
		}
		return nil
	})
	return violations, err
}

// lineOf is the line, in its document, of the key that path leads to; of the
// last that exists on the way, otherwise.
func lineOf(node *yaml.Node, path []string) int {
	line := 0
	for _, key := range path {
		var next *yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == key {
					line, next = node.Content[i].Line, node.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i < len(node.Content) {
				next = node.Content[i]
				line = next.Line
			}
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}
