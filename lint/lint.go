package lint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Options configure a run.
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
	// Only, if not nil, limits findings to objects and places in these files; others are read for facts.
	Only []string
	// Render renders charts, also with the files Values, and kustomizations, instead of their parts, if
	// Renderer is found.
	Render bool
	Values []string
	// Snapshot is a file of "termguard snapshot".
	Snapshot string
	// KubernetesVersion, such as v1.36.3, defaults to the snapshot's; else it is unknown.
	KubernetesVersion string
	// Policies runs while files are read. Defaults to the built-in ones.
	Policies func() (*policies.Set, error)
	// Params are data.params, by policy id.
	Params map[string]any
	Off    map[string]bool
	Owners map[string]string
	// Catalog defaults to the built-in one.
	Catalog *catalog.Catalog

	// noShortcuts is for tests, which compare the findings without it.
	noShortcuts bool
}

// ErrNoInput means that there is nothing to lint.
var ErrNoInput = errors.New("nothing to lint")

// evaluationTimeout bounds one evaluation in processor time, to lose no findings on a busy machine.
const evaluationTimeout = 10 * time.Second

// Run returns an error, such as ErrNoInput, for the whole run only: unreadable input is a Problem. If ctx
// ends, it returns at once with the cause and the findings so far.
func Run(ctx context.Context, o Options) (*Result, error) {
	if len(o.Paths) == 0 {
		return nil, fmt.Errorf("%w: name files, directories, or - for standard input", ErrNoInput)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{options: o, notes: notes{}, kustomizations: map[string]kustomization{}, builds: map[*files.File]*build{}, renderedFiles: map[string]bool{}}
	r.snapshot = r.readSnapshot(ctx)
	if o.Only != nil {
		r.only = map[string]bool{}
		for _, file := range o.Only {
			r.only[absolute(o.Dir, file)] = true
		}
	}
	defer r.stop()
	done := make(chan error, 1)
	go func() { done <- CatchPanic(func() error { return r.execute(ctx) }) }()
	select {
	case err := <-done:
		if ctx.Err() == nil {
			if err != nil && !errors.Is(err, ErrPanic) {
				return nil, err
			}
			r.stop()
			return r.result(), err
		}
	case <-ctx.Done():
	}
	r.stop()
	return r.result(), context.Cause(ctx)
}

func (r *run) execute(ctx context.Context) error {
	go catalog.Default().Entries() // sets read it
	r.engine = prepare(ctx, r.options)
	if err := r.findInputs(ctx); err != nil {
		return err
	}
	r.definitions = sync.OnceValue(func() map[string]map[string]*definition { return r.readDefinitions(ctx) })
	r.workloads = sync.OnceValue(func() map[string][]*unstructured.Unstructured { return r.readWorkloads(ctx) })
	if err := r.lintSets(ctx); err != nil {
		return err
	}
	if _, err := r.engine(); err != nil { // if no set needed it
		return err
	}
	if n := r.notes; r.counts.Objects == 0 && r.only == nil && len(n[renderFailure])+len(n[remoteKustomization])+len(n[unrenderedChart])+len(n[unrenderedKustomization]) > 0 {
		r.addProblem(Place{File: filepath.ToSlash(r.options.Paths[0]), Line: 1, Column: 1}, "nothing was read: no object is here that needs no rendering, and the notes tell why nothing was rendered")
		return nil
	}
	if r.counts.Files == 0 {
		reasons := append([]string{fmt.Sprintf("no .yaml, .yml or .json files in %s", strings.Join(r.options.Paths, ", "))}, r.notes.list()...)
		if r.counts.Tests > 0 {
			reasons = append(reasons, page.Count(r.counts.Tests, "file")+" of tests left out: see --include-tests")
		}
		return fmt.Errorf("%w: %s", ErrNoInput, strings.Join(reasons, "; "))
	}
	return nil
}

type run struct {
	options  Options
	engine   func() (*policies.Engine, error)
	snapshot func() (*cluster.World, error)

	only map[string]bool // nil for all files
	sets []*input

	charts        []*files.Directory
	builds        map[*files.File]*build
	renderedFiles map[string]bool // that builds include, by path without links

	kustomizations     map[string]kustomization   // readable ones, by path of the folder
	kustomizationFiles map[string]map[string]bool // files that kustomizations name, by folder
	objectCache        sync.Map                   // by folder
	definitions        func() map[string]map[string]*definition
	workloads          func() map[string][]*unstructured.Unstructured // by namespace
	running            sync.Map                                       // by workload of the catalog
	numbers            atomic.Int64                                   // of sets

	mu       sync.Mutex
	stopped  bool
	findings []Finding
	problems []Problem
	marks    []Mark
	counts   Counts
	notes    notes
}

func (r *run) stop() {
	r.record(func() { r.stopped = true })
}

// record changes the results, unless the run was stopped.
func (r *run) record(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		change()
	}
}

func (r *run) note(kind note, name string) {
	r.record(func() { r.notes[kind] = append(r.notes[kind], name) })
}

func (r *run) addProblem(at Place, message string) {
	r.record(func() { r.problems = append(r.problems, Problem{at, message}) })
}

func prepare(ctx context.Context, o Options) func() (*policies.Engine, error) {
	load := sync.OnceValues(func() (*policies.Engine, error) {
		from := o.Policies
		if from == nil {
			from = func() (*policies.Set, error) { return policies.Load(policies.Embedded()) }
		}
		set, err := from()
		if err != nil {
			return nil, fmt.Errorf("load policies: %w", err)
		}
		return policies.NewEngine(ctx, set, policies.EngineOptions{Params: o.Params, Off: o.Off, Deadline: evaluationTimeout, Now: processorTime, Lazy: true})
	})
	go func() { _ = CatchPanic(func() error { _, _ = load(); return nil }) }() // users of load get the error
	return load
}

func (r *run) readSnapshot(ctx context.Context) func() (*cluster.World, error) {
	return sync.OnceValues(func() (*cluster.World, error) {
		if r.options.Snapshot == "" {
			return nil, nil //nolint:nilnil // there is none
		}
		a, err := snapshots.Open(absolute(r.options.Dir, r.options.Snapshot))
		if err != nil {
			return nil, err
		}
		defer a.Close()
		if a.Redacted {
			r.note(redactedSnapshot, r.options.Snapshot)
		}
		return a.World(ctx, cluster.Options{})
	})
}

func absolute(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// maxInMemory bounds standard input, and all rendered text, in bytes.
const maxInMemory = 256 << 20

// findInputs finds the sets that are applied and deleted together: files given one by one, and each
// directory's own, as for kubectl delete -f DIR.
func (r *run) findInputs(ctx context.Context) error {
	arguments := &input{}
	for _, path := range r.options.Paths {
		name := filepath.ToSlash(path)
		if path == "-" {
			if r.options.Stdin == nil {
				return errors.New("standard input was asked for, and there is none")
			}
			text, err := io.ReadAll(io.LimitReader(r.options.Stdin, maxInMemory+1))
			switch {
			case err != nil:
				return fmt.Errorf("read standard input: %w", err)
			case len(text) > maxInMemory:
				return fmt.Errorf("standard input has more than %d MiB: name files or folders", maxInMemory>>20)
			case len(bytes.TrimSpace(text)) == 0:
				return errors.New("standard input is empty: see whether what should write to it has failed")
			}
			arguments.files = append(arguments.files, &files.File{Name: "-", Content: text})
			continue
		}
		full := absolute(r.options.Dir, path)
		info, err := os.Stat(full)
		if err != nil {
			return fmt.Errorf("%s: %w", path, errors.Unwrap(err))
		}
		root, err := r.linkBoundary(full)
		if err != nil {
			return fmt.Errorf("%s: %w; name what it leads to", path, err)
		}
		if !info.IsDir() {
			arguments.files = append(arguments.files, &files.File{Name: name, Path: full})
			continue
		}
		search := files.Search{
			Root: root, Exclude: r.options.Exclude, Tests: r.options.IncludeTests, Visit: r.addDirectory,
			SkipTests: func(files int) { r.record(func() { r.counts.Tests += files }) },
			Problem:   func(file, message string) { r.addProblem(Place{File: file, Line: 1, Column: 1}, message) },
		}
		search.Walk(filepath.ToSlash(filepath.Clean(name)), full)
	}
	if err := r.render(ctx); err != nil {
		return err
	}
	r.joinKustomizations()
	r.dropRenderedFiles()
	if len(arguments.files) > 0 {
		r.sets = append(r.sets, arguments)
	}
	r.sets = slices.DeleteFunc(r.sets, func(i *input) bool {
		return len(i.all()) == 0 || r.only != nil && !i.ignoresOnly && !slices.ContainsFunc(i.all(), r.isSelected)
	})
	return nil
}

// linkBoundary returns the folder that links below a path may not leave: its repository, else the working
// directory, else itself. A path that links out of its repository is an error: the repository's author made
// the link.
func (r *run) linkBoundary(full string) (string, error) {
	from := filepath.Dir(full)
	if info, err := os.Lstat(full); err == nil && info.IsDir() { // no link
		from = full
	}
	if root := files.Root(from); root != "" {
		return root, files.Inside(root, full)
	}
	if dir := absolute(r.options.Dir, ""); files.Inside(dir, full) == nil {
		return dir, nil
	}
	return full, nil
}

func (r *run) addDirectory(d *files.Directory) {
	if d.Kustomization != "" {
		if k, err := readKustomization(d); err == nil {
			r.kustomizations[d.Path] = k
		} else {
			r.noteFailure(d.Name, fmt.Errorf("it cannot be read: %w", err))
		}
	}
	if d.Chart {
		r.charts = append(r.charts, d)
	}
	r.sets = append(r.sets, &input{directories: []*files.Directory{d}})
}

func (r *run) lintSets(ctx context.Context) error {
	group, untilFailure := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range r.sets {
		group.Go(func() error {
			if untilFailure.Err() != nil {
				return nil
			}
			return r.catchPanic(i.all(), func() error { return r.lint(ctx, r.set(i)) })
		})
	}
	return cmp.Or(group.Wait(), context.Cause(ctx))
}

func (r *run) lint(ctx context.Context, s *set) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	for _, s := range s.splitAlternatives() {
		if err := s.evaluate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ErrPanic is a defect of lint, which must not lose other findings.
var ErrPanic = errors.New("termguard failed, which is a defect of its own: please report it")

// CatchPanic turns a panic into an ErrPanic.
func CatchPanic(work func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, value, debug.Stack())
		}
	}()
	return work()
}

func (r *run) catchPanic(files []*files.File, work func() error) error {
	err := CatchPanic(work)
	if errors.Is(err, ErrPanic) {
		r.addProblem(Place{File: files[0].Name, Line: 1, Column: 1}, err.Error())
		return nil
	}
	return err
}

func (r *run) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	findings := byPlace(r.findings)
	slices.SortFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(a.compare(b.Place), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.marks, func(a, b Mark) int { return a.compare(b.Place) })
	return &Result{Findings: append([]Finding{}, findings...), Problems: append([]Problem{}, r.problems...), Marks: r.marks, Notes: r.notes.list(), Counts: r.counts}
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column), cmp.Compare(p.Rendered, q.Rendered))
}
