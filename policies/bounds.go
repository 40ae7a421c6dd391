package policies

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// volumes are types of volumes and claims: deleting one deletes data that a finalizer's owner might keep.
var volumes = []string{"pv", "persistentvolume", "persistentvolumes", "pvc", "persistentvolumeclaim", "persistentvolumeclaims"}

// IsVolume is about RESOURCE/NAME.
func IsVolume(object string) bool {
	resource, _, _ := strings.Cut(object, "/")
	return namesVolume(resource)
}

// namesVolume takes a command, such as pods,pvc/data.
func namesVolume(command string) bool {
	words := strings.FieldsFunc(strings.ToLower(command), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(volumes, word) })
}

// keep removes steps that name a volume or claim outside the request, remove a finalizer whose owner works,
// or only repeat a deletion.
func (s *subject) keep(f *Finding) {
	for i, step := range f.Steps {
		if step.Action != nil && step.Action.Verb == VerbDelete && !step.Action.Forces() {
			again := *step.Action
			again.Objects = slices.DeleteFunc(slices.Clone(again.Objects), func(object string) bool {
				resource, name, _ := strings.Cut(object, "/")
				return s.leaves(resource, again.Namespace, name)
			})
			f.Steps[i].Action, f.Steps[i].Command = &again, again.Command()
		}
	}
	f.Steps = slices.DeleteFunc(f.Steps, func(step Step) bool {
		if step.Action == nil {
			return namesVolume(step.Command)
		}
		if len(step.Action.Objects) == 0 {
			return true
		}
		return slices.ContainsFunc(step.Action.Targets(), func(o Object) bool {
			return namesVolume(o.Resource) && !s.goes(o) ||
				slices.ContainsFunc(step.RemovedFinalizers(), func(finalizer string) bool { return s.works(o, finalizer) })
		})
	})
}

func (s *subject) goes(o Object) bool {
	of := under(s.cluster, "set")
	return o == Object{s.resource, s.namespace, s.name} ||
		s.resource == "namespaces" && o.Namespace == s.name ||
		under(under(under(of, o.Resource), o.Namespace), o.Name) != nil ||
		o.Namespace != "" && under(under(under(of, "namespaces"), ""), o.Namespace) != nil
}

func (s *subject) leaves(resource, namespace, name string) bool {
	if resource == s.resource && name == s.name {
		return s.leaving
	}
	if resource == "pods" {
		since, _ := under(under(under(s.cluster["pods"], namespace), name), "deletionTimestamp").(string)
		return since != ""
	}
	return anyOf(s.cluster["terminating"], func(resources any) bool {
		return anyOf(under(under(resources, resource), "objects"), func(o any) bool {
			in, _ := under(o, "namespace").(string)
			return in == namespace && under(o, "name") == name
		})
	})
}

// works reports whether a finalizer's owner runs, and nothing certainly prevents its work.
func (s *subject) works(o Object, finalizer string) bool {
	owner := s.owner(o, finalizer)
	lacks := func(thing any) bool { return under(thing, "without") == "hangs" }
	return under(owner, "state") == "alive" && !anyOf(under(owner, "missing"), lacks) && !anyOf(under(owner, "unallowed"), lacks)
}

func (s *subject) owner(o Object, finalizer string) (owner any) {
	if o.Resource == s.resource && o.Name == s.name {
		return under(s.input["ownership"], finalizer)
	}
	anyOf(under(under(under(s.cluster["finalized"], o.Namespace), finalizer), o.Resource), func(group any) bool {
		names, _ := whole(under(group, "names")).([]any)
		if slices.Contains(names, any(o.Name)) {
			owner = under(group, "ownership")
		}
		return owner != nil
	})
	return owner
}

// RemovedFinalizers returns the finalizers that a step removes, if it does nothing else.
func (s Step) RemovedFinalizers() (finalizers []string) {
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
