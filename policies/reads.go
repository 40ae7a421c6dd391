package policies

import (
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/dependencies"
)

// snapshotFields are the input that a snapshot holds: a policy that reads no others needs no object.
var snapshotFields = []string{
	"ownership", "refusals",
	"request.kind", "request.name", "request.namespace", "request.operation", "request.options", "request.resource", "request.subResource",
	"request.oldObject.apiVersion", "request.oldObject.kind",
	"request.oldObject.metadata.finalizers", "request.oldObject.metadata.name", "request.oldObject.metadata.namespace",
}

const userInfo = "request.userInfo"

// reads is about the object's other fields, and the user, in a policy or the library for it: true in doubt.
func reads(p Policy, compiler *ast.Compiler) (object, user bool) {
	var next []*ast.Rule
	for file, module := range compiler.Modules {
		if path.Dir(file) == path.Dir(p.File) {
			next = append(next, module.Rules...)
		}
	}
	seen := map[*ast.Rule]bool{}
	for len(next) > 0 {
		rule := next[0]
		next = next[1:]
		if seen[rule] {
			continue
		}
		seen[rule] = true
		refs, err := dependencies.Minimal(withoutGet(rule))
		if err != nil {
			return true, true
		}
		for _, ref := range refs {
			ref = ref.ConstantPrefix()
			if !ref[0].Equal(ast.InputRootDocument) {
				next = append(next, compiler.GetRules(ref)...)
				continue
			}
			field := strings.TrimPrefix(strings.TrimPrefix(ref.String(), "input"), ".")
			inSnapshot := slices.ContainsFunc(snapshotFields, func(top string) bool { return below(top, field) })
			object = object || !inSnapshot && !below(userInfo, field)
			user = user || below(userInfo, field) || below(field, userInfo)
		}
	}
	return object, user
}

// withoutGet replaces object.get(VARIABLE, "name", "") with VARIABLE.name, a field instead of all. The
// compiler has put references in arguments into variables.
func withoutGet(rule *ast.Rule) *ast.Rule {
	rule = rule.Copy()
	ast.WalkExprs(rule, func(x *ast.Expr) bool {
		terms, _ := x.Terms.([]*ast.Term)
		if len(terms) < 4 || terms[0].Value.Compare(ast.ObjectGet.Ref()) != 0 {
			return false
		}
		_, constant := terms[2].Value.(ast.String)
		if _, variable := terms[1].Value.(ast.Var); variable && constant {
			terms[1] = ast.NewTerm(ast.Ref{terms[1], terms[2]})
		}
		return false
	})
	return rule
}

func below(top, path string) bool { return top == "" || strings.HasPrefix(path+".", top+".") }

// mayConcern assumes that the object's unknown fields meet all needs.
func (s *subject) mayConcern(c *candidate) bool {
	return c.about(s) && (len(c.needs) == 0 || slices.ContainsFunc(c.needs, func(n need) bool {
		n.documents = slices.DeleteFunc(slices.Clone(n.documents), func(d document) bool { return d.root == "input" })
		return s.there(n)
	}))
}
