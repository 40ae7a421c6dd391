package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Act is an operation of an owner on other objects before it removes the finalizer, which needs rights.
type Act struct {
	// Verbs have the effect on the finalizer if RBAC forbids them: Hangs or May.
	Verbs map[string]string `json:"verbs"`
	// Path leads to names of the objects, and Names parses them, with groups namespace, group and kind.
	Path  string `json:"path,omitempty"`
	Names string `json:"names,omitempty"`
	// Kind replaces both, as Kind.group: pods of the ServiceAccount do it, beside the object.
	Kind string `json:"kind,omitempty"`
	// As leads to the name of the ServiceAccount beside the object that it acts as, if not as itself.
	As     string      `json:"as,omitempty"`
	When   []Condition `json:"when,omitempty"`
	Source string      `json:"source"`

	path, as []string
	names    *regexp.Regexp
}

// ActVerbs are verbs whose holders the facts know.
var ActVerbs = []string{"create", "delete", "get", "impersonate", "list"}

// Operation is an act on all objects of a kind in a namespace, "" for cluster-scoped ones.
type Operation struct {
	Verb, Without string
	Kind          schema.GroupKind
	Namespace     string
	// As is a ServiceAccount beside the object, "" for the owner's own; ByPods says that pods run under it.
	As     string
	ByPods bool
}

// On returns an object's operations, each once, in order: certain hangs first for the same objects.
func (a *Act) On(object map[string]any) []Operation {
	if !hold(a.When, object, nil) {
		return nil
	}
	operations := map[Operation]bool{}
	as := text(object, a.as)
	if a.Kind != "" {
		namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace")
		for verb, without := range a.Verbs {
			if as != "" {
				operations[Operation{verb, without, schema.ParseGroupKind(a.Kind), namespace, as, true}] = true
			}
		}
	}
	each(object, a.path, nil, func(at any, _ []any) {
		id, is := at.(string)
		if !is {
			return
		}
		parts := a.names.FindStringSubmatch(id)
		if parts == nil {
			return
		}
		part := func(name string) string { return parts[a.names.SubexpIndex(name)] }
		for verb, without := range a.Verbs {
			operations[Operation{verb, without, schema.GroupKind{Group: part("group"), Kind: part("kind")}, part("namespace"), as, false}] = true
		}
	})
	return slices.SortedFunc(maps.Keys(operations), func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind.String(), b.Kind.String()), cmp.Compare(a.Without, b.Without), cmp.Compare(a.Verb, b.Verb))
	})
}

func (a *Act) check() (err error) {
	if len(a.Verbs) == 0 || (a.Path == "") == (a.Kind == "") || a.Kind != "" && a.As == "" || a.Source == "" {
		return errors.New("verbs, a path (or a kind, and as), and a source are needed")
	}
	for verb, without := range a.Verbs {
		if !slices.Contains(ActVerbs, verb) || without != Hangs && without != May {
			return fmt.Errorf("verbs: %q: %q: one of %s, and hangs or may, are needed", verb, without, strings.Join(ActVerbs, ", "))
		}
	}
	if a.as, err = parsePath(a.As); err != nil {
		return fmt.Errorf("as: %w", err)
	}
	if err := checkConditions("when", a.When); err != nil {
		return err
	}
	if a.Kind != "" {
		return nil
	}
	if a.path, err = parsePath(a.Path); err != nil {
		return err
	}
	if a.names, err = whole(a.Names); err != nil {
		return fmt.Errorf("names: %w", err)
	}
	for _, group := range []string{"namespace", "group", "kind"} {
		if a.names.SubexpIndex(group) < 0 {
			return fmt.Errorf("names: %q has no group %q", a.Names, group)
		}
	}
	return nil
}
