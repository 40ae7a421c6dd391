package lint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/lint/tree"
	"github.com/termguard/termguard/policies"
)

// Options are what a run looks at. The zero value finds nothing to lint.
type Options struct {
	// Paths are files, directories, and "-" for Stdin. Relative ones are below
	// Dir, and findings name them as they are given here.
	Paths []string
	Stdin io.Reader
	// Dir is the working directory. Defaults to that of the process.
	Dir string
	// Exclude are patterns as in .gitignore, relative to Dir, of what
	// directories are searched without. A path that is given itself is read
	// all the same.
	Exclude []string
	// IncludeTests asks about what only tests read, too: fixtures, golden files,
	// copies of objects out of a cluster. What is given itself is asked about
	// all the same.
	IncludeTests bool
	// Only, if not nil, are the files, relative to Dir, that findings are about:
	// they hold what would be deleted, or the place of the finding. The others
	// of Paths are read for their facts.
	Only []string
	// Render has Renderer, where it can be found, render charts and kustomizations that
	// are found in directories: charts with their own values, and those in the files
	// Values. What a kustomization is made of is not read as it stands then.
	Render bool
	Values []string
	// Snapshot is a file with the facts of a cluster, as "termguard snapshot"
	// writes it.
	Snapshot string
	// KubernetesVersion is that of the API server that manifests are for, as
	// in v1.36.3. Defaults to that of the snapshot; without both it is unknown.
	KubernetesVersion string
	// Policies loads the policies that are asked. It is called while files are
	// read. Defaults to those in the binary.
	Policies func() (*policies.Set, error)
	// Params are data.params, by policy id.
	Params map[string]any
	// Off names the policies that are not asked.
	Off map[string]bool
	// Owners declares who removes a finalizer, by finalizer, as in
	// cluster.Options.
	Owners map[string]string
	// Catalog of known finalizers. Defaults to the one in the binary.
	Catalog *catalog.Catalog

	// everything asks every question about every object at once and builds every
	// node, as tests do to hold what is left out to finding the same.
	everything bool
}

// ErrNothing is returned where there is nothing to lint.
var ErrNothing = errors.New("nothing to lint")

// evaluation bounds the processor time of one evaluation of the policies: a linter can wait,
// and a busy machine is no reason to find nothing.
const evaluation = 10 * time.Second

// Run reads manifests and asks the policies about them. What cannot be read is
// a Problem of the result; the error is for what concerns the whole run, such
// as ErrNothing, or a path that does not exist.
//
// It returns as soon as ctx ends, with the cause and what was found until then:
// what then still reads or parses may go on for a moment, and is lost.
func Run(ctx context.Context, o Options) (*Result, error) {
	if len(o.Paths) == 0 {
		return nil, fmt.Errorf("%w: name files, directories, or - for standard input", ErrNothing)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{options: o, snapshot: readSnapshot(o), told: map[*set]total{}, kustomized: map[string]kustomized{}, builds: map[*source.File]*build{}, covered: map[string]bool{}}
	if o.Only != nil {
		r.only = map[string]bool{}
		for _, file := range o.Only {
			r.only[file] = true
		}
	}
	defer r.stop()
	ended := make(chan error, 1)
	go func() { ended <- Guarded(func() error { return r.work(ctx) }) }()
	select {
	case err := <-ended:
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

func (r *run) work(ctx context.Context) error {
	r.engine = prepare(ctx, r.options)
	if err := r.inputs(ctx); err != nil {
		return err
	}
	r.holders = sync.OnceValue(func() holders { return r.findHolders(ctx) })
	r.definitions = sync.OnceValue(func() defined { return r.readDefinitions(ctx) })
	if err := r.each(ctx); err != nil {
		return err
	}
	if _, err := r.engine(); err != nil { // where nothing asked for it
		return err
	}
	if n := r.notes; r.objects == 0 && r.only == nil && len(n.unbuilt)+len(n.far)+len(n.charts)+len(n.kustomizations) > 0 {
		at := Place{File: filepath.ToSlash(r.options.Paths[0]), Line: 1, Column: 1}
		r.problems = append(r.problems, Problem{at, "nothing was read: no object is here that needs no rendering, and the notes tell why nothing was rendered"})
		return nil
	}
	if r.total.files == 0 {
		reasons := append([]string{fmt.Sprintf("no .yaml, .yml or .json files in %s", strings.Join(r.options.Paths, ", "))}, r.notes.list()...)
		if r.tests > 0 {
			reasons = append(reasons, Counted(r.tests, "file")+" of tests left out: see --include-tests")
		}
		return fmt.Errorf("%w: %s", ErrNothing, strings.Join(reasons, "; "))
	}
	return nil
}

// run is one run under way.
type run struct {
	options  Options
	engine   func() (*policies.Engine, error)
	snapshot func() (*cluster.World, error)

	only  map[string]bool // nil where all files are asked about
	sets  []*input
	found total // of finding the files

	charts  []*source.Directory     // folders with a Chart.yaml
	builds  map[*source.File]*build // what was rendered
	covered map[string]bool         // files that it is made of, by their paths without links
	held    int                     // bytes of what was rendered

	kustomized  map[string]kustomized      // folders with a kustomization that can be read, by path
	named       map[string]map[string]bool // files that kustomizations name, by folder
	applied     sync.Map                   // the objects in them, by folder
	holders     func() holders
	definitions func() defined
	counted     sync.Map // workloads that budgets count, by namespace
	projects    sync.Map // of which a file has a workload, by the domain of their finalizers

	mu      sync.Mutex
	stopped bool
	total   // of the sets that are done with
	told    map[*set]total
}

// stop ends the run: what is found from then on is lost.
func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// tell notes what a set has found so far, in case that the run is ended.
func (s *set) tell() {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	t := s.total
	t.notes.unasked = maps.Clone(t.notes.unasked)
	s.run.told[s] = t
}

// settle takes in what a set that is done with has found.
func (r *run) settle(t total, s *set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.add(t)
		delete(r.told, s)
	}
}

// total is what the sets of a run add up to.
type total struct {
	findings                           []Finding
	problems                           []Problem
	marks                              []Mark
	files, documents, objects, skipped int
	tests                              int // files and objects that only tests read
	notes                              notes
}

func (t *total) add(u total) {
	t.findings = append(t.findings, u.findings...)
	t.problems = append(t.problems, u.problems...)
	t.marks = append(t.marks, u.marks...)
	t.files += u.files
	t.documents += u.documents
	t.objects += u.objects
	t.skipped += u.skipped
	t.tests += u.tests
	t.notes.add(u.notes)
}

// prepare loads the policies while files are searched for.
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
		return policies.NewEngine(ctx, set, policies.EngineOptions{Params: o.Params, Off: o.Off, Deadline: evaluation, Now: processorTime, Lazy: true})
	})
	go func() { _ = Guarded(func() error { _, _ = load(); return nil }) }() // who needs them is told
	return load
}

func readSnapshot(o Options) func() (*cluster.World, error) {
	return sync.OnceValues(func() (*cluster.World, error) {
		if o.Snapshot == "" {
			return nil, nil //nolint:nilnil // there is none
		}
		in, err := os.Open(absolute(o.Dir, o.Snapshot))
		if err != nil {
			return nil, fmt.Errorf("read snapshot: %w", err)
		}
		defer in.Close()
		world, err := snapshots.Read(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Snapshot, err)
		}
		return world, nil
	})
}

func absolute(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// maxHeld bounds standard input, and all that is rendered, in bytes: it is held in memory.
const maxHeld = 256 << 20

// inputs finds the sets of files: what is applied, and deleted, together. Files
// that are given one by one are a set; so are those directly in a directory, as
// for kubectl delete -f DIR.
func (r *run) inputs(ctx context.Context) error {
	defer func() { r.settle(r.found, nil) }()
	exclude, err := source.NewExclude(r.options.Exclude)
	if err != nil {
		return err
	}
	given := &input{}
	for _, path := range r.options.Paths {
		name := filepath.ToSlash(path)
		if path == "-" {
			if r.options.Stdin == nil {
				return errors.New("standard input was asked for, and there is none")
			}
			text, err := io.ReadAll(io.LimitReader(r.options.Stdin, maxHeld+1))
			switch {
			case err != nil:
				return fmt.Errorf("read standard input: %w", err)
			case len(text) > maxHeld:
				return fmt.Errorf("standard input has more than %d MiB: name files or folders", maxHeld>>20)
			case len(bytes.TrimSpace(text)) == 0:
				return errors.New("standard input is empty: see whether what should write to it has failed")
			}
			given.files = append(given.files, &source.File{Name: "-", Content: text})
			continue
		}
		full := absolute(r.options.Dir, path)
		info, err := os.Stat(full)
		if err != nil {
			return fmt.Errorf("%s: %w", path, errors.Unwrap(err))
		}
		root, err := r.tree(full)
		if err != nil {
			return fmt.Errorf("%s: %w; name what it leads to", path, err)
		}
		if !info.IsDir() {
			given.files = append(given.files, &source.File{Name: name, Path: full})
			continue
		}
		search := source.Search{
			Root: root, Exclude: exclude, Tests: r.options.IncludeTests, Visit: r.directory, Left: func(files int) { r.found.tests += files },
			Problem: func(file, message string) {
				r.found.problems = append(r.found.problems, Problem{Place: Place{File: file, Line: 1, Column: 1}, Message: message})
			},
		}
		search.Walk(filepath.ToSlash(filepath.Clean(name)), full, relative(r.options.Dir, full))
	}
	if err := r.render(ctx); err != nil {
		return err
	}
	r.join()
	r.uncover()
	if len(given.files) > 0 {
		r.sets = append(r.sets, given)
	}
	r.sets = slices.DeleteFunc(r.sets, func(i *input) bool {
		return i.size() == 0 || r.only != nil && !i.quoted && !slices.ContainsFunc(i.all(), r.asked)
	})
	return nil
}

// tree is what links below a path may not leave: the repository that it is in, or
// else the working directory, or else the folder itself. A path that is in a
// repository and leads out of it is an error: whoever wrote the repository made
// it a link.
func (r *run) tree(full string) (string, error) {
	full, err := filepath.Abs(full)
	if err != nil {
		return "", err
	}
	from := filepath.Dir(full)
	if info, err := os.Lstat(full); err == nil && info.IsDir() { // no link
		from = full
	}
	if root := tree.Root(from); root != "" {
		return root, tree.Inside(root, full)
	}
	if dir, err := filepath.Abs(r.options.Dir); err == nil && tree.Inside(dir, full) == nil {
		return dir, nil
	}
	return full, nil
}

// directory takes in what Walk found.
func (r *run) directory(d *source.Directory) {
	if d.Kustomization != "" {
		if k, err := readKustomization(d); err == nil {
			r.kustomized[d.Path] = kustomized{
				directory: d, parts: k.parts(d), files: k.files(), narrows: k.narrows(d), namespace: k.Namespace,
				far: k.far(), plain: k.plain(), component: k.Kind == "Component",
			}
		} else {
			r.found.notes.unbuilt = append(r.found.notes.unbuilt, unbuilt{d.Name, "it cannot be read: " + err.Error()})
		}
	}
	if d.Chart {
		r.charts = append(r.charts, d)
	}
	r.sets = append(r.sets, &input{directories: []*source.Directory{d}})
}

// relative is where a path stands below the working directory, for patterns.
func relative(dir, full string) string {
	base, err := filepath.Abs(dir)
	if err != nil {
		return filepath.ToSlash(full)
	}
	abs, err := filepath.Abs(full)
	if err != nil {
		return filepath.ToSlash(full)
	}
	if rel, err := filepath.Rel(base, abs); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(abs)
}

// each works through the sets, as many at a time as there are processors.
func (r *run) each(ctx context.Context) error {
	work := make(chan *input)
	errs := make(chan error, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			var failed error
			for i := range work {
				if failed != nil || ctx.Err() != nil {
					continue
				}
				failed = r.survive(i.all(), func() error { return r.lint(ctx, r.set(i)) })
			}
			if failed != nil {
				errs <- failed
			}
		})
	}
	for _, i := range r.sets {
		work <- i
	}
	close(work)
	wait.Wait()
	close(errs)
	return cmp.Or(<-errs, context.Cause(ctx))
}

// lint reads a set, and asks about it.
func (r *run) lint(ctx context.Context, s *set) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	for _, s := range s.apart() {
		if err := s.answer(ctx); err != nil {
			return err
		}
		r.settle(s.total, s)
	}
	return nil
}

// ErrPanic is a defect of lint itself, which must not cost what else was found.
var ErrPanic = errors.New("termguard failed, which is a defect of its own: please report it")

// Guarded turns a panic into an error.
func Guarded(work func() error) (err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = panicked(failed)
		}
	}()
	return work()
}

func panicked(failed any) error { return fmt.Errorf("%w: %v\n%s", ErrPanic, failed, debug.Stack()) }

// survive is Guarded for the work on some files: that it panics is a problem with them.
func (r *run) survive(files []*source.File, work func() error) error {
	defer func() {
		if failed := recover(); failed != nil {
			at := Place{File: files[0].Name, Line: 1, Column: 1}
			r.settle(total{files: len(files), problems: []Problem{{Place: at, Message: panicked(failed).Error()}}}, nil)
		}
	}()
	return work()
}

// result is what has been found, in order.
func (r *run) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.told { // where the run was ended
		t.findings = bundled(distinct(slices.Clone(t.findings)))
		r.add(t)
	}
	slices.SortFunc(r.findings, func(a, b Finding) int {
		return cmp.Or(a.Place.compare(b.Place), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Question, b.Question), slices.Compare(a.Evidence, b.Evidence))
	})
	r.findings = folded(r.once(r.findings))
	r.findings = slices.CompactFunc(r.findings, func(a, b Finding) bool {
		return a.Place.compare(b.Place) == 0 && a.Policy == b.Policy && a.Message == b.Message
	})
	slices.SortFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(a.compare(b.Place), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.marks, func(a, b Mark) int { return a.compare(b.Place) })
	return &Result{
		Findings: append([]Finding{}, r.findings...), Problems: append([]Problem{}, r.problems...), Marks: r.marks,
		Notes: r.notes.list(), Files: r.files, Documents: r.documents, Objects: r.objects, Skipped: r.skipped, Tests: r.tests,
	}
}

// severities from the least.
var severities = []policies.Severity{policies.Info, policies.Low, policies.Medium, policies.High}

// folded says once what a policy says of one place by way of several kustomizations: as
// that of which it says the worst. The findings are sorted by place and policy.
func folded(findings []Finding) []Finding {
	kept := findings[:0]
	for from := 0; from < len(findings); {
		f, to := findings[from], from+1
		names := []string{f.Kustomization}
		for ; to < len(findings) && f.Kustomization != "" && findings[to].Kustomization != "" && f.Place.compare(findings[to].Place) == 0 && f.Policy == findings[to].Policy; to++ {
			names = append(names, findings[to].Kustomization)
			if slices.Index(severities, findings[to].Severity) > slices.Index(severities, f.Severity) {
				f = findings[to]
			}
		}
		if from = to; f.Kustomization != "" {
			f.Evidence = append(slices.Clone(f.Evidence), "applied by "+few(names))
		}
		kept = append(kept, f)
	}
	return kept
}

// once drops what is found in rendered text of an object that was found in its
// own file, too, where its place is exact.
func (r *run) once(findings []Finding) []Finding {
	type key struct {
		policy string
		object policies.Object
	}
	exact := map[key]bool{}
	for _, f := range findings {
		exact[key{f.Policy, f.Object}] = exact[key{f.Policy, f.Object}] || f.Place.Rendered == ""
	}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		return f.Place.Rendered != "" && exact[key{f.Policy, f.Object}]
	})
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column), cmp.Compare(p.Rendered, q.Rendered))
}
