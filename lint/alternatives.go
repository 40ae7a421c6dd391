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

// splitAlternatives makes a set of each alternative file of a folder, as an installer and a quick start: users
// apply only one, as they define the same webhooks or resources, or the same namespace and an object in it.
// The largest stays with the other files.
func (s *set) splitAlternatives() []*set {
	if len(s.directories) == 0 || len(s.files) < 2 {
		return []*set{s}
	}
	const sameNamespace, sameOther = 1, 2
	conflicts := map[[2]*source.File]int{}
	first := map[identity]*source.File{}
	objects := map[*source.File]int{}
	for _, o := range s.objects {
		if !s.combinedByFolder() && s.run.isInKustomization(o.File) {
			continue // a kustomization makes them one
		}
		objects[o.File]++
		id := identityOf(o)
		other := first[id]
		if other == nil {
			first[id] = o.File
			continue
		}
		conflict := sameOther
		switch {
		case o.Kind == "CustomResourceDefinition", strings.HasSuffix(o.Kind, "WebhookConfiguration"):
			conflict = sameNamespace | sameOther
		case o.Kind == "Namespace":
			conflict = sameNamespace
		}
		if other != o.File {
			conflicts[[2]*source.File{other, o.File}] |= conflict
		}
	}
	leader := map[*source.File]*source.File{}
	leaderOf := func(file *source.File) *source.File {
		for leader[file] != nil && leader[file] != file {
			file = leader[file]
		}
		return file
	}
	for files, conflict := range conflicts {
		if conflict == sameNamespace|sameOther {
			to := leaderOf(files[1])
			leader[leaderOf(files[0])], leader[to] = to, to
		}
	}
	largest := map[*source.File]*source.File{} // by leader
	for _, file := range s.files {
		if current := largest[leaderOf(file)]; leader[file] != nil && (current == nil || objects[file] > objects[current]) {
			largest[leaderOf(file)] = file
		}
	}
	sets := []*set{s}
	for _, file := range s.files {
		if leader[file] == nil || largest[leaderOf(file)] == file {
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
