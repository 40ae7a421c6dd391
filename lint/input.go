package lint

import (
	"slices"

	"github.com/termguard/termguard/lint/source"
)

// input locates the files of a set. All are found before the first is linted, so it must be small.
type input struct {
	directories []*source.Directory // its own, and those of its parts
	files       []*source.File      // given by the user, or rendered
	ignoresOnly bool                // read only for their ignores
}

// folder returns the path of the files' folder, "" for files that were given.
func (i *input) folder() string {
	if len(i.directories) == 0 {
		return ""
	}
	return i.directories[0].Path
}

// size counts the files.
func (i *input) size() int {
	n := len(i.files)
	for _, d := range i.directories {
		n += len(d.Manifests)
	}
	return n
}

func (i *input) all() []*source.File {
	files := slices.Clone(i.files)
	for _, d := range i.directories {
		files = append(files, d.Files()...)
	}
	return files
}

// set returns the set of an input.
func (r *run) set(i *input) *set {
	s := &set{run: r, folder: i.folder(), files: i.all()}
	s.patchedWebhooks = slices.ContainsFunc(i.directories, func(d *source.Directory) bool { return r.kustomizations[d.Path].patchesWebhooks })
	if len(i.directories) > 0 {
		s.namespace = r.kustomizations[i.directories[0].Path].namespace
	}
	if len(i.files) == 1 {
		if s.build = r.builds[i.files[0]]; s.build != nil {
			s.folder = s.build.directory.Path
		}
	}
	s.ignoresOnly = i.ignoresOnly
	s.folderOnly = len(i.directories) > 0 && i.directories[0].Kustomization == ""
	for _, file := range s.files {
		file.KeepSchemas = r.options.noShortcuts
	}
	return s
}
