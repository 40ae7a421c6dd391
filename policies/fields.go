package policies

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkFields rejects reads of fields that no request and no facts have. OPA's type checker takes
// additionalProperties for any, as in data.cluster.nodes[name].redy: it runs again with a wildcard in each
// map, and with the keys that modules write.
func (l *loader) checkFields() error {
	modules := maps.Clone(l.modules)
	maps.DeleteFunc(modules, func(file string, module *ast.Module) bool {
		shared := module.Package.Path.HasPrefix(library) || library.HasPrefix(module.Package.Path)
		return !l.everything && !shared && strings.HasPrefix(file, nameOf(Embedded())+"/")
	})
	keys := map[string][]string{} // of maps, by their wildcard
	for {
		schemas, err := schemaSet(func(schema any) any { return withKeys(schema, "", keys) })
		if err != nil {
			return err
		}
		compiler := ast.NewCompiler().WithCapabilities(Capabilities()).WithSchemas(schemas).WithUseTypeCheckAnnotations(true).SetErrorLimit(0)
		compiler.Compile(modules)
		var errs []error
		written := false
		for _, err := range compiler.Errors {
			switch detail := err.Details.(type) {
			case *ast.RefErrInvalidDetail:
				key, every := anyKey(detail)
				if every == "" {
					errs = append(errs, err)
				} else if !slices.Contains(keys[every], key) {
					keys[every], written = append(keys[every], key), true
				}
			case *ast.RefErrUnsupportedDetail:
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 || !written {
			return errors.Join(errs...)
		}
	}
}

const wildcard = "*"

func anyKey(detail *ast.RefErrInvalidDetail) (key, every string) {
	word, _ := detail.Ref[detail.Pos].Value.(ast.String)
	for _, value := range detail.OneOf {
		if name, _ := value.(ast.String); strings.HasPrefix(string(name), wildcard) {
			return string(word), string(name)
		}
	}
	return "", ""
}

// withKeys adds keys and a wildcard to the maps of a schema.
func withKeys(schema any, path string, keys map[string][]string) any {
	node, is := schema.(map[string]any)
	if !is {
		return schema
	}
	node = maps.Clone(node)
	for _, word := range []string{"properties", "definitions"} {
		if of := child(node, word); of != nil {
			of = maps.Clone(of)
			for name, below := range of {
				of[name] = withKeys(below, path+"."+name, keys)
			}
			node[word] = of
		}
	}
	if items, has := node["items"]; has {
		node["items"] = withKeys(items, path+"[]", keys)
	}
	below := child(node, "additionalProperties")
	if below == nil { // it has no other fields, or OPA allows any
		return node
	}
	below, _ = withKeys(below, path+"."+wildcard, keys).(map[string]any)
	delete(node, "additionalProperties")
	properties := maps.Clone(child(node, "properties"))
	if properties == nil {
		properties = map[string]any{}
	}
	for _, key := range append([]string{wildcard + path}, keys[wildcard+path]...) {
		if _, has := properties[key]; !has {
			properties[key] = below
		}
	}
	node["properties"] = properties
	return node
}
