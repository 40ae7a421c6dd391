// Package teardown puts everything that somebody wants to delete into one order in which it
// goes: what has to be gone before what, and what may go side by side.
//
// What has to be gone first is what the policies and the facts say of the deletion of each
// thing. The order is then asked about as one command, and what still stands in the way is
// told before it.
package teardown

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// Plan is the answer, apiVersion termguard.dev/v1, kind Plan.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Of is what is torn down, and where.
	Of string `json:"of,omitempty"`
	// Verdict is the worst of all deletions in this order.
	Verdict policies.Verdict `json:"verdict"`
	// First is what still stands in the way of them, and has to be seen to before.
	First []scan.Cause `json:"first"`
	// Circles are things that wait for each other: of them there is no order.
	Circles []string `json:"circles,omitempty"`
	// Waves are the order: what is in one may be deleted at once, the next when all of it
	// is gone.
	Waves []Wave `json:"waves"`
	// Left is what is in no wave: it is in a circle, or waits for one.
	Left []Thing `json:"left,omitempty"`
	// UsualSeconds is how long all waves usually take, and EstimateSeconds at most, but for
	// Untimed things, of which nobody can tell.
	UsualSeconds    int `json:"usualSeconds"`
	EstimateSeconds int `json:"estimateSeconds"`
	Untimed         int `json:"untimed"`
	// Notes tell what stays.
	Notes []string `json:"notes,omitempty"`
	// Unseen is what could not be seen, each with the reason.
	Unseen []string `json:"unseen"`

	context, kubeconfig string // of the cluster, where the command line names them
	guard               string // what identifies the cluster: the UID of its namespace kube-system
}

// Wave is what is deleted at once.
type Wave struct {
	// Rank is what kind of things it holds.
	Rank Rank `json:"rank"`
	// Things are they, in the order of their names.
	Things []Thing `json:"things"`
	// Commands delete them, and wait until they are gone.
	Commands        []string `json:"commands"`
	UsualSeconds    int      `json:"usualSeconds"`
	EstimateSeconds int      `json:"estimateSeconds"`
	Untimed         int      `json:"untimed"`

	deletions []deletion
}

// Thing is an object that is deleted.
type Thing struct {
	policies.Object
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Before are the first few things that it has to be gone before, each with the reason.
	Before  []Reason         `json:"before,omitempty"`
	Verdict policies.Verdict `json:"verdict"`
	// UsualSeconds and EstimateSeconds are those of its own deletion, where somebody can tell.
	UsualSeconds    *int `json:"usualSeconds,omitempty"`
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
}

// Reason is why something has to be gone before another thing.
type Reason struct {
	Object policies.Object `json:"object"`
	Why    string          `json:"why"`
}

// maxReasons bounds the reasons of one thing.
const maxReasons = 3

// Options say how the plan is made and told. The zero value is for kubectl delete, in the
// cluster that kubectl goes to.
type Options struct {
	// Of is what is torn down, for people.
	Of string
	// Delete are the DeleteOptions; nil for those of kubectl delete.
	Delete map[string]any
	// Command deletes what nothing has to be gone before, all at once, as helm uninstall
	// does; "" where each thing is deleted by name.
	Command string
	// Context and Kubeconfig are those that commands name. Defaults to kubectl's own.
	Context, Kubeconfig string
	// Cluster is the UID of the namespace kube-system, "" where it is not known: a script
	// runs in no other cluster.
	Cluster string
	// Progress is told how many of the questions are answered.
	Progress func(done, of int)
}

// maxAdded bounds the things that are added because the policies ask for their deletion.
const maxAdded = 10_000

// node is a thing, and what was said of it.
type node struct {
	subject check.Subject
	id      policies.Object
	rank    Rank
	serves  bool         // something waits for a workload that it is, or holds
	report  check.Report // in the order
}

// maker makes a plan.
type maker struct {
	*Scope
	engine  check.Evaluator
	options Options

	nodes []*node
	at    map[policies.Object]int
	edges []edge
	known map[[2]int]bool   // edges
	kinds map[string]string // resources by "Kind.group", of custom kinds
	asked atomic.Int64
}

// Make asks about everything in scope, and orders it.
func Make(ctx context.Context, engine check.Evaluator, scope *Scope, options Options) (*Plan, error) {
	m, err := related(ctx, engine, scope, options)
	if err != nil {
		return nil, err
	}
	return m.plan(ctx)
}

// related is everything in scope, with what has to be gone before what.
func related(ctx context.Context, engine check.Evaluator, scope *Scope, options Options) (*maker, error) {
	if options.Progress == nil {
		options.Progress = func(int, int) {}
	}
	if options.Delete == nil {
		options.Delete = map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}
	}
	m := &maker{Scope: scope, engine: engine, options: options, at: map[policies.Object]int{}, known: map[[2]int]bool{}}
	for _, s := range scope.subjects {
		m.add(s)
	}
	return m, m.relate(ctx)
}

func idOf(s check.Subject) policies.Object {
	return policies.Object{Resource: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}
}

// add adds a thing, once.
func (m *maker) add(s check.Subject) int {
	id := idOf(s)
	if at, known := m.at[id]; known {
		return at
	}
	m.at[id] = len(m.nodes)
	n := &node{subject: s, id: id, rank: rankOf(id)}
	if n.rank == others && len(finalizersOf(s)) > 0 {
		n.rank = custom
	}
	m.nodes = append(m.nodes, n)
	return m.at[id]
}

// ask asks about each, side by side.
func (m *maker) ask(ctx context.Context, which []int, ask func(context.Context, *node) error) error {
	var failed error
	var once sync.Once
	var next atomic.Int64
	var asking sync.WaitGroup
	for range min(len(which), runtime.GOMAXPROCS(0)) {
		asking.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(which)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := ask(ctx, m.nodes[which[i]]); err != nil {
					once.Do(func() { failed = err })
					return
				}
				m.options.Progress(int(m.asked.Add(1)), 2*len(m.nodes))
			}
		})
	}
	asking.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// plan orders the things, and asks again about each in its place.
func (m *maker) plan(ctx context.Context) (*Plan, error) {
	p := &Plan{
		APIVersion: "termguard.dev/v1", Kind: "Plan", Of: m.options.Of, Verdict: policies.Completes,
		First: []scan.Cause{}, Waves: []Wave{}, Notes: m.notes, Unseen: append([]string{}, m.unseen...),
		context: m.options.Context, kubeconfig: m.options.Kubeconfig, guard: m.options.Cluster,
	}
	sorted := make([]int, len(m.nodes)) // so that the order goes by names, and not by how things were found
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortFunc(sorted, func(a, b int) int { return compare(m.nodes[a].id, m.nodes[b].id) })
	place, nodes := make([]int, len(sorted)), make([]*node, len(sorted))
	for now, was := range sorted {
		place[was], nodes[now] = now, m.nodes[was]
	}
	m.nodes = nodes
	for i, n := range m.nodes {
		m.at[n.id] = i
	}
	for i, e := range m.edges {
		m.edges[i].first, m.edges[i].then = place[e.first], place[e.then]
	}
	slices.SortFunc(m.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.then, b.then))
	})
	m.promote()
	waves, left := m.waves()
	if err := m.verify(ctx, waves, left); err != nil {
		return nil, err
	}
	before := map[int][]edge{}
	for _, plain := range []bool{false, true} {
		for _, e := range m.edges {
			if e.plain == plain && len(before[e.first]) < maxReasons {
				before[e.first] = append(before[e.first], e)
			}
		}
	}
	thing := func(i int) Thing {
		n := m.nodes[i]
		t := Thing{Object: n.id, Verdict: n.report.Verdict, UsualSeconds: n.report.UsualSeconds, EstimateSeconds: n.report.EstimateSeconds}
		t.APIVersion, t.Kind = n.subject.Type.GroupVersion().String(), n.subject.Type.Kind
		for _, e := range before[i] {
			t.Before = append(t.Before, Reason{m.nodes[e.then].id, e.why})
		}
		return t
	}
	for w, wave := range waves {
		add := Wave{Rank: m.nodes[wave[0]].rank}
		for _, i := range wave {
			add.Things = append(add.Things, thing(i))
			usual, longest, timed := m.nodes[i].takes()
			add.UsualSeconds, add.EstimateSeconds = max(add.UsualSeconds, usual), max(add.EstimateSeconds, longest)
			if !timed {
				add.Untimed++
			}
		}
		if m.options.Command != "" && w == len(waves)-1 {
			add.Rank = byCommand
			add.deletions = []deletion{{line: m.options.Command}}
		} else {
			add.deletions = m.deletions(add)
		}
		for _, d := range add.deletions {
			add.Commands = append(add.Commands, d.command(true))
		}
		p.UsualSeconds, p.EstimateSeconds, p.Untimed = p.UsualSeconds+add.UsualSeconds, p.EstimateSeconds+add.EstimateSeconds, p.Untimed+add.Untimed
		p.Waves = append(p.Waves, add)
	}
	for _, i := range left {
		p.Left = append(p.Left, thing(i))
	}
	if round := circle(left, m.edges); len(round) > 0 {
		var parts []string
		for _, e := range round {
			parts = append(parts, fmt.Sprintf("%s has to be gone before %s (%s)", scan.Shown(m.nodes[e.first].id), scan.Shown(m.nodes[e.then].id), e.why))
		}
		p.Circles = append(p.Circles, strings.Join(parts, "; "))
		p.Verdict = policies.Hangs
	}
	var answers []scan.Answer
	for _, n := range m.nodes {
		answers = append(answers, scan.Answer{Subject: n.subject, Report: n.report})
		if worse(n.report.Verdict, p.Verdict) {
			p.Verdict = n.report.Verdict
		}
	}
	p.First = scan.CausesOf(m.World, answers)
	if len(p.Unseen) > 0 && worse(policies.Unknown, p.Verdict) {
		p.Verdict = policies.Unknown
	}
	return p, nil
}

// waves are the order. Where a command deletes the rest, those are in waves before it that
// something waits for.
func (m *maker) waves() (waves [][]int, left []int) {
	if m.options.Command == "" {
		return order(len(m.nodes), m.edges, func(i int) Rank { return m.nodes[i].rank })
	}
	needed := make([]bool, len(m.nodes))
	for _, e := range m.edges {
		needed[e.first] = true
	}
	waves, left = order(len(m.nodes), m.edges, func(i int) Rank {
		if needed[i] {
			return m.nodes[i].rank
		}
		return byCommand
	})
	return waves, left
}

// promote makes namespaces those of operators, and workloads operators, where something
// waits for a workload in them.
func (m *maker) promote() {
	for _, n := range m.nodes {
		switch {
		case !n.serves:
		case n.rank == workloads:
			n.rank = operators
		case n.rank == namespaces:
			n.rank = homes
		}
	}
}

// finishes is how long a namespace takes at least, in seconds: its controller begins then
// (pkg/controller/namespace/namespace_controller.go, namespaceDeletionGracePeriod).
const finishes = 5

// takes is how long the deletion takes usually, and at most, in seconds; timed tells whether
// anybody can tell.
func (n *node) takes() (usual, longest int, timed bool) {
	least := 0
	if n.rank == namespaces || n.rank == homes {
		least = finishes
	}
	if n.report.EstimateSeconds == nil {
		return least, least, finishesAtOnce(n.report)
	}
	longest = max(least, *n.report.EstimateSeconds)
	if usual = longest; n.report.UsualSeconds != nil {
		usual = max(least, *n.report.UsualSeconds)
	}
	return usual, longest, true
}

// finishesAtOnce tells whether a deletion waits for nothing but finalizers that Kubernetes
// itself removes.
func finishesAtOnce(r check.Report) bool {
	return r.Verdict == policies.Completes && !slices.ContainsFunc(r.WaitsFor, func(w check.Wait) bool {
		return strings.Contains(w.Finalizer, "/") && !strings.HasPrefix(w.Finalizer, "kubernetes.io/")
	})
}

func compare(a, b policies.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
}

func worse(a, b policies.Verdict) bool {
	rank := []policies.Verdict{policies.Completes, policies.Unknown, policies.AtRisk, policies.Hangs, policies.Refused}
	return slices.Index(rank, a) > slices.Index(rank, b)
}
