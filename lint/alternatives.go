package lint

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
func (s *set) splitAlternatives() []*set {
	if len(s.directories) == 0 || len(s.files) < 2 {
		return []*set{s}
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
	alternatives := map[*files.File][]*files.File{} // by leader
	for _, file := range s.files {
		alternatives[leaderOf(file)] = append(alternatives[leaderOf(file)], file)
	}
	sets := []*set{s}
	for _, same := range alternatives {
		largest := slices.MaxFunc(same, func(a, b *files.File) int { return objects[a] - objects[b] })
		for _, file := range same {
			if file != largest {
				sets = append(sets, s.without(file))
			}
		}
	}
	return sets
}

// without moves a file into its own set.
func (s *set) without(file *files.File) *set {
	alone := &set{input: s.input, run: s.run, number: s.run.numbers.Add(1), files: []*files.File{file}, deleteHooks: s.deleteHooks}
	var rest []*files.Object
	for _, o := range s.objects {
		if o.File == file {
			alone.objects = append(alone.objects, o)
		} else {
			rest = append(rest, o)
		}
	}
	s.objects = rest
	s.files = slices.DeleteFunc(slices.Clone(s.files), func(f *files.File) bool { return f == file })
	return alone
}
