package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Wave may be deleted in parallel, once the previous waves are.
type Wave struct {
	Objects []policies.Object `json:"objects"`
	// Why says which objects precede a later wave, and why.
	Why []string `json:"why,omitempty"`
}

type edge struct {
	first, then int
	why         string
}

// order puts an object that nothing waits for last: unknown dependencies may need it.
func order(world *cluster.World, items []Item) (waves []Wave, circle []string) {
	edges := edgesOf(world, items)
	behind, ahead := make([]int, len(items)), make([][]int, len(items)) // how many are behind it, and which ahead
	for _, e := range edges {
		behind[e.first]++
		ahead[e.then] = append(ahead[e.then], e.first)
	}
	var ready []int
	for i, n := range behind {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	var rounds [][]int // the last wave first
	for len(ready) > 0 {
		rounds = append(rounds, ready)
		var next []int
		for _, then := range ready {
			for _, first := range ahead[then] {
				if behind[first]--; behind[first] == 0 {
					next = append(next, first)
				}
			}
		}
		ready = next
	}
	waves = make([]Wave, len(rounds))
	of := make([]*Wave, len(items))
	for i, round := range rounds {
		w := &waves[len(rounds)-1-i]
		slices.Sort(round)
		for _, item := range round {
			w.Objects, of[item] = append(w.Objects, items[item].Target), w
		}
	}
	for _, e := range edges {
		why := fmt.Sprintf("%s before %s: %s", items[e.first].Target.Ref(), items[e.then].Target.Ref(), e.why)
		if w := of[e.first]; w != nil {
			w.Why = append(w.Why, why)
		} else if of[e.then] == nil {
			circle = append(circle, why)
		}
	}
	return waves, circle
}

// edgesOf puts a controller before its objects, finalized objects before the finalizer's owner, deletions
// that a finding advises first, and callers of the API server before the backend that answers.
func edgesOf(world *cluster.World, items []Item) (edges []edge) {
	at := map[policies.Object]int{}
	groups := map[string]int{} // by an APIService
	for i, r := range items {
		at[r.Target] = i
		if _, group, _ := strings.Cut(r.Target.Name, "."); r.Target.Resource == "apiservices.apiregistration.k8s.io" {
			groups[group] = i
		}
	}
	goes := func(o policies.Object) (int, bool) {
		i, ok := at[o]
		if !ok && o.Namespace != "" {
			i, ok = at[policies.Object{Resource: question.Namespaces.Resource, Name: o.Namespace}]
		}
		return i, ok
	}
	added := map[[2]int]bool{}
	before := func(first, then int, why string) {
		if pair := [2]int{first, then}; first != then && !added[pair] {
			added[pair] = true
			edges = append(edges, edge{first, then, why})
		}
	}
	for i, r := range items {
		for _, wait := range r.WaitsFor {
			for _, workload := range wait.runs {
				if then, named := goes(workload); named {
					before(i, then, fmt.Sprintf("%s removes %s", wait.owner(), wait.Finalizer))
				}
			}
			if served, named := groups[schema.ParseGroupResource(wait.Resource).Group]; named {
				before(i, served, "it serves "+wait.Resource)
			}
		}
		for _, f := range r.Findings {
			for _, step := range stepsOf(f) {
				if !blocks(f) || step.Kind == policies.Force || !deletes(step) {
					continue
				}
				for _, o := range step.Action.Targets() {
					if first, named := goes(o); named && items[first].Target.Name != r.Target.Namespace {
						before(first, i, f.Message)
					}
				}
			}
		}
	}
	world.Read(func(f cluster.Facts) {
		for i, r := range items {
			if first, named := at[policies.Object(f.Controller(r.Target.Resource, r.Target.Namespace, r.Target.Name))]; named {
				before(first, i, "its dependents are deleted with it")
			}
		}
		for front, workloads := range f.Fronts() {
			first, named := at[policies.Object(front)]
			for _, workload := range workloads {
				if then, goesToo := goes(policies.Object(workload)); named && goesToo {
					before(first, then, "it is served from there")
				}
			}
		}
	})
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.then, b.then)) })
	return edges
}
