package sets

import (
	"path"
	"slices"

	"github.com/termguard/termguard/lint/files"
)

type identity struct{ group, kind, namespace, name string }

func identityOf(o *files.Object) identity {
	group, _ := path.Split(o.APIVersion)
	return identity{group, o.Kind, o.Namespace, o.Name}
}

// splitAlternatives makes a set of each file that has an object, other than a Namespace, which a larger file of
// the set has too, such as an installer and a quick start. A kustomization combines the files that it lists.
func (m *Manifests) splitAlternatives() []*Manifests {
	if len(m.directories) == 0 {
		return []*Manifests{m}
	}
	var all []*files.File
	objects := map[*files.File][]*files.Object{}
	for _, o := range m.Objects {
		if objects[o.File] == nil {
			all = append(all, o.File)
		}
		objects[o.File] = append(objects[o.File], o)
	}
	slices.SortStableFunc(all, func(a, b *files.File) int { return len(objects[b]) - len(objects[a]) })
	definedIn := map[identity]*files.File{}
	alone := map[*files.File]bool{}
	alternatives := []*Manifests{m}
	for _, file := range all {
		if !m.ByFolder() && m.IsListed(file) {
			continue
		}
		elsewhere := func(o *files.Object) bool {
			defined := definedIn[identityOf(o)]
			return defined != nil && defined != file
		}
		if slices.ContainsFunc(objects[file], elsewhere) {
			alone[file] = true
			alternatives = append(alternatives, &Manifests{Set: m.Set, Number: m.numbers.Add(1), Objects: objects[file], DeleteHooks: m.DeleteHooks})
			continue
		}
		for _, o := range objects[file] {
			if o.Kind != "Namespace" {
				definedIn[identityOf(o)] = file
			}
		}
	}
	m.Objects = slices.DeleteFunc(m.Objects, func(o *files.Object) bool { return alone[o.File] })
	return alternatives
}
