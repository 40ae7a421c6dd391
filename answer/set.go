package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// As is what happens to the targets of a question.
type As string

const (
	AsDelete    As = "delete"
	AsEvict     As = "evict"     // pods, by the eviction API
	AsDrain     As = "drain"     // nodes: their pods are evicted
	AsUninstall As = "uninstall" // by Helm
	AsPrune     As = "prune"     // by Argo CD or Flux, with one of their objects
	AsApply     As = "apply"     // created, for lint
)

// Question is whether a deletion will finish.
type Question struct {
	// As defaults to AsDelete.
	As As
	// Names are as given; Find looks them up.
	Names []Name
	// Targets exist; Missing are errors about others.
	Targets []Subject
	Missing []error
	// Options are DeleteOptions.
	Options map[string]any
	// DryRuns sends dry runs, too.
	DryRuns bool

	// Together means that one command deletes all targets.
	Together bool
	// By is the command in words, "" for kubectl delete -f, and Waits as in question.Set.
	By    string
	Waits bool
	// Of describes the command's argument.
	Of string
	// Beside are deleted, too, but not evaluated.
	Beside []policies.Object
	// Command is for when nothing blocks any more, if known.
	Command string
	// Notes are about kept objects, and side effects.
	Notes  []string
	Unseen []policies.Unseen

	// Types are the cluster's, if just read.
	Types *Types

	first []Step
	// kept returns why the command keeps an object, or "".
	kept func(*unstructured.Unstructured) string
}

// Answer has apiVersion termguard.dev/v1.
type Answer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	As         As     `json:"as"`
	// By is the command that deletes the objects, in words, and Of its argument.
	By string `json:"by,omitempty"`
	Of string `json:"of,omitempty"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	// Notes are about volumes, too.
	Notes []string `json:"notes,omitempty"`
	// Items of a list of Terminating objects are in the order of their deletion.
	Items []Item `json:"items"`
	// Omitted counts objects that were not evaluated.
	Omitted int `json:"omitted,omitempty"`
	// Missing objects need no deletion.
	Missing []string `json:"missing"`
	// Order is for deletion by name, each wave in parallel; nil for a command with its own order.
	Order []Wave `json:"order,omitempty"`
	// Circle says why some are in no wave: each waits for the next.
	Circle []string `json:"circle,omitempty"`
	// Plan is the next steps, in this order.
	Plan []Step `json:"plan"`
	// Unseen is about all objects; each item has its own list, too.
	Unseen []policies.Unseen `json:"unseen"`

	form      form
	first     []Step // before all others
	command   string // to run in the end
	namespace string // of a list; "" for all
	now       time.Time
}

type form int

const (
	asSet form = iota
	asOne
	asList // a line each
)

func NewAnswer(as As) Answer {
	return Answer{APIVersion: "termguard.dev/v1", Kind: "Answer", As: cmp.Or(as, AsDelete), Verdict: policies.Completes, Missing: []string{}, Plan: []Step{}, Unseen: []policies.Unseen{}}
}

// Ask evaluates the policies about all targets.
func Ask(ctx context.Context, engine Evaluator, world *cluster.World, q Question) (Answer, error) {
	a := NewAnswer(q.As)
	var set *question.Set
	if q.Together {
		for _, err := range q.Missing {
			if errors.As(err, new(noTypeError)) && q.As == AsUninstall {
				return Answer{}, fmt.Errorf("helm uninstall deletes nothing as long as a kind of the release is not served: %w: install its CustomResourceDefinition again, or delete the rest by hand", err)
			}
		}
		var kept []string
		q.Targets, kept = q.settle()
		set = &question.Set{By: q.By, Waits: q.Waits}
		for _, s := range q.Targets {
			set.Add(s.ID().Resource, s.Namespace, s.Name, s.Place)
		}
		for _, o := range q.Beside {
			set.Add(o.Resource, o.Namespace, o.Name, 0)
		}
		a.By, a.Of, a.Notes, a.Unseen = q.By, q.Of, slices.Concat(q.Notes, kept), append(a.Unseen, q.Unseen...)
		a.first, a.command = q.first, q.Command
	} else if len(q.Targets) == 1 && len(q.Missing) == 0 {
		a.form = asOne
		if s := q.Targets[0]; a.As == AsDelete && !s.Terminating() && !(s.Type.GroupResource() == question.Namespaces && question.Immortal(s.Name)) {
			a.command = policies.Deletion(s.ID()).Command()
		}
	}
	for _, err := range q.Missing {
		a.Missing = append(a.Missing, err.Error())
	}
	var err error
	if q.As == AsDrain {
		a.Items, err = drain(ctx, engine, world, q.Targets)
	} else {
		a.Items, err = each(ctx, engine, world, set, q.Targets, q.request)
	}
	if err != nil {
		return Answer{}, err
	}
	if q.Together && a.By == "" && len(a.Items) > 1 {
		a.Order, a.Circle = order(world, a.Items)
	}
	a.sum()
	return a, nil
}

func (q Question) request(s Subject) (*question.Request, error) {
	switch {
	case q.As == AsApply:
		return s.target().Create(), nil
	case q.As == AsEvict && s.Type.GroupResource() != question.Pods:
		return nil, fmt.Errorf("%s is no pod: only a pod can be evicted", s)
	case q.As == AsEvict:
		return s.target().Evict(q.Options), nil
	}
	return s.Deletion(q.Options), nil
}

// parallel works in at most few goroutines, or in the caller's if one is enough: the stack for policies grows once
// in each.
func parallel(ctx context.Context, most, n int, work func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	begin := func(ctx context.Context) (err error) {
		for i := next.Add(1) - 1; i < int64(n) && err == nil; i = next.Add(1) - 1 {
			err = work(ctx, int(i))
		}
		return err
	}
	if min(n, most) <= 1 {
		return begin(ctx)
	}
	working, ctx := errgroup.WithContext(ctx)
	for range min(n, most) {
		working.Go(func() error { return begin(ctx) })
	}
	return working.Wait()
}

// ReadEach reads n objects, some at once.
func ReadEach(ctx context.Context, n int, read func(ctx context.Context, i int) error) error {
	return parallel(ctx, 16, n, read)
}

func each(ctx context.Context, engine Evaluator, world *cluster.World, set *question.Set, subjects []Subject, request func(Subject) (*question.Request, error)) ([]Item, error) {
	items := make([]Item, len(subjects))
	err := parallel(ctx, min(runtime.GOMAXPROCS(0), 1+len(subjects)/few), len(subjects), func(ctx context.Context, i int) (err error) {
		if whole := subjects[i].Whole; whole != nil {
			items[i], err = askWhole(ctx, engine, world, subjects[i], *whole)
			return err
		}
		r, err := request(subjects[i])
		if err == nil {
			items[i], err = evaluate(ctx, engine, world, set, subjects[i], r)
		}
		return err
	})
	return items, err
}

// few subjects are not worth another stack.
const few = 16

// askWhole has one item for all, with the parts that do not complete.
func askWhole(ctx context.Context, engine Evaluator, world *cluster.World, s Subject, q Question) (Item, error) {
	a, err := Ask(ctx, engine, world, q)
	whole := Item{Target: s.ID(), Verdict: a.Verdict, Unseen: a.Unseen}
	for _, part := range a.Items {
		if part.Verdict == policies.Completes {
			continue
		}
		whole.Findings = append(whole.Findings, part.Findings...)
		whole.Unseen = unique(append(whole.Unseen, part.Unseen...))
		whole.Parts = append(whole.Parts, part)
	}
	return whole, err
}

func (a *Answer) sum() {
	a.Verdict = policies.Completes
	if len(a.Unseen) > 0 {
		a.Verdict = policies.Unknown
	}
	var findings [][]policies.Finding
	for _, item := range a.Items {
		findings = append(findings, item.Findings)
		a.Verdict = policies.Worst(a.Verdict, item.Verdict)
	}
	a.Plan = plan(findings...)
	switch {
	case len(a.Plan) == 0 || a.command == "":
	case a.form == asOne:
		target := a.Items[0].Target
		a.Plan = finish(a.Plan, "Then delete "+target.In(target.Namespace), a.command)
	default:
		words := strings.Fields(a.command) // a program, its subcommand, and their arguments
		a.Plan = finish(slices.Concat(a.first, a.Plan), "Then run "+strings.Join(words[:min(2, len(words))], " "), a.command)
	}
}
