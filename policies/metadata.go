package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/internal/nearest"
)

// metadata parses METADATA again, because OPA's parser drops unknown keys, and compares it to its schema if
// check is set.
func metadata(file string, module *ast.Module, check bool) (Policy, error) {
	at := slices.IndexFunc(module.Annotations, func(a *ast.Annotations) bool { return a.Scope == "package" })
	if at < 0 {
		return Policy{}, fmt.Errorf("%s:%d: no METADATA above the package: describe the policy there, as the other policies do", file, module.Package.Location.Row)
	}
	first := module.Annotations[at].Location.Row
	return describe(file, first, yamlBlock(first, module.Comments), check)
}

// The block begins after line first.
func describe(file string, first int, block string, check bool) (Policy, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(block), &document); err != nil || len(document.Content) == 0 {
		return Policy{}, fmt.Errorf("%s:%d: METADATA is not YAML: %w", file, first, err)
	}
	var raw struct {
		Title, Description string
		RelatedResources   []Resource `yaml:"related_resources"`
		Custom             Policy
	}
	if check {
		if errs := checkMetadata(file, first, document.Content[0]); len(errs) > 0 {
			return Policy{}, errors.Join(errs...)
		}
	}
	if err := document.Decode(&raw); err != nil {
		return Policy{}, fmt.Errorf("%s:%d: METADATA: %w", file, first, err)
	}
	p := raw.Custom
	p.Title, p.RelatedResources = raw.Title, raw.RelatedResources
	p.Description, p.Remedy, p.Limits = strings.TrimSpace(raw.Description), strings.TrimSpace(p.Remedy), strings.TrimSpace(p.Limits)
	return p, nil
}

// Line n of the block is line first+n of the file.
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
	if len(violations) == 0 {
		violations = unknownKinds(value, nil)
	}
	errs := make([]error, len(violations))
	for i, v := range violations {
		errs[i] = fmt.Errorf("%s:%d: METADATA: %s", file, first+LineOf(block, v.path), v)
	}
	return errs
}

type violation struct {
	path    []string
	problem string
}

func (v violation) String() string {
	if len(v.path) == 0 {
		return v.problem
	}
	return fmt.Sprintf("key %q: %s", strings.Join(v.path, "."), v.problem)
}

// matchSchema uses the library in OPA's json.match_schema: the original one would duplicate it, and compiles
// ten meta-schemas at start, in 4 ms or more. OPA returns only the place and kind of a violation.
func matchSchema(document, schema any) ([]violation, error) {
	operands := make([]*ast.Term, 2)
	for i, operand := range []any{document, schema} {
		v, err := ast.InterfaceToValue(operand)
		if err != nil {
			return nil, err
		}
		operands[i] = ast.NewTerm(v)
	}
	var all []violation
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
			path := strings.Split(text("field"), ".")
			if text("field") == "(Root)" {
				path = nil
			}
			all = append(all, violations(text("type"), text("desc"), path, at(document, path), at(schema, path))...)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b violation) int {
		return cmp.Or(slices.Compare(a.path, b.path), strings.Compare(a.problem, b.problem))
	})
	// OPA returns each missing or unknown key by itself.
	return slices.CompactFunc(all, func(a, b violation) bool { return slices.Equal(a.path, b.path) && a.problem == b.problem }), err
}

func violations(kind, description string, path []string, value, schema any) (all []violation) {
	rules, _ := schema.(map[string]any)
	keys, _ := value.(map[string]any)
	switch kind {
	case "required":
		required, _ := rules["required"].([]any)
		for _, key := range required {
			if name, _ := key.(string); keys[name] == nil {
				all = append(all, violation{path, fmt.Sprintf("missing key %q", name)})
			}
		}
	case "additional_property_not_allowed":
		names := slices.Collect(maps.Keys(child(rules, "properties")))
		for name := range keys {
			if !slices.Contains(names, name) {
				all = append(all, violation{append(slices.Clone(path), name), "unknown key" + nearest.Hint(name, names)})
			}
		}
	case "enum":
		var names []string
		list, _ := rules["enum"].([]any)
		for _, item := range list {
			names = append(names, fmt.Sprint(item))
		}
		all = append(all, violation{path, fmt.Sprintf("%v is none of %s%s", value, strings.Join(names, ", "), nearest.Hint(fmt.Sprint(value), names))})
	default:
		all = append(all, violation{path, description})
	}
	return all
}

func at(node any, path []string) any {
	for _, key := range path {
		switch n := node.(type) {
		case map[string]any:
			if properties := child(n, "properties"); properties != nil {
				n = properties
			} else if items, ok := n["items"]; ok {
				node = items
				continue
			}
			node = n[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n) {
				return nil
			}
			node = n[i]
		}
	}
	return node
}

// kinds are served by Kubernetes, as plural or plural.group. TestKinds writes them.
var kinds = sync.OnceValue(func() []string {
	var list []string
	text, err := embedded.ReadFile("kinds.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		panic(fmt.Sprintf("policies/kinds.json: %v", err))
	}
	return list
})

// Other groups need only a CustomResourceDefinition.
func unknownKinds(value any, path []string) (all []violation) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, unknownKinds(v[key], append(slices.Clone(path), key))...)
		}
	case []any:
		for i, item := range v {
			all = append(all, unknownKinds(item, append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	case string:
		if len(path) < 2 {
			return nil
		}
		placeholders, named := naming[path[len(path)-2]]
		switch _, group, _ := strings.Cut(v, "."); {
		case !named, slices.Contains(placeholders, v), slices.Contains(kinds(), v):
		case strings.HasPrefix(v, "$"):
			all = append(all, violation{path, fmt.Sprintf("%s is none of %s%s", v, strings.Join(placeholders, ", "), nearest.Hint(v, placeholders))})
		case strings.Contains(group, ".") && !slices.ContainsFunc(kinds(), func(k string) bool { return strings.HasSuffix(k, "."+group) }):
		default:
			all = append(all, violation{path, fmt.Sprintf("Kubernetes has no resource %q%s", v, nearest.Hint(v, kinds()))})
		}
	}
	return all
}

// naming are the keys of METADATA that list resources, each with its other allowed values.
var naming = map[string][]string{"resources": {evictions}, "except": nil, "kinds": {content, instances, referrers, elsewhere}, "for": {finalizers, custom}}

// LineOf returns the line of the key at path, or of its last existing parent.
func LineOf(node *yaml.Node, path []string) int {
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
