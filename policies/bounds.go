package policies

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// volumes are names of the types of volumes and claims. Deleting those deletes the data, which the owner of a
// finalizer might have kept.
var volumes = []string{"pv", "persistentvolume", "persistentvolumes", "pvc", "persistentvolumeclaim", "persistentvolumeclaims"}

// IsVolume reports whether an object of an action, RESOURCE/NAME, is a volume or a claim.
func IsVolume(object string) bool {
	resource, _, _ := strings.Cut(object, "/")
	return namesVolume(resource)
}

// namesVolume reports whether a type of volumes is among the words of a command, such as pods,pvc/data.
func namesVolume(command string) bool {
	words := strings.FieldsFunc(strings.ToLower(command), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(volumes, word) })
}

// bounds limit the steps of all policies for one request: every step is checked here.
type bounds struct {
	about   subject
	input   map[string]any
	cluster map[string]any
}

// keep removes out-of-bounds steps from a finding: steps that name a volume or claim outside the request,
// remove a finalizer whose owner works, or repeat a deletion, which has no effect.
func (b bounds) keep(f *Finding) {
	for i, s := range f.Steps {
		if s.Action != nil && s.Action.Verb == VerbDelete && !s.Action.Forces() {
			again := *s.Action
			again.Objects = slices.DeleteFunc(slices.Clone(again.Objects), func(object string) bool {
				resource, name, _ := strings.Cut(object, "/")
				return b.leaves(resource, again.Namespace, name)
			})
			f.Steps[i].Action, f.Steps[i].Command = &again, again.Command()
		}
	}
	f.Steps = slices.DeleteFunc(f.Steps, func(s Step) bool {
		if s.Action == nil {
			return namesVolume(s.Command)
		}
		if len(s.Action.Objects) == 0 {
			return true
		}
		return slices.ContainsFunc(s.Action.Objects, func(object string) bool {
			resource, name, _ := strings.Cut(object, "/")
			return IsVolume(object) && !b.goes(resource, s.Action.Namespace, name) ||
				slices.ContainsFunc(s.Strips(), func(finalizer string) bool {
					return b.works(resource, s.Action.Namespace, name, finalizer)
				})
		})
	})
}

// goes reports whether an object is a target, or in a namespace that is one.
func (b bounds) goes(resource, namespace, name string) bool {
	of := under(b.cluster, "set")
	return resource == b.about.resource && name == b.about.name && namespace == b.about.namespace ||
		b.about.resource == "namespaces" && namespace == b.about.name ||
		under(under(under(of, resource), namespace), name) != nil ||
		namespace != "" && under(under(under(of, "namespaces"), ""), namespace) != nil
}

// leaves reports whether an object is already Terminating.
func (b bounds) leaves(resource, namespace, name string) bool {
	if resource == b.about.resource && name == b.about.name {
		return b.about.leaving
	}
	if resource == "pods" {
		since, _ := under(under(under(b.cluster["pods"], namespace), name), "deletionTimestamp").(string)
		return since != ""
	}
	return anyOf(b.cluster["terminating"], func(resources any) bool {
		return anyOf(under(under(resources, resource), "objects"), func(o any) bool {
			in, _ := under(o, "namespace").(string)
			return in == namespace && under(o, "name") == name
		})
	})
}

// works reports whether the owner of an object's finalizer runs, and nothing certainly prevents its work.
func (b bounds) works(resource, namespace, name, finalizer string) bool {
	return atWork(b.owner(Object{resource, namespace, name}, finalizer))
}

// owner returns the owner of an object's finalizer in the facts, or nil.
func (b bounds) owner(o Object, finalizer string) (owner any) {
	if o.Resource == b.about.resource && o.Name == b.about.name {
		return under(b.input["ownership"], finalizer)
	}
	anyOf(under(under(under(b.cluster["finalized"], o.Namespace), finalizer), o.Resource), func(group any) bool {
		names, _ := whole(under(group, "names")).([]any)
		if slices.Contains(names, any(o.Name)) {
			owner = under(group, "ownership")
		}
		return owner != nil
	})
	return owner
}

func atWork(owner any) bool {
	lacks := func(thing any) bool { return under(thing, "without") == "hangs" }
	return under(owner, "state") == "alive" && !anyOf(under(owner, "missing"), lacks) && !anyOf(under(owner, "unallowed"), lacks)
}

// Strips returns the finalizers that a step removes from its objects, if it does nothing else.
func (s Step) Strips() (finalizers []string) {
	a := s.Action
	switch {
	case a == nil:
		return nil
	case a.Verb == VerbFinalize:
		return a.Finalizers
	}
	var changes []struct {
		Op, Path string
		Value    any
	}
	if a.Verb != VerbPatch || a.Type != "json" || json.Unmarshal(a.Patch, &changes) != nil {
		return nil
	}
	for _, c := range changes {
		name, _ := c.Value.(string)
		switch {
		case !strings.HasPrefix(c.Path, "/metadata/finalizers") || c.Op != "test" && c.Op != "remove":
			return nil
		case c.Op == "test" && !slices.Contains(finalizers, name):
			finalizers = append(finalizers, name)
		}
	}
	slices.Sort(finalizers)
	return finalizers
}
