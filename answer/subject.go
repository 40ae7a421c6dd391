package answer

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Name is an object as named on the command line.
type Name struct {
	// Object has the type as it was typed, such as ns.
	policies.Object
	// Place is as in question.Set.
	Place int
	// File names the object; "" for the command line.
	File string
}

func (n Name) located(err error) error {
	if n.File == "" {
		return err
	}
	return fmt.Errorf("%s: %w", n.File, err)
}

// ParseNames parses kubectl's arguments: TYPE/NAME for each object, or TYPE[,TYPE...] and NAMEs.
func ParseNames(args []string) (names []Name, err error) {
	const usage = "want TYPE/NAME, as in namespaces/demo"
	add := func(typ, name string) {
		if n := (Name{Object: policies.Object{Resource: typ, Name: name}}); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch {
	case len(args) == 0:
		return nil, fmt.Errorf("got no argument: %s", usage)
	case !strings.Contains(args[0], "/"):
		if len(args) == 1 {
			return nil, fmt.Errorf("%q has no name: %s; for all of a type, check takes -n NAMESPACE or -A, and delete takes --all%s", args[0], usage, namespaceHint(args[0]))
		}
		for _, typ := range strings.Split(args[0], ",") {
			for _, name := range args[1:] {
				if typ == "" || name == "" || strings.Contains(name, "/") {
					return nil, fmt.Errorf("%q is no object: %s, or TYPE and NAMEs", args[0]+" "+name, usage)
				}
				add(typ, name)
			}
		}
	default:
		for _, arg := range args {
			typ, name, slash := strings.Cut(arg, "/")
			if !slash || typ == "" || name == "" || strings.Contains(name, "/") {
				return nil, fmt.Errorf("%q is no object: %s", arg, usage)
			}
			add(typ, name)
		}
	}
	return names, nil
}

// namespaceHint says that a word that is no built-in type may be a namespace.
func namespaceHint(word string) string {
	var types Types
	for _, k := range cluster.Builtin() {
		types.builtin(k)
	}
	if _, err := types.Find(word); err == nil || len(validation.IsDNS1123Label(word)) > 0 {
		return ""
	}
	return "; if it is a namespace: namespaces/" + word
}

// Subject is the object whose deletion is evaluated.
type Subject struct {
	Type      Type
	Namespace string // "" for cluster-scoped objects
	Name      string
	Place     int // as in Name
	// Object is as the API server holds it, or its known part.
	Object map[string]any
	// User would delete it; zero if unknown.
	User authenticationv1.UserInfo
	// Whole is asked in its place, as the objects of a release; nil for an object.
	Whole *Question
	// Stub is the source, such as "a snapshot", that has only the name and finalizers; "" if Object has enough.
	Stub   string
	Unseen []policies.Unseen
}

func (s Subject) String() string { return s.ID().Ref() }

// UID returns the UID of the object, "" if unknown.
func (s Subject) UID() string {
	uid, _ := child(s.Object, "metadata")["uid"].(string)
	return uid
}

func (s Subject) guarded() bool {
	return !slices.Contains(cluster.BuiltinGroups(), s.Type.Group) && child(s.Object, "metadata")["finalizers"] != nil
}

func (s Subject) Terminating() bool {
	return child(s.Object, "metadata")["deletionTimestamp"] != nil
}

func Contain(targets []Subject, namespace string) bool {
	return namespace != "" && slices.ContainsFunc(targets, func(t Subject) bool {
		return t.Type.GroupResource() == question.Namespaces && t.Name == namespace
	})
}

func Define(targets []Subject, resource schema.GroupResource) bool {
	return slices.ContainsFunc(targets, func(t Subject) bool {
		return t.Type.GroupResource() == question.Definitions && t.Name == resource.String()
	})
}

func (s Subject) Is(n Name) bool {
	names := append([]string{s.Type.Resource, s.Type.singular, strings.ToLower(s.Type.Kind)}, s.Type.short...)
	_, called := s.Type.called(strings.ToLower(n.Resource), names)
	return called && s.Name == n.Name && (s.Namespace == "" || s.Namespace == n.Namespace)
}

func (s Subject) target() question.Target {
	return question.Target{
		Kind: s.Type.GroupVersion().WithKind(s.Type.Kind), Resource: s.Type.GroupVersionResource,
		Namespace: s.Namespace, Name: s.Name, Object: s.Object, User: s.User,
	}
}

// ID returns the object as policies name it.
func (s Subject) ID() policies.Object {
	return policies.Object{Resource: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}
}

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

func (s Subject) part(reason string) policies.Unseen {
	return policies.Unseen{What: s.String() + " itself", Reason: reason}
}

// Hide adds an unreadable part of the object.
func (s *Subject) Hide(reason string) { s.Unseen = append(s.Unseen, s.part(reason)) }
