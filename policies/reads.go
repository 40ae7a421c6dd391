package policies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// told are the fields that a snapshot holds: a policy that reads no others needs no object.
var told = []string{
	"ownership", "refusals",
	"request.kind", "request.name", "request.namespace", "request.operation", "request.options", "request.resource", "request.subResource",
	"request.oldObject.apiVersion", "request.oldObject.kind",
	"request.oldObject.metadata.finalizers", "request.oldObject.metadata.name", "request.oldObject.metadata.namespace",
}

// reads reports whether these modules, or the library for them, read other fields of the object, and the
// user; true in doubt, as for the whole input.
func (l *loader) reads(of map[string]*ast.Module) (object, user bool) {
	var next []*ast.Rule
	for _, module := range of {
		next = append(next, module.Rules...)
	}
	seen := map[*ast.Rule]bool{}
	for len(next) > 0 {
		rule := next[0]
		next = next[1:]
		if seen[rule] {
			continue
		}
		seen[rule] = true
		paths, names := inputOf(rule)
		for _, path := range paths {
			object = object || !isTold(path) && !below(userInfo, path)
			user = user || below(userInfo, path) || below(path, userInfo)
		}
		for _, name := range names {
			next = append(next, l.rulesOf(name)...)
		}
	}
	return object, user
}

func (l *loader) rulesOf(ref ast.Ref) (rules []*ast.Rule) {
	for _, module := range l.modules {
		home := module.Package.Path
		switch {
		case home.HasPrefix(ref):
			rules = append(rules, module.Rules...)
		case ref.HasPrefix(home):
			for _, rule := range module.Rules {
				if rule.Head.Ref()[0].Value.String() == strings.Trim(ref[len(home)].Value.String(), `"`) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// inputOf returns the input paths that a rule reads, and rules that it may refer to, also by a variable.
func inputOf(rule *ast.Rule) (paths []string, names []ast.Ref) {
	imported := map[ast.Var]ast.Ref{}
	for _, i := range rule.Module.Imports {
		imported[i.Name()], _ = i.Path.Value.(ast.Ref)
	}
	refer := func(ref ast.Ref, more ...*ast.Term) {
		ref = append(slices.Clone(ref), more...)
		head, _ := ref[0].Value.(ast.Var)
		if path, is := imported[head]; is {
			ref = append(slices.Clone(path), ref[1:]...)
		}
		switch {
		case ref[0].Equal(ast.InputRootDocument):
			paths = append(paths, pathOf(ref[1:]))
		case ref[0].Equal(ast.DefaultRootDocument):
			names = append(names, ref.ConstantPrefix())
		default:
			names = append(names, append(slices.Clone(rule.Module.Package.Path), ast.StringTerm(string(head))))
		}
	}
	var visitor *ast.GenericVisitor
	// object.get(input.request, "name", "") reads input.request.name.
	get := func(terms []*ast.Term) bool {
		if len(terms) < 4 || terms[0].Value.Compare(ast.ObjectGet.Ref()) != 0 {
			return false
		}
		ref, is := terms[1].Value.(ast.Ref)
		if !is {
			return false
		}
		more := []*ast.Term{terms[2]}
		if path, is := terms[2].Value.(*ast.Array); is {
			more = nil
			path.Foreach(func(t *ast.Term) { more = append(more, t) })
		}
		refer(ref, more...)
		for _, term := range terms[2:] {
			visitor.Walk(term)
		}
		return true
	}
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if terms, is := x.Terms.([]*ast.Term); is && get(terms) {
				for _, with := range x.With {
					visitor.Walk(with)
				}
				return true
			}
		case ast.Call:
			return get(x)
		case ast.Var:
			refer(ast.Ref{ast.NewTerm(x)})
		case ast.Ref:
			refer(x)
			for _, term := range x[1:] {
				visitor.Walk(term)
			}
			return true
		}
		return false
	})
	visitor.Walk(rule)
	return paths, names
}

const userInfo = "request.userInfo"

// pathOf returns the constant part of an input path, "" for all of it.
func pathOf(terms []*ast.Term) string {
	var words []string
	for _, term := range terms {
		word, constant := term.Value.(ast.String)
		if !constant {
			break
		}
		words = append(words, string(word))
	}
	return strings.Join(words, ".")
}

func isTold(path string) bool {
	return slices.ContainsFunc(told, func(known string) bool { return below(known, path) })
}

func below(top, path string) bool { return top == "" || strings.HasPrefix(path+".", top+".") }

// mayConcern reports whether the policy may have a finding, whatever the object's unknown fields are.
func (s *subject) mayConcern(c *candidate) bool {
	return c.about(s) && (len(c.needs) == 0 || slices.ContainsFunc(c.needs, func(n need) bool {
		n.documents = slices.DeleteFunc(slices.Clone(n.documents), func(d document) bool { return d.root == "input" })
		return s.there(n)
	}))
}
