// Package sets finds the manifests that are applied and deleted together: a folder, a kustomization, or a
// rendered chart.
package sets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
)

type Options struct {
	// Paths are files, directories, and "-" for Stdin, relative to Dir; findings name them as given.
	Paths []string
	Stdin io.Reader
	// Dir defaults to the working directory.
	Dir string
	// Exclude applies to searched directories, not to Paths themselves.
	Exclude files.Exclude
	// IncludeTests lints fixtures, golden files and copies from a cluster. Paths are never left out.
	IncludeTests bool
	// Only, if not nil, limits findings to objects and places in these files, by absolute path; others are read
	// for facts.
	Only map[string]bool
	// Render renders charts, also with the files Values, and kustomizations, instead of their parts, if
	// Renderer is found.
	Render bool
	Values []string
	// KeepSchemas is as in files.File.
	KeepSchemas bool
}

var ErrNoInput = errors.New("nothing to lint")

// Input is all sets of a run, and what kustomizations say about their files.
type Input struct {
	Sets []*Set

	*Log
	options        Options
	charts         []*files.Directory
	renderedFiles  map[string]bool            // that builds include, by path without links
	kustomizations map[string]Kustomization   // readable ones, by path of the folder
	listed         map[string]map[string]bool // files that kustomizations name, by folder
	objectCache    sync.Map                   // by folder
	numbers        atomic.Int64               // of manifests
}

// Set is applied and deleted together. It must be small: all are found before the first is read.
type Set struct {
	*Input
	// IgnoresOnly is for files whose objects are in other sets, rendered.
	IgnoresOnly bool

	directories []*files.Directory // its own, and those of its parts
	given       []*files.File      // by the user, or rendered
	build       *build             // of its objects; nil if they are in their own files
}

func (s *Set) Files() []*files.File {
	all := slices.Clone(s.given)
	for _, d := range s.directories {
		all = append(all, d.Files()...)
	}
	for _, file := range all {
		file.KeepSchemas = s.options.KeepSchemas
	}
	return all
}

func (s *Set) folder() string {
	if len(s.directories) == 0 {
		return ""
	}
	return s.directories[0].Path
}

// ByFolder reports whether only a folder combines the files: users may delete them one by one.
func (s *Set) ByFolder() bool {
	return len(s.directories) > 0 && s.directories[0].Kustomization == ""
}

// Chart returns the namespace of a chart's release, which is made up, or "".
func (s *Set) Chart() string {
	if s.build == nil {
		return ""
	}
	return s.build.namespace
}

// Charts returns charts elsewhere that a chart or kustomization depends on, and their namespace, if known.
func (s *Set) Charts() (names []string, namespace string) {
	if s.build != nil {
		return s.build.missing, ""
	}
	for _, d := range s.directories {
		k := s.kustomizations[d.Path]
		for _, chart := range slices.Concat(k.HelmCharts, k.HelmChartInflationGenerator) {
			namespace = cmp.Or(namespace, k.Namespace, chart.Namespace)
			names = append(names, chart.Name, chart.ChartName)
		}
	}
	return names, namespace
}

// IsSelected reports whether findings in a file count.
func (s *Set) IsSelected(file *files.File) bool {
	switch {
	case s.options.Only == nil:
		return true
	case s.build != nil:
		return len(s.build.sources) == 0 || slices.ContainsFunc(s.build.sources, func(name string) bool { return s.options.Only[s.build.locations[name].path] })
	}
	return file.Path == "" || s.options.Only[file.Path]
}

// Root returns the root of an object's repository, or "".
func (s *Set) Root(o *files.Object) string {
	dir := s.folder()
	if s.build != nil {
		dir = s.build.directory.Path
	} else if o.File != nil && o.File.Path != "" {
		dir = filepath.Dir(o.File.Path)
	}
	if dir == "" {
		return ""
	}
	root, err := s.linkBoundary(dir)
	if err != nil {
		return ""
	}
	return root
}

// Place returns the place of an object's field, also of a rendered one, and the folder of its kustomization, if
// any.
func (s *Set) Place(o *files.Object, field string) (at files.Place, kustomization string) {
	at, _ = o.Find(field)
	if s.build == nil || len(s.build.sources) == 0 {
		return at, ""
	}
	if origin, ok := s.build.origin(o, field, at.Value); ok {
		origin.Value, origin.Rendered = at.Value, ""
		at = origin
	}
	return at, s.build.directory.Name
}

// maxInMemory bounds standard input, and all rendered text, in bytes.
const maxInMemory = 256 << 20

// Find finds the sets: files given one by one, and each directory's own, as for kubectl delete -f DIR.
func Find(ctx context.Context, o Options, log *Log) (*Input, error) {
	if len(o.Paths) == 0 {
		return nil, fmt.Errorf("%w: name files, directories, or - for standard input", ErrNoInput)
	}
	in := &Input{Log: log, options: o, kustomizations: map[string]Kustomization{}, renderedFiles: map[string]bool{}}
	arguments := &Set{Input: in}
	for _, path := range o.Paths {
		if path != "-" {
			if err := in.findPath(path, arguments); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			continue
		}
		text, err := readStdin(o.Stdin)
		if err != nil {
			return nil, err
		}
		arguments.given = append(arguments.given, &files.File{Name: "-", Content: text})
	}
	if err := in.render(ctx); err != nil {
		return nil, err
	}
	in.joinKustomizations()
	in.dropRenderedFiles()
	in.Sets = append(in.Sets, arguments)
	in.Sets = slices.DeleteFunc(in.Sets, func(s *Set) bool {
		all := s.Files()
		return len(all) == 0 || in.options.Only != nil && !s.IgnoresOnly && !slices.ContainsFunc(all, s.IsSelected)
	})
	return in, nil
}

func readStdin(stdin io.Reader) ([]byte, error) {
	if stdin == nil {
		return nil, errors.New("the arguments name standard input, and there is none")
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxInMemory+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read standard input: %w", err)
	case len(text) > maxInMemory:
		return nil, fmt.Errorf("standard input has more than %d MiB: name files or folders", maxInMemory>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("standard input is empty: check whether the command that writes to it failed")
	}
	return text, nil
}

func (in *Input) findPath(path string, arguments *Set) error {
	full := files.Absolute(in.options.Dir, path)
	info, err := os.Stat(full)
	if err != nil {
		return errors.Unwrap(err)
	}
	root, err := in.linkBoundary(full)
	if err != nil {
		return fmt.Errorf("%w; name its target", err)
	}
	name := filepath.ToSlash(path)
	if !info.IsDir() {
		arguments.given = append(arguments.given, &files.File{Name: name, Path: full})
		return nil
	}
	search := files.Search{
		Root: root, Exclude: in.options.Exclude, Tests: in.options.IncludeTests, Visit: in.addDirectory,
		SkipTests: func(files int) { in.Record(func() { in.Counts.Tests += files }) },
		Problem:   func(file, message string) { in.AddProblem(files.Place{File: file, Line: 1, Column: 1}, message) },
	}
	search.Walk(filepath.ToSlash(filepath.Clean(name)), full)
	return nil
}

func (in *Input) addDirectory(d *files.Directory) {
	if d.Kustomization != "" {
		if k, err := ReadKustomization(d); err == nil {
			in.kustomizations[d.Path] = k
		} else {
			in.noteFailure(d.Name, fmt.Errorf("it cannot be read: %w", err))
		}
	}
	if d.Chart {
		in.charts = append(in.charts, d)
	}
	in.Sets = append(in.Sets, &Set{Input: in, directories: []*files.Directory{d}})
}

// linkBoundary returns the folder that links below a path may not leave: its repository, else the working
// directory, else itself. A path that links out of its repository is an error: the repository's author made
// the link.
func (in *Input) linkBoundary(full string) (string, error) {
	from := filepath.Dir(full)
	if info, err := os.Lstat(full); err == nil && info.IsDir() { // no link
		from = full
	}
	if root := files.Root(from); root != "" {
		return root, files.Inside(root, full)
	}
	if dir := files.Absolute(in.options.Dir, ""); files.Inside(dir, full) == nil {
		return dir, nil
	}
	return full, nil
}

// CheckEmpty returns ErrNoInput if nothing was read, and adds a problem if that would need rendering.
func (in *Input) CheckEmpty() error {
	in.mu.Lock()
	unrendered := len(in.notes[renderFailure]) + len(in.notes[remoteKustomization]) + len(in.notes[unrenderedChart]) + len(in.notes[unrenderedKustomization])
	counts := in.Counts
	in.mu.Unlock()
	if counts.Objects == 0 && in.options.Only == nil && unrendered > 0 {
		in.AddProblem(files.Place{File: filepath.ToSlash(in.options.Paths[0]), Line: 1, Column: 1}, "nothing was read: every object here needs rendering, and the notes say why nothing was rendered")
		return nil
	}
	if counts.Files > 0 {
		return nil
	}
	reasons := append([]string{fmt.Sprintf("no .yaml, .yml or .json files in %s", strings.Join(in.options.Paths, ", "))}, in.Notes()...)
	if counts.Tests > 0 {
		reasons = append(reasons, page.Count(counts.Tests, "file")+" of tests left out: see --include-tests")
	}
	return fmt.Errorf("%w: %s", ErrNoInput, strings.Join(reasons, "; "))
}
