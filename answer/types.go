package answer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/internal/nearest"
)

// Type is a kind of object, as named on the command line.
type Type struct {
	schema.GroupVersionResource // of the preferred version
	Kind                        string
	Namespaced                  bool

	singular string
	short    []string
	versions []string
	verbs    []string // nil if unknown
	groups   []string // categories, such as all
}

// Types are the types that a cluster serves, in its order.
type Types struct {
	all        []Type
	lost       []string // groups that could not be read
	discovered *live.Discovered
}

// Served reads the types of a cluster, without groups that do not answer. The error is of all discovery.
func Served(ctx context.Context, config *rest.Config) (Types, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Types{}, fmt.Errorf("connect for discovery: %w", err)
	}
	discovered, err := live.Discover(ctx, client)
	if err != nil {
		return Types{}, Explain(err)
	}
	types := Types{discovered: &discovered}
	for gv := range discovered.Failed {
		types.lost = append(types.lost, gv.String())
	}
	slices.Sort(types.lost)
	preferred := map[string]string{}
	for _, group := range discovered.Groups {
		preferred[group.Name] = group.PreferredVersion.Version
	}
	for _, list := range discovered.Lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, api := range list.APIResources {
			if !strings.Contains(api.Name, "/") { // otherwise a subresource
				types.add(gv, api, preferred[gv.Group] == gv.Version)
			}
		}
	}
	return types, nil
}

func (t *Types) add(gv schema.GroupVersion, api metav1.APIResource, preferred bool) {
	add := Type{
		GroupVersionResource: gv.WithResource(api.Name), Kind: api.Kind, Namespaced: api.Namespaced,
		singular: api.SingularName, short: api.ShortNames, verbs: api.Verbs, groups: api.Categories,
	}
	at := slices.IndexFunc(t.all, func(have Type) bool { return have.GroupResource() == add.GroupResource() })
	if at < 0 {
		add.versions = []string{gv.Version}
		t.all = append(t.all, add)
		return
	}
	add.versions = append(t.all[at].versions, gv.Version)
	if preferred {
		t.all[at] = add
	} else {
		t.all[at].versions = add.versions
	}
}

func (t *Types) builtin(k cluster.Kind) {
	api := metav1.APIResource{Name: k.GroupResource().Resource, Kind: k.Kind, SingularName: strings.ToLower(k.Kind), ShortNames: k.Short, Namespaced: k.Namespaced}
	t.add(k.GroupVersion(), api, true)
}

// findAll returns several types for a category, such as all.
func (t Types) findAll(name string) (matches []Type, err error) {
	for _, typ := range t.all {
		if slices.Contains(typ.groups, strings.ToLower(name)) && typ.deletable() == nil {
			matches = append(matches, typ)
		}
	}
	if len(matches) > 0 {
		return matches, nil
	}
	typ, err := t.Find(name)
	return []Type{typ}, err
}

// Find returns the type for a name as kubectl does: plural, singular, kind or short name, optionally with
// ".GROUP" or ".VERSION.GROUP". Built-in types take precedence; other ambiguities are an error.
func (t Types) Find(name string) (Type, error) {
	name = strings.ToLower(name)
	for _, names := range []func(Type) []string{
		func(typ Type) []string { return []string{typ.Resource, typ.singular, strings.ToLower(typ.Kind)} },
		func(typ Type) []string { return typ.short },
	} {
		var matches []Type
		for _, typ := range t.all {
			if match, ok := typ.called(name, names(typ)); ok {
				matches = append(matches, match)
			}
		}
		if len(matches) > 0 {
			return choose(name, matches)
		}
	}
	var names []string
	for _, typ := range t.all {
		names = append(names, typ.GroupResource().String(), typ.Resource, typ.singular)
		names = append(names, typ.short...)
	}
	lost := ""
	if len(t.lost) > 0 {
		lost = fmt.Sprintf(" (these APIs do not answer: %s)", strings.Join(t.lost, ", "))
	}
	return Type{}, noTypeError(fmt.Sprintf("type %q not found%s%s (see: kubectl api-resources)", name, lost, nearest.Hint(name, names)))
}

type noTypeError string

func (e noTypeError) Error() string { return string(e) }

// called returns the type in the version that name has.
func (t Type) called(name string, names []string) (Type, bool) {
	for _, own := range names {
		if own == "" {
			continue
		}
		if name == own || name == own+"."+t.Group && t.Group != "" {
			return t, true
		}
		for _, version := range t.versions {
			if name == own+"."+version+"."+t.Group {
				t.Version = version
				return t, true
			}
		}
	}
	return t, false
}

func choose(name string, matches []Type) (Type, error) {
	builtin := cluster.BuiltinGroups()
	for _, first := range []func(Type) bool{
		func(t Type) bool { return t.Group == "" },
		func(t Type) bool { return slices.Contains(builtin, t.Group) },
	} {
		if at := slices.IndexFunc(matches, first); at >= 0 {
			return matches[at], nil
		}
	}
	if len(matches) == 1 {
		return matches[0], nil
	}
	var full []string
	for _, t := range matches {
		full = append(full, t.GroupResource().String())
	}
	slices.Sort(full)
	return Type{}, fmt.Errorf("type %q is ambiguous: say which of %s is meant", name, strings.Join(full, ", "))
}

func (t Type) deletable() error {
	if t.verbs != nil && !slices.Contains(t.verbs, "delete") {
		return fmt.Errorf("%s cannot be deleted: the API server has no such verb for it", t.GroupResource())
	}
	return nil
}
