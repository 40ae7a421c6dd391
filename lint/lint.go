// Package lint evaluates policies about manifests, as if they were applied, or deleted alone, with their
// namespace or all at once. It never opens a network connection.
package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

type Options struct {
	Input sets.Options
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
}

// Result is the result of a run, sorted by place, then policy.
type Result struct {
	Findings []Finding       `json:"findings"`
	Problems []files.Problem `json:"problems"`
	Marks    []files.Mark    `json:"-"`
	Notes    []string        `json:"notes"`
	sets.Counts
}

// evaluationTimeout bounds one evaluation in processor time, to lose no findings on a busy machine.
const evaluationTimeout = 10 * time.Second

// Run returns an error, such as sets.ErrNoInput, for the whole run only: unreadable input is a problem. If ctx
// ends, it returns at once with the cause and the findings so far.
func Run(ctx context.Context, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{options: o, log: &sets.Log{}}
	defer r.log.Stop()
	done := make(chan error, 1)
	go func() { done <- CatchPanic(func() error { return r.execute(ctx) }) }()
	select {
	case err := <-done:
		if ctx.Err() == nil {
			if err != nil && !errors.Is(err, ErrPanic) {
				return nil, err
			}
			return r.result(), err
		}
	case <-ctx.Done():
	}
	return r.result(), context.Cause(ctx)
}

// run is the state of a run that its sets share.
type run struct {
	options  Options
	input    *sets.Input
	engine   func() (*policies.Engine, error)
	snapshot func() (*cluster.World, error)

	definitions func() map[string]map[string]*definition
	workloads   func() map[string][]*unstructured.Unstructured // by namespace
	running     sync.Map                                       // by workload of the catalog

	log      *sets.Log
	findings []Finding // changed by log.Record
}

func (r *run) execute(ctx context.Context) (err error) {
	go catalog.Default().Entries() // sets read it
	r.engine = prepare(ctx, r.options)
	r.snapshot = sync.OnceValues(func() (*cluster.World, error) { return r.readSnapshot(ctx) })
	r.definitions = sync.OnceValue(func() map[string]map[string]*definition { return r.readDefinitions(ctx) })
	r.workloads = sync.OnceValue(func() map[string][]*unstructured.Unstructured { return r.readWorkloads(ctx) })
	if r.input, err = sets.Find(ctx, r.options.Input, r.log); err != nil {
		return err
	}
	if err := r.lintSets(ctx); err != nil {
		return err
	}
	if _, err := r.engine(); err != nil { // if no set needed it
		return err
	}
	return r.input.CheckEmpty()
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

func (r *run) readSnapshot(ctx context.Context) (*cluster.World, error) {
	if r.options.Snapshot == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	a, err := snapshots.Open(files.Absolute(r.options.Input.Dir, r.options.Snapshot))
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if a.Redacted {
		r.log.AddNote(sets.RedactedSnapshot, r.options.Snapshot)
	}
	return a.World(ctx, cluster.Options{})
}

func (r *run) lintSets(ctx context.Context) error {
	group, untilFailure := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range r.input.Sets {
		group.Go(func() error {
			if untilFailure.Err() != nil {
				return nil
			}
			err := CatchPanic(func() error { return r.lint(ctx, s) })
			if errors.Is(err, ErrPanic) {
				r.log.AddProblem(files.Place{File: s.Files()[0].Name, Line: 1, Column: 1}, err.Error())
				return nil
			}
			return err
		})
	}
	return cmp.Or(group.Wait(), context.Cause(ctx))
}

func (r *run) lint(ctx context.Context, s *sets.Set) error {
	manifests, err := s.Read(ctx)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if err := r.evaluate(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// ErrPanic is a defect of lint, which must not lose other findings.
var ErrPanic = errors.New("termguard failed, which is a defect of its own: please report it")

func CatchPanic(work func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, value, debug.Stack())
		}
	}()
	return work()
}

func (r *run) result() *Result {
	r.log.Stop()
	slices.SortFunc(r.log.Problems, func(a, b files.Problem) int {
		return cmp.Or(a.Compare(b.Place), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.log.Marks, func(a, b files.Mark) int { return a.Compare(b.Place) })
	return &Result{Findings: append([]Finding{}, byPlace(r.findings)...), Problems: append([]files.Problem{}, r.log.Problems...), Marks: r.log.Marks, Notes: r.log.Notes(), Counts: r.log.Counts}
}
