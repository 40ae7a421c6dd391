package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Together are objects that one command deletes.
type Together struct {
	// Names are the objects, each with its place in the order.
	Names []Name
	// By is the command in words, "" for kubectl delete -f, and Waits as in question.Set.
	By    string
	Waits bool
	// Of describes the argument of the command.
	Of string
	// Command is the command to run when nothing blocks any more, if known.
	Command string
	// Notes say what the command keeps, and its side effects.
	Notes []string
	// Unseen lists unreadable parts of the objects.
	Unseen []string
	// Options are the DeleteOptions of the command; nil for the caller's.
	Options map[string]any

	// Types are the types of the cluster, if they were read just before.
	Types *Types

	// first are steps before all others.
	first []Step
	// kept returns why the command keeps an object.
	kept func(*unstructured.Unstructured) string
}

// Set is the answer about objects that are deleted together, apiVersion termguard.dev/v1, kind CheckSet.
type Set struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// By is the command that deletes them, in words, and Of its argument.
	By string `json:"by,omitempty"`
	Of string `json:"of,omitempty"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	// Notes say what the command keeps, and its side effects.
	Notes []string `json:"notes,omitempty"`
	Items []Report `json:"items"`
	// Missing are the objects that do not exist, and need no deletion.
	Missing []string `json:"missing"`
	// Order is the order in which they may be deleted by name, each wave in parallel; nil for a command with
	// its own order.
	Order []Wave `json:"order,omitempty"`
	// Circle says why some are in no wave: each waits for the next.
	Circle []string `json:"circle,omitempty"`
	// Plan is the plan for all.
	Plan []Step `json:"plan"`
	// Unseen lists unreadable parts of the objects; each item has its own list, too.
	Unseen []string `json:"unseen,omitempty"`
}

// AskAll evaluates the deletion of all subjects by one command.
func AskAll(ctx context.Context, engine Evaluator, world *cluster.World, together Together, subjects []Subject, missing []error, options map[string]any) (Set, error) {
	for _, err := range missing {
		if errors.As(err, new(noTypeError)) && together.By == byHelm {
			return Set{}, fmt.Errorf("helm uninstall deletes nothing as long as a kind of the release is not served: %w: install its CustomResourceDefinition again, or delete the rest by hand", err)
		}
	}
	subjects = together.settle(subjects)
	if together.Options != nil {
		options = together.Options
	}
	all := question.Set{By: together.By, Waits: together.Waits}
	for _, s := range subjects {
		all.Add(s.id().Resource, s.Namespace, s.Name, s.Place)
	}
	items, err := each(ctx, subjects, func(ctx context.Context, s Subject) (Report, error) {
		return evaluate(ctx, engine, world, &all, s, s.target().Delete(options))
	})
	if err != nil {
		return Set{}, err
	}
	set := newSet(items, missing)
	set.By, set.Of, set.Notes, set.Unseen = together.By, together.Of, together.Notes, together.Unseen
	if len(set.Unseen) > 0 {
		set.Verdict = policies.Worst(set.Verdict, policies.Unknown)
	}
	if together.By == "" && len(items) > 1 {
		set.Order, set.Circle = order(world, items)
	}
	if together.Command != "" && len(set.Plan) > 0 {
		set.Plan = finish(slices.Concat(together.first, set.Plan), "Then run the command that you asked about", together.Command)
	}
	return set, nil
}

// each evaluates subjects in parallel, in order, with few goroutines: the stack that policies need grows once
// in each.
func each(ctx context.Context, subjects []Subject, ask func(context.Context, Subject) (Report, error)) ([]Report, error) {
	answers := make([]Report, len(subjects))
	asking, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(len(subjects), runtime.GOMAXPROCS(0)) {
		asking.Go(func() (err error) {
			for i := next.Add(1) - 1; i < int64(len(subjects)) && err == nil; i = next.Add(1) - 1 {
				answers[i], err = ask(ctx, subjects[i])
			}
			return err
		})
	}
	return answers, asking.Wait()
}

func newSet(items []Report, missing []error) Set {
	set := Set{APIVersion: "termguard.dev/v1", Kind: "CheckSet", Verdict: policies.Completes, Items: append([]Report{}, items...), Missing: []string{}}
	for _, err := range missing {
		set.Missing = append(set.Missing, err.Error())
	}
	var findings [][]policies.Finding
	for _, report := range items {
		findings = append(findings, report.Findings)
		set.Verdict = policies.Worst(set.Verdict, report.Verdict)
	}
	set.Plan = plan(findings...)
	return set
}
