package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint/source"
)

type identity struct{ group, kind, namespace, name string }

func identityOf(o *source.Object) identity {
	group, _ := path.Split(o.APIVersion)
	return identity{group, o.Kind, o.Namespace, o.Name}
}

// splitAlternatives makes a set of each alternative file of a folder, such as an installer and a quick start:
// files that define the same webhooks or resources, or the same namespace with content, are alternatives. The
// largest one stays with the other files.
func (s *set) splitAlternatives() []*set {
	if len(s.directories) == 0 || len(s.files) < 2 {
		return []*set{s}
	}
	definedIn := map[identity]*source.File{}
	objects := map[*source.File]int{}
	leader := map[*source.File]*source.File{} // of alternatives, by a tree
	leaderOf := func(file *source.File) *source.File {
		for leader[file] != nil {
			file = leader[file]
		}
		return file
	}
	join := func(a, b *source.File) {
		if a, b = leaderOf(a), leaderOf(b); a != b {
			leader[a] = b
		}
	}
	type pair struct{ a, b *source.File }
	sameNamespace, sameContent := map[pair]bool{}, map[pair]bool{}
	for _, o := range s.objects {
		if !s.combinedByFolder() && s.run.isInKustomization(o.File) {
			continue // a kustomization makes them one
		}
		objects[o.File]++
		id := identityOf(o)
		files := pair{definedIn[id], o.File}
		switch {
		case files.a == nil:
			definedIn[id] = o.File
		case o.Kind == definitionKind, strings.HasSuffix(o.Kind, "WebhookConfiguration"):
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
	alternatives := map[*source.File][]*source.File{} // by leader
	for _, file := range s.files {
		alternatives[leaderOf(file)] = append(alternatives[leaderOf(file)], file)
	}
	sets := []*set{s}
	for _, files := range alternatives {
		largest := slices.MaxFunc(files, func(a, b *source.File) int { return objects[a] - objects[b] })
		for _, file := range files {
			if file != largest {
				sets = append(sets, s.without(file))
			}
		}
	}
	return sets
}

// without moves a file into a set of its own.
func (s *set) without(file *source.File) *set {
	alone := &set{input: s.input, run: s.run, number: s.run.numbers.Add(1), files: []*source.File{file}, deleteHooks: s.deleteHooks}
	var rest []*source.Object
	for _, o := range s.objects {
		if o.File == file {
			alone.objects = append(alone.objects, o)
		} else {
			rest = append(rest, o)
		}
	}
	s.objects = rest
	s.files = slices.DeleteFunc(slices.Clone(s.files), func(f *source.File) bool { return f == file })
	return alone
}
