package sets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/termguard/termguard/lint/files"
)

const Renderer = "termguard-render"

const (
	renderTime      = 15 * time.Second
	totalRenderTime = time.Minute
	maxRendered     = 64 << 20 // bytes of one chart or kustomization
)

func findRenderer() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), Renderer)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(Renderer)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside termguard nor in PATH: releases have it, and \"make render\" in a clone builds it", Renderer)
	}
	return path, nil
}

// RenderKustomization returns a kustomization's objects; it may include folders anywhere.
func RenderKustomization(ctx context.Context, folder string) (string, error) {
	program, err := findRenderer()
	if err != nil {
		return "", err
	}
	r, err := startRenderer(ctx, program)
	if err != nil {
		return "", err
	}
	defer r.stop()
	a, err := r.render(ctx, request{Kind: "kustomization", Dir: files.Absolute("", folder)})
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return "", fmt.Errorf("render the kustomization in %s: %w", folder, err)
	}
	return a.Text, nil
}

type request struct {
	Kind   string   `json:"kind"`
	Root   string   `json:"root"` // which links may not leave
	Dir    string   `json:"dir"`
	Values []string `json:"values,omitempty"`
	// Lenient renders a chart without the charts and values that it lacks.
	Lenient bool `json:"lenient,omitempty"`
}

type rendering struct {
	Text      string   `json:"text"`
	Files     []string `json:"files"`
	Namespace string   `json:"namespace"`
	Missing   []string `json:"missing"` // charts that a chart depends on
	Error     string   `json:"error"`
	lacks     string   // why a chart was rendered in part
}

// requestsPerRenderer is per process: starting one takes as long as some five answers.
const requestsPerRenderer = 8

// renderAll renders builds in parallel, and calls done one at a time. A failed process is replaced.
func renderAll(ctx context.Context, program string, builds []*build, done func(*build, rendering, error)) {
	next := make(chan *build)
	var wait sync.WaitGroup
	var mu sync.Mutex
	for range min(runtime.GOMAXPROCS(0), 1+len(builds)/requestsPerRenderer) {
		wait.Go(func() {
			var r *renderer
			defer func() { r.stop() }()
			for b := range next {
				var a rendering
				var err error
				if r == nil {
					r, err = startRenderer(ctx, program)
				}
				if r != nil {
					if a, err = r.renderBuild(ctx, b); err != nil {
						r.stop()
						r = nil
					}
				}
				mu.Lock()
				done(b, a, err)
				mu.Unlock()
			}
		})
	}
	for _, b := range builds {
		next <- b
	}
	close(next)
	wait.Wait()
}

// renderBuild tries other values of a chart that rejects its own, and then renders it in part.
func (r *renderer) renderBuild(ctx context.Context, b *build) (rendering, error) {
	first, err := r.render(ctx, b.request)
	if err != nil || first.Error == "" || b.request.Kind != "chart" {
		return first, err
	}
	for _, file := range valueFilesIn(b.request.Root, b.request.Dir) {
		q := b.request
		q.Values = append(slices.Clone(q.Values), file)
		if a, err := r.render(ctx, q); err != nil || a.Error == "" {
			return a, err
		}
	}
	q := b.request
	q.Lenient = true
	a, err := r.render(ctx, q)
	if err != nil || a.Error != "" {
		return first, err
	}
	a.lacks = first.Error
	return a, nil
}

type renderer struct {
	cancel  context.CancelFunc
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *io.LimitedReader // for one answer
	answers *json.Decoder
}

func startRenderer(ctx context.Context, program string) (*renderer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "serve")
	// Templates must not see our environment. Most kustomizations need less than 20 MB: the default GOGC
	// would take a fifth of the rendering time.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOGC=400"}
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", Renderer, err)
	}
	limitedOut := &io.LimitedReader{R: out}
	return &renderer{cancel, cmd, in, limitedOut, json.NewDecoder(limitedOut)}, nil
}

func (r *renderer) stop() {
	if r != nil {
		r.cancel()
		_ = r.cmd.Wait() // it was killed
	}
}

func (r *renderer) render(ctx context.Context, q request) (a rendering, err error) {
	timer := time.AfterFunc(renderTime, r.cancel)
	r.out.N = maxRendered
	err = json.NewEncoder(r.in).Encode(q)
	if err == nil {
		err = r.answers.Decode(&a)
	}
	switch {
	case err == nil && timer.Stop():
		return a, nil
	case ctx.Err() != nil:
		return rendering{}, context.Cause(ctx)
	case !timer.Stop():
		return rendering{}, fmt.Errorf("it takes more than %v", renderTime)
	case r.out.N <= 0:
		return rendering{}, fmt.Errorf("it has more than %d MiB", maxRendered>>20)
	}
	if waitErr := r.cmd.Wait(); waitErr != nil {
		err = waitErr
	}
	return rendering{}, fmt.Errorf("it ended %s: %w", Renderer, err)
}

type build struct {
	directory *files.Directory
	fileName  string
	request   request
	sources   []string            // that a kustomization includes
	locations map[string]location // by path without links
	namespace string              // of objects without one, "" for kubectl's default
	missing   []string            // charts that it depends on
}

type location struct{ name, path string }

func (in *Input) findBuilds() (builds []*build) {
	add := func(d *files.Directory, file string, q request) {
		root, err := in.linkBoundary(d.Path)
		if err != nil {
			in.noteFailure(d.Name, err)
			return
		}
		q.Root, q.Dir = root, d.Path
		builds = append(builds, &build{directory: d, fileName: file, request: q})
	}
	for _, d := range in.rootKustomizations() {
		add(d, d.Kustomization, request{Kind: "kustomization"})
	}
	var values []string
	for _, file := range in.options.Values {
		values = append(values, files.Absolute(in.options.Dir, file))
	}
	for _, d := range in.topCharts() {
		add(d, "Chart.yaml", request{Kind: "chart", Values: values})
	}
	return builds
}

// render adds a note for a failure; the files are then read unrendered.
func (in *Input) render(ctx context.Context) error {
	builds := in.findBuilds()
	if len(builds) == 0 {
		return nil
	}
	program := ""
	if in.options.Render {
		var err error
		if program, err = findRenderer(); err != nil {
			in.AddNote(renderingOff, err.Error())
		}
	}
	if program == "" {
		for _, b := range builds {
			in.AddNote(map[string]Note{"chart": unrenderedChart, "kustomization": unrenderedKustomization}[b.request.Kind], b.directory.Name)
		}
		return nil
	}
	locations := in.locateFiles()
	bytes := 0
	renderCtx, cancel := context.WithTimeoutCause(ctx, totalRenderTime, fmt.Errorf("all of them together take more than %v", totalRenderTime))
	defer cancel()
	renderAll(renderCtx, program, builds, func(b *build, a rendering, err error) {
		if bytes += len(a.Text); err == nil && bytes > maxInMemory {
			err = fmt.Errorf("all of them together have more than %d MiB", maxInMemory>>20)
		}
		a.lacks = strings.ReplaceAll(a.lacks, b.request.Root+string(filepath.Separator), "")
		if err == nil && a.Error != "" {
			err = errors.New(strings.ReplaceAll(a.Error, b.request.Root+string(filepath.Separator), ""))
		}
		if err != nil {
			in.noteFailure(b.directory.Name, err)
			return
		}
		if a.lacks != "" {
			in.noteReason(partlyRendered, b.directory.Name, a.lacks)
		}
		b.locations, b.sources, b.namespace, b.missing = locations, a.Files, a.Namespace, a.Missing
		file := &files.File{Name: path.Join(b.directory.Name, b.fileName), Rendered: b.directory.Path, Content: []byte(a.Text)}
		in.Sets = append(in.Sets, &Set{Input: in, given: []*files.File{file}, build: b})
		for _, name := range a.Files {
			in.renderedFiles[name] = true
		}
	})
	return context.Cause(ctx)
}

// topCharts returns no subcharts: a parent renders its own, by its conditions and values.
func (in *Input) topCharts() (tops []*files.Directory) {
	charts, hasTemplates := map[string]*files.Directory{}, map[string]bool{}
	for _, d := range in.charts {
		charts[d.Path] = d
	}
	top := func(folder string) string {
		for filepath.Base(filepath.Dir(folder)) == "charts" && charts[filepath.Dir(filepath.Dir(folder))] != nil {
			folder = filepath.Dir(filepath.Dir(folder))
		}
		return folder
	}
	for _, d := range in.charts {
		hasTemplates[top(d.Path)] = hasTemplates[top(d.Path)] || d.Templates > 0
	}
	for _, d := range in.charts {
		if top(d.Path) == d.Path && hasTemplates[d.Path] {
			tops = append(tops, d)
		}
	}
	return tops
}

const maxTries = 4

// valueFilesIn returns chart-testing's value files (github.com/helm/chart-testing, ci/*-values.yaml), and
// those per environment.
func valueFilesIn(root, dir string) (values []string) {
	for _, pattern := range []string{"ci/*-values.yaml", "values-*.yaml", "values/*.yaml"} {
		matches, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))) // the pattern is valid
		for _, file := range matches {
			if len(values) < maxTries && files.Inside(root, file) == nil {
				values = append(values, file)
			}
		}
	}
	return values
}

func (in *Input) locateFiles() map[string]location {
	locations := map[string]location{}
	for _, s := range in.Sets {
		for _, d := range s.directories {
			real := files.Real(d.Path)
			for _, base := range append([]string{d.Kustomization}, d.Manifests...) {
				locations[filepath.Join(real, base)] = location{path.Join(d.Name, base), filepath.Join(d.Path, base)}
			}
		}
	}
	return locations
}

// dropRenderedFiles keeps files that a rendered kustomization includes only for their ignores.
func (in *Input) dropRenderedFiles() {
	if len(in.renderedFiles) == 0 {
		return
	}
	ignores := &Set{Input: in, IgnoresOnly: true}
	for _, s := range in.Sets {
		for n, d := range s.directories {
			real := files.Real(d.Path)
			rendered, rest := d.Split(func(base string) bool { return in.renderedFiles[filepath.Join(real, base)] })
			if len(rendered.Manifests) > 0 {
				ignores.directories = append(ignores.directories, rendered)
				s.directories[n] = rest
			}
		}
	}
	in.Sets = append(in.Sets, ignores)
}

// origin returns the place of a rendered object's field in its original file, or else of the object.
func (b *build) origin(o *files.Object, field, value string) (at files.Place, exists bool) {
	if o.Source == "" {
		return at, false
	}
	from := filepath.Join(files.Real(b.directory.Path), filepath.FromSlash(o.Source))
	original := b.original(from, o)
	if original == nil {
		return at, false
	}
	at, exact := original.Find(field)
	if exact && at.Value == value {
		return at, true
	}
	for _, other := range b.sources { // a patch may set it
		if patch := b.original(other, o); other != from && patch != nil {
			if at, exact := patch.Find(field); exact && at.Value == value {
				return at, true
			}
		}
	}
	if inline, ok := b.findInline(field); ok && value != "" {
		return inline, true
	}
	return at, true
}

func (b *build) findInline(field string) (at files.Place, ok bool) {
	key := strings.TrimRight(field, "[]0123456789")
	key = key[strings.LastIndexAny(key, `."]`)+1:]
	for _, name := range b.sources {
		from, ok := b.locations[name]
		if key == "" || !ok || !files.IsKustomization(filepath.Base(name)) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for n, line := range strings.Split(string(text), "\n") {
			if at := strings.Index(line, key); at >= 0 {
				column := utf8.RuneCountInString(line[:at]) + 1
				return files.Place{File: from.name, Line: n + 1, Column: column, EndColumn: column + utf8.RuneCountInString(key), Source: strings.TrimSuffix(line, "\r")}, true
			}
		}
	}
	return at, false
}

// original returns the object of the same kind with the longest name within o's: kustomize adds prefixes and
// suffixes.
func (b *build) original(real string, o *files.Object) (best *files.Object) {
	from, ok := b.locations[real]
	if !ok {
		return nil
	}
	for c := range (&files.File{Name: from.name, Path: from.path}).Read() {
		for _, other := range c.Objects {
			if other.Kind != o.Kind || !strings.Contains(o.Name, other.Name) || best != nil && len(best.Name) >= len(other.Name) {
				continue
			}
			best = other
		}
	}
	return best
}
