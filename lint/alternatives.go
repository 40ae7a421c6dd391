package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint/source"
)

// identity distinguishes objects in a cluster.
type identity struct{ group, kind, namespace, name string }

func identityOf(o *source.Object) identity {
	group, _ := path.Split(o.APIVersion)
	return identity{group, o.Kind, o.Namespace, o.Name}
}

// splitAlternatives splits a folder's set if files of it are alternatives, such as an installer and a quick
// start, of which users apply one: they define the same webhooks or resources, or the same namespace and an
// object in it. The alternative with the most objects stays with the other files of the folder; each other one
// becomes a set.
func (s *set) splitAlternatives() []*set {
	if len(s.directories) == 0 || len(s.files) < 2 {
		return []*set{s}
	}
	leader := map[*source.File]*source.File{}
	var leaderOf func(file *source.File) *source.File
	leaderOf = func(file *source.File) *source.File {
		if other := leader[file]; other != nil && other != file {
			return leaderOf(other)
		}
		return file
	}
	type pair struct{ a, b *source.File }
	first := map[identity]*source.File{}
	namespaces, others := map[pair]bool{}, map[pair]bool{}
	count := map[*source.File]int{}
	for _, o := range s.objects {
		if !s.combinedByFolder() && s.run.isInKustomization(o.File) {
			continue // a kustomization makes them one
		}
		count[o.File]++
		id := identityOf(o)
		firstFile := first[id]
		if firstFile == nil {
			first[id] = o.File
			continue
		}
		if firstFile == o.File {
			continue
		}
		p := pair{firstFile, o.File}
		switch {
		case o.Kind == "CustomResourceDefinition", strings.HasSuffix(o.Kind, "WebhookConfiguration"):
			namespaces[p], others[p] = true, true
		case o.Kind == "Namespace":
			namespaces[p] = true
		default:
			others[p] = true
		}
	}
	for p := range namespaces {
		if others[p] {
			leader[leaderOf(p.a)] = leaderOf(p.b)
			leader[leaderOf(p.b)] = leaderOf(p.b)
		}
	}
	if len(leader) == 0 {
		return []*set{s}
	}
	largest := map[*source.File]*source.File{} // by leader
	for _, file := range s.files {
		if _, grouped := leader[file]; !grouped {
			continue
		}
		if current := largest[leaderOf(file)]; current == nil || count[file] > count[current] {
			largest[leaderOf(file)] = file
		}
	}
	sets := []*set{s}
	for _, file := range s.files {
		if _, grouped := leader[file]; !grouped || largest[leaderOf(file)] == file {
			continue
		}
		inFile := func(o *source.Object) bool { return o.File == file }
		alternative := &set{input: s.input, run: s.run, files: []*source.File{file}, deleteHooks: s.deleteHooks}
		for _, o := range s.objects {
			if inFile(o) {
				alternative.objects = append(alternative.objects, o)
			}
		}
		s.objects = slices.DeleteFunc(s.objects, inFile)
		s.files = slices.DeleteFunc(slices.Clone(s.files), func(f *source.File) bool { return f == file })
		sets = append(sets, alternative)
	}
	return sets
}
