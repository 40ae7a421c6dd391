package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/nearest"
)

// AllFromFacts finds objects in facts. A subject has only the parts of its object that
// they hold.
func AllFromFacts(world *cluster.World, names []Name) (subjects []Subject, missing []error, err error) {
	world.Read(func(f cluster.Facts) { subjects, missing, err = allFromFacts(f, names) })
	return subjects, missing, err
}

func allFromFacts(f cluster.Facts, names []Name) (subjects []Subject, missing []error, err error) {
	types := typesOf(f) // once: collecting them is slow in a large cluster
	for _, name := range names {
		s, err := fromFacts(f, types, name)
		switch {
		case errors.As(err, new(missingError)), errors.As(err, new(noTypeError)):
			missing = append(missing, name.located(err))
		case err != nil:
			return nil, nil, err
		default:
			subjects = append(subjects, s)
		}
	}
	return subjects, missing, nil
}

func fromFacts(f cluster.Facts, types Types, name Name) (Subject, error) {
	s := Subject{Name: name.Name, Place: name.Place}
	var err error
	if s.Type, err = types.Find(name.Type); err != nil {
		return s, err
	}
	if s.Type.Namespaced {
		s.Namespace = name.Namespace
	}
	typ := s.Type
	s, exists := Described(f, typ.GroupResource().String(), s.Namespace, s.Name)
	if !exists {
		return s, missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, f.Names(typ.GroupResource().String(), s.Namespace))))
	}
	s.Type, s.Place, s.Stub = typ, name.Place, "a snapshot"
	if s.guarded() {
		s.Unseen = append(s.Unseen, s.part("a snapshot does not tell what its status says"))
	}
	return s, nil
}

// typesOf returns the types in the facts.
func typesOf(f cluster.Facts) Types {
	var types Types
	for _, k := range cluster.Builtin() {
		if !k.Past {
			types.builtin(k)
		}
	}
	for _, name := range f.Names(definitions.String(), "") {
		types.define(f, name)
	}
	for namespace, name := range f.Resources() {
		gr := schema.ParseGroupResource(name)
		if !slices.ContainsFunc(types.all, func(t Type) bool { return t.GroupResource() == gr }) {
			types.add(schema.GroupVersion{Group: gr.Group, Version: "v1"}, metav1.APIResource{Name: gr.Resource, Namespaced: namespace != ""}, true)
		}
	}
	return types
}

// define adds the type of a definition, in each version that it serves: users may name any of them.
func (t *Types) define(f cluster.Facts, name string) {
	d, gr := f.Definition(name), schema.ParseGroupResource(name)
	singular := cmp.Or(d.Singular, strings.ToLower(d.Kind))
	api := metav1.APIResource{Name: gr.Resource, Kind: d.Kind, SingularName: singular, ShortNames: d.Short, Namespaced: d.Namespaced}
	served := d.Served
	if len(served) == 0 {
		served = []string{""}
	}
	for _, version := range served {
		t.add(gr.WithVersion(version).GroupVersion(), api, true) // the last is preferred
	}
}
