package sets

import (
	"path"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint/files"
)

type identity struct{ group, kind, namespace, name string }

func identityOf(o *files.Object) identity {
	group, _ := path.Split(o.APIVersion)
	return identity{group, o.Kind, o.Namespace, o.Name}
}

// splitAlternatives makes a set of each file that defines the same webhooks or resources as a larger one, or
// the same namespace with content, such as an installer and a quick start.
func (m *Manifests) splitAlternatives() []*Manifests {
	if len(m.directories) == 0 || len(m.files) < 2 {
		return []*Manifests{m}
	}
	definedIn := map[identity]*files.File{}
	objects := map[*files.File]int{}
	leader := map[*files.File]*files.File{} // of alternatives, by a tree
	leaderOf := func(file *files.File) *files.File {
		for leader[file] != nil {
			file = leader[file]
		}
		return file
	}
	join := func(a, b *files.File) {
		if a, b = leaderOf(a), leaderOf(b); a != b {
			leader[a] = b
		}
	}
	type pair struct{ a, b *files.File }
	sameNamespace, sameContent := map[pair]bool{}, map[pair]bool{}
	for _, o := range m.Objects {
		if !m.ByFolder() && m.IsListed(o.File) {
			continue // a kustomization makes them one
		}
		objects[o.File]++
		id := identityOf(o)
		files := pair{definedIn[id], o.File}
		switch {
		case files.a == nil:
			definedIn[id] = o.File
		case o.Kind == "CustomResourceDefinition", strings.HasSuffix(o.Kind, "WebhookConfiguration"):
			join(files.a, files.b)
		case o.Kind == "Namespace":
			sameNamespace[files] = true
		default:
			sameContent[files] = true
		}
	}
	for files := range sameNamespace {
		if sameContent[files] {
			join(files.a, files.b)
		}
	}
	alternatives := map[*files.File][]*files.File{} // by leader
	for _, file := range m.files {
		alternatives[leaderOf(file)] = append(alternatives[leaderOf(file)], file)
	}
	sets := []*Manifests{m}
	for _, same := range alternatives {
		largest := slices.MaxFunc(same, func(a, b *files.File) int { return objects[a] - objects[b] })
		for _, file := range same {
			if file != largest {
				sets = append(sets, m.without(file))
			}
		}
	}
	return sets
}

// without moves a file into its own set.
func (m *Manifests) without(file *files.File) *Manifests {
	alone := &Manifests{Set: m.Set, Number: m.numbers.Add(1), files: []*files.File{file}, DeleteHooks: m.DeleteHooks}
	var rest []*files.Object
	for _, o := range m.Objects {
		if o.File == file {
			alone.Objects = append(alone.Objects, o)
		} else {
			rest = append(rest, o)
		}
	}
	m.Objects = rest
	m.files = slices.DeleteFunc(slices.Clone(m.files), func(f *files.File) bool { return f == file })
	return alone
}
