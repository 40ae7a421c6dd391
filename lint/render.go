package lint

import (
	"cmp"
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

	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/lint/tree"
)

// Renderer is the program that renders charts and kustomizations: cmd/termguard-render.
const Renderer = "termguard-render"

// Limits of rendering: the time of one chart or kustomization, of a whole run, and the bytes of one.
const (
	renderTime  = 15 * time.Second
	rendersTime = time.Minute
	maxRendered = 64 << 20
)

// FindRenderer finds it beside this program, or in PATH.
func FindRenderer() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), Renderer)); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(Renderer)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside termguard nor in PATH: releases have it, and \"make render\" in a clone builds it", Renderer)
	}
	return found, nil
}

// request and answer are the messages to and from the renderer: answer has the objects, and the files that a
// kustomization includes.
type request struct {
	Kind   string   `json:"kind"` // chart or kustomization
	Root   string   `json:"root"` // which links may not leave
	Dir    string   `json:"dir"`
	Values []string `json:"values,omitempty"`
}

type answer struct {
	Text      string   `json:"text"`
	Files     []string `json:"files"`
	Namespace string   `json:"namespace"` // that a chart was installed in
	Error     string   `json:"error"`
}

// perRenderer is the number of requests per process: starting one takes as long as some five answers.
const perRenderer = 8

// renderAll renders requests, one per processor at a time, and calls done with each result, one at a time. A
// process that fails or times out is replaced, without effect on other requests.
func renderAll(ctx context.Context, program string, requests []request, done func(i int, a answer, err error)) {
	next := make(chan int)
	var wait sync.WaitGroup
	var one sync.Mutex
	for range min(runtime.GOMAXPROCS(0), 1+len(requests)/perRenderer) {
		wait.Go(func() {
			var r *renderer
			defer func() { r.stop() }()
			for i := range next {
				var a answer
				var err error
				if r == nil {
					r, err = startRenderer(ctx, program)
				}
				if r != nil {
					if a, err = r.render(ctx, requests[i]); err != nil {
						r.stop()
						r = nil
					}
				}
				one.Lock()
				done(i, a, err)
				one.Unlock()
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	wait.Wait()
}

// renderer is a process that renders one request after the other.
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
	// Templates must not see our environment. Most kustomizations need less than 20 MB: with the default
	// GOGC, collecting that would take a fifth of the rendering time.
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
	limited := &io.LimitedReader{R: out}
	return &renderer{cancel, cmd, in, limited, json.NewDecoder(limited)}, nil
}

// stop ends the process.
func (r *renderer) stop() {
	if r != nil {
		r.cancel()
		_ = r.cmd.Wait() // it was killed
	}
}

func (r *renderer) render(ctx context.Context, q request) (a answer, err error) {
	late := time.AfterFunc(renderTime, r.cancel)
	r.out.N = maxRendered
	err = json.NewEncoder(r.in).Encode(q)
	if err == nil {
		err = r.answers.Decode(&a)
	}
	switch {
	case err == nil && late.Stop():
		return a, nil
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case !late.Stop():
		return answer{}, fmt.Errorf("it takes more than %v", renderTime)
	case r.out.N <= 0:
		return answer{}, fmt.Errorf("it has more than %d MiB", maxRendered>>20)
	}
	if ended := r.cmd.Wait(); ended != nil {
		err = ended
	}
	return answer{}, fmt.Errorf("it ended %s: %w", Renderer, err)
}

// build is a rendered chart or kustomization.
type build struct {
	directory *source.Directory
	file      string          // the file that defines it
	reads     []string        // the files that a kustomization includes
	known     map[string]file // known files, by path without links
	namespace string          // of objects without one, "" for kubectl's default

	given, values []string // values of a chart: the run's, and those to try if it rejects these
	refused       error    // why it rejects them
}

// file is a known file, and its name in findings.
type file struct{ name, path string }

// render renders the charts and kustomizations that were found. On failure it adds a note, and their files
// are read unrendered.
func (r *run) render(ctx context.Context) error {
	var requests []request
	var of []*build
	ask := func(d *source.Directory, q request, file string) error {
		root := tree.Root(d.Path)
		var err error
		if root == "" {
			root, err = r.tree(d.Path)
		}
		if err != nil {
			r.found.notes.unbuilt = append(r.found.notes.unbuilt, unbuilt{d.Name, err.Error()})
			return nil
		}
		if q.Root, err = filepath.Abs(root); err != nil {
			return err
		}
		if q.Dir, err = filepath.Abs(d.Path); err != nil {
			return err
		}
		b := &build{directory: d, file: file, given: q.Values}
		if q.Kind == "chart" {
			b.values = valuesBeside(q.Root, q.Dir)
		}
		requests, of = append(requests, q), append(of, b)
		return nil
	}
	for _, d := range r.tops() {
		if err := ask(d, request{Kind: "kustomization"}, d.Kustomization); err != nil {
			return err
		}
	}
	for _, d := range r.topCharts() {
		q := request{Kind: "chart"}
		for _, file := range r.options.Values {
			full, err := filepath.Abs(absolute(r.options.Dir, file))
			if err != nil {
				return err
			}
			q.Values = append(q.Values, full)
		}
		if err := ask(d, q, "Chart.yaml"); err != nil {
			return err
		}
	}
	if len(requests) == 0 {
		return nil
	}
	program := ""
	if r.options.Render {
		found, err := FindRenderer()
		if err != nil {
			r.found.notes.unrendered = err.Error()
		}
		program = found
	}
	if program == "" {
		for i, b := range of {
			r.found.notes.asTheyStand(requests[i].Kind, b.directory.Name)
		}
		return nil
	}
	known := r.knownFiles()
	limited, cancel := context.WithTimeoutCause(ctx, rendersTime, fmt.Errorf("all of them together take more than %v", rendersTime))
	defer cancel()
	for len(requests) > 0 {
		var again []request
		var ofAgain []*build
		renderAll(limited, program, requests, func(i int, a answer, err error) {
			b := of[i]
			if err == nil && a.Error != "" {
				err = errors.New(strings.ReplaceAll(a.Error, requests[i].Root+string(filepath.Separator), ""))
				b.refused = cmp.Or(b.refused, err)
				if len(b.values) > 0 {
					q := requests[i]
					q.Values = append(slices.Clone(b.given), b.values[0])
					b.values = b.values[1:]
					again, ofAgain = append(again, q), append(ofAgain, b)
					return
				}
			}
			if r.held += len(a.Text); err == nil && r.held > maxHeld {
				err = fmt.Errorf("all of them together have more than %d MiB", maxHeld>>20)
			}
			if err != nil {
				r.found.notes.unbuilt = append(r.found.notes.unbuilt, unbuilt{b.directory.Name, cmp.Or(b.refused, err).Error()})
				return
			}
			b.known, b.reads, b.namespace = known, a.Files, a.Namespace
			file := &source.File{Name: path.Join(b.directory.Name, b.file), Rendered: b.directory.Path, Content: []byte(a.Text)}
			r.builds[file] = b
			r.sets = append(r.sets, &input{files: []*source.File{file}})
			for _, name := range a.Files {
				r.covered[name] = true
			}
		})
		requests, of = again, ofAgain
	}
	return context.Cause(ctx)
}

// topCharts returns the charts that are no subchart: those in charts/ are rendered with their parent, by its
// conditions and values.
func (r *run) topCharts() (found []*source.Directory) {
	charts, renders := map[string]*source.Directory{}, map[string]bool{}
	for _, d := range r.charts {
		charts[d.Path] = d
	}
	top := func(folder string) string {
		for filepath.Base(filepath.Dir(folder)) == "charts" && charts[filepath.Dir(filepath.Dir(folder))] != nil {
			folder = filepath.Dir(filepath.Dir(folder))
		}
		return folder
	}
	for _, d := range r.charts {
		renders[top(d.Path)] = renders[top(d.Path)] || d.Templates > 0
	}
	for _, d := range r.charts {
		if top(d.Path) == d.Path && renders[d.Path] {
			found = append(found, d)
		}
	}
	return found
}

// maxTries bounds the value files that a chart is tried with.
const maxTries = 4

// valuesBeside returns value files in a chart: chart-testing's (github.com/helm/chart-testing,
// ci/*-values.yaml), and per environment.
func valuesBeside(root, dir string) (found []string) {
	for _, pattern := range []string{"ci/*-values.yaml", "values-*.yaml", "values/*.yaml"} {
		files, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))) // the pattern is valid
		for _, file := range files {
			if len(found) < maxTries && tree.Inside(root, file) == nil {
				found = append(found, file)
			}
		}
	}
	return found
}

// knownFiles returns the files of the folders that were found.
func (r *run) knownFiles() map[string]file {
	known := map[string]file{}
	for _, i := range r.sets {
		for _, d := range i.directories {
			real := resolved(d.Path)
			for _, base := range append([]string{d.Kustomization}, d.Manifests...) {
				known[filepath.Join(real, base)] = file{path.Join(d.Name, base), filepath.Join(d.Path, base)}
			}
		}
	}
	return known
}

// uncover removes files that a rendered kustomization includes from the sets; they are read only for their
// ignores.
func (r *run) uncover() {
	if len(r.covered) == 0 {
		return
	}
	quoted := &input{quoted: true}
	for _, i := range r.sets {
		for n, d := range i.directories {
			real := resolved(d.Path)
			of, rest := *d, *d
			of.Manifests, rest.Manifests = nil, nil
			for _, base := range d.Manifests {
				if r.covered[filepath.Join(real, base)] {
					of.Manifests = append(of.Manifests, base)
				} else {
					rest.Manifests = append(rest.Manifests, base)
				}
			}
			if len(of.Manifests) > 0 {
				quoted.directories = append(quoted.directories, &of)
				i.directories[n] = &rest
			}
		}
	}
	r.sets = append(r.sets, quoted)
}

// resolved returns a path without symbolic links, or unchanged on an error.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

var errNoOrigin = errors.New("nothing tells where it is from")

// origin returns the place of a rendered object's field in its original file: of the value if it is found,
// else of the object.
func (b *build) origin(o *source.Object, field, value string) (Place, error) {
	if o.Source() == "" || len(b.reads) == 0 {
		return Place{}, errNoOrigin
	}
	from := filepath.Join(resolved(b.directory.Path), filepath.FromSlash(o.Source()))
	base, found := b.original(from, o)
	if found == nil {
		return Place{}, errNoOrigin
	}
	at, exact := found.Find(field)
	if exact && at.Value == value {
		return placed(base, at, ""), nil
	}
	for _, other := range b.reads { // a patch may set it
		if other == from {
			continue
		}
		if patch, found := b.original(other, o); found != nil {
			if at, exact := found.Find(field); exact && at.Value == value {
				return placed(patch, at, ""), nil
			}
		}
	}
	if place, found := b.inline(field); found && value != "" {
		return place, nil
	}
	return placed(base, at, ""), nil
}

// inline returns the line of a kustomization that sets a field, as in an inline patch.
func (b *build) inline(field string) (Place, bool) {
	key := strings.TrimRight(field, "[]0123456789")
	key = key[strings.LastIndexAny(key, `."]`)+1:]
	for _, name := range b.reads {
		known, found := b.known[name]
		if key == "" || !found || !source.IsKustomization(filepath.Base(name)) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for n, line := range strings.Split(string(text), "\n") {
			if at := strings.Index(line, key); at >= 0 {
				column := utf8.RuneCountInString(line[:at]) + 1
				return Place{File: known.name, Line: n + 1, Column: column, EndColumn: column + utf8.RuneCountInString(key), Source: strings.TrimSuffix(line, "\r")}, true
			}
		}
	}
	return Place{}, false
}

// original returns the object of a file that a rendered one was made from: of its kind, with the name that
// shares most with its own, since kustomize adds prefixes and suffixes.
func (b *build) original(real string, o *source.Object) (*source.File, *source.Object) {
	known, found := b.known[real]
	if !found {
		return nil, nil
	}
	f := &source.File{Name: known.name, Path: known.path}
	var best *source.Object
	for c := range f.Read() {
		for _, other := range c.Objects {
			if other.Kind != o.Kind || !strings.Contains(o.Name, other.Name) || best != nil && len(best.Name) >= len(other.Name) {
				continue
			}
			best = other
		}
	}
	return f, best
}

// inTemplate returns the place of rendered text: the first line of its template if a comment names an
// existing one, else of the rendered file. The exact line is unknown.
func inTemplate(file *source.File, p source.Position, template string) Place {
	at := Place{File: file.Name, Line: 1, Column: 1, Source: p.Text, Rendered: template}
	if template == "" {
		at.Rendered = path.Base(file.Name)
		return at
	}
	if _, inside, found := strings.Cut(template, "/"); found { // CHART/templates/FILE
		if _, err := os.Stat(filepath.Join(file.Rendered, filepath.FromSlash(inside))); err == nil {
			at.File = path.Join(path.Dir(file.Name), inside)
		}
	}
	return at
}
