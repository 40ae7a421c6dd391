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

// apart splits a folder's set if files of it are alternatives, such as an installer and a quick start, of
// which users apply one: they define the same webhooks or resources, or the same namespace and an object in
// it. The alternative with the most objects stays with the other files of the folder; each other one becomes
// a set.
func (s *set) apart() []*set {
	if s.build != nil || s.folder == "" || len(s.files) < 2 {
		return []*set{s}
	}
	leader := map[*source.File]*source.File{}
	var of func(file *source.File) *source.File
	of = func(file *source.File) *source.File {
		if other := leader[file]; other != nil && other != file {
			return of(other)
		}
		return file
	}
	type pair struct{ a, b *source.File }
	first := map[identity]*source.File{}
	namespaces, others := map[pair]bool{}, map[pair]bool{}
	count := map[*source.File]int{}
	for _, o := range s.objects {
		if !s.loose && s.run.names(o.File) {
			continue // a kustomization makes them one
		}
		count[o.File]++
		id := identityOf(o)
		before := first[id]
		if before == nil {
			first[id] = o.File
			continue
		}
		if before == o.File {
			continue
		}
		p := pair{before, o.File}
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
			leader[of(p.a)] = of(p.b)
			leader[of(p.b)] = of(p.b)
		}
	}
	if len(leader) == 0 {
		return []*set{s}
	}
	stays := map[*source.File]*source.File{} // by leader
	for _, file := range s.files {
		if _, grouped := leader[file]; !grouped {
			continue
		}
		if known := stays[of(file)]; known == nil || count[file] > count[known] {
			stays[of(file)] = file
		}
	}
	parts := []*set{s}
	for _, file := range s.files {
		if _, grouped := leader[file]; !grouped || stays[of(file)] == file {
			continue
		}
		own := func(o *source.Object) bool { return o.File == file }
		part := &set{run: s.run, folder: s.folder, files: []*source.File{file}, patched: s.patched, namespace: s.namespace, loose: s.loose, past: s.past, cleanup: s.cleanup}
		for _, o := range s.objects {
			if own(o) {
				part.objects = append(part.objects, o)
			}
		}
		s.objects = slices.DeleteFunc(s.objects, own)
		s.files = slices.DeleteFunc(slices.Clone(s.files), func(f *source.File) bool { return f == file })
		parts = append(parts, part)
	}
	return parts
}
