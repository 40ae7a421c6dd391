package check

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	pods        = schema.GroupResource{Resource: "pods"}
	nodes       = schema.GroupResource{Resource: "nodes"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// Name is an object as it is named on the command line.
type Name struct {
	Type, Name string
	// Namespace for what is in one.
	Namespace string
	// Place in the order of the command that deletes several (question.Set).
	Place int
}

// ParseName reads TYPE/NAME, or TYPE and NAME.
func ParseName(args []string, namespace string) (Name, error) {
	const usage = "want TYPE/NAME, as in namespaces/demo"
	var typ, name string
	switch len(args) {
	case 1:
		var slash bool
		if typ, name, slash = strings.Cut(args[0], "/"); !slash {
			return Name{}, fmt.Errorf("%q has no name: %s", args[0], usage)
		}
	case 2:
		typ, name = args[0], args[1]
		if strings.Contains(typ, "/") {
			return Name{}, fmt.Errorf("%q and %q are two objects: check one at a time", typ, name)
		}
	default:
		return Name{}, fmt.Errorf("got %d arguments: %s", len(args), usage)
	}
	if typ == "" || name == "" || strings.Contains(name, "/") {
		return Name{}, fmt.Errorf("%q is no object: %s", strings.Join(args, " "), usage)
	}
	if strings.ContainsAny(typ, ", ") || typ == "all" {
		return Name{}, fmt.Errorf("%q is more than one type: check one object at a time", typ)
	}
	return Name{Type: typ, Name: name, Namespace: namespace}, nil
}

// ParseNames reads several TYPE/NAME, of what is in no namespace.
func ParseNames(args []string) (names []Name, err error) {
	if len(args) == 0 {
		return nil, errors.New("got no argument: want TYPE/NAME, as in node/worker-1")
	}
	for _, arg := range args {
		name, err := ParseName([]string{arg}, "")
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// Subject is the object whose deletion is in question.
type Subject struct {
	Type      Type
	Namespace string // "" for what is in none
	Name      string
	Place     int // as in Name
	// Object as the API server holds it, or as much of it as is known.
	Object map[string]any
	// User who would delete it, userInfo of the request; nil where unknown.
	User map[string]any
	// Unseen is what could not be seen of the object itself.
	Unseen []string
}

func (s Subject) String() string {
	text := s.Type.GroupResource().String() + "/" + s.Name
	if s.Namespace != "" {
		text += " -n " + s.Namespace
	}
	return text
}

// target is what questions are about.
func (s Subject) target() question.Target {
	return question.Target{
		Kind: s.Type.GroupVersion().WithKind(s.Type.Kind), Resource: s.Type.GroupVersionResource,
		Namespace: s.Namespace, Name: s.Name, Object: s.Object, User: s.User,
	}
}

// id is how policies call it.
func (s Subject) id() policies.Object {
	return policies.Object{Resource: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}
}

// bare is an object of which no more is known than that it is meant.
func bare(t Type, namespace, name string) map[string]any {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	object := map[string]any{"apiVersion": t.GroupVersion().String(), "metadata": metadata}
	if t.Kind != "" {
		object["kind"] = t.Kind
	}
	return object
}
