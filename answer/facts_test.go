package answer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/internal/nearest"
)

// AllFromFacts finds objects in facts. A subject has only the parts of its object that
// they hold.
func AllFromFacts(world *cluster.World, names []Name) (subjects []Subject, missing []error, err error) {
	types := typesOf(world) // once: collecting them is slow in a large cluster
	for _, name := range names {
		s, err := fromFacts(world, types, name)
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

func fromFacts(world *cluster.World, types Types, name Name) (s Subject, err error) {
	typ, err := types.Find(name.Resource)
	if err != nil {
		return s, err
	}
	if !typ.Namespaced {
		name.Namespace = ""
	}
	exists := false
	world.Read(func(f cluster.Facts) {
		s, exists = Described(f, typ.GroupResource().String(), name.Namespace, name.Name)
	})
	if !exists {
		names := keysOf(world, typ.GroupResource().String())
		return s, missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, names)))
	}
	s.Type, s.Place, s.Stub = typ, name.Place, "a snapshot"
	if s.guarded() {
		s.Unseen = append(s.Unseen, s.part("a snapshot does not tell what its status says"))
	}
	return s, nil
}

// keysOf returns the keys at a path of the facts, in order.
func keysOf(world *cluster.World, path ...string) (keys []string) {
	world.View(func(doc map[string]any) {
		section, _ := facts.Lookup(doc, path...).(map[string]any)
		keys = slices.Sorted(maps.Keys(section))
	})
	return keys
}

// typesOf returns the types in the facts.
func typesOf(world *cluster.World) Types {
	var types Types
	for _, k := range cluster.Builtin() {
		if !k.Past {
			types.builtin(k)
		}
	}
	for _, name := range keysOf(world, "crds") {
		world.Read(func(f cluster.Facts) { types.define(f, name) })
	}
	for _, namespace := range keysOf(world, "counts") {
		for _, name := range keysOf(world, "counts", namespace) {
			gr := schema.ParseGroupResource(name)
			if !slices.ContainsFunc(types.all, func(t Type) bool { return t.GroupResource() == gr }) {
				types.add(schema.GroupVersion{Group: gr.Group, Version: "v1"}, metav1.APIResource{Name: gr.Resource, Namespaced: namespace != ""}, true)
			}
		}
	}
	return types
}

// define adds the type of a definition, in each version that it serves: users may name any of them.
func (t *Types) define(f cluster.Facts, name string) {
	d, _ := f.Definition(name)
	gr := schema.ParseGroupResource(name)
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
