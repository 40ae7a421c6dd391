package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// drain evaluates kubectl drain --ignore-daemonsets. The estimate is the slowest pod's: they stop in parallel.
func drain(ctx context.Context, engine Evaluator, world *cluster.World, drained []Subject) ([]Item, error) {
	on := make(map[string][]Subject, len(drained))
	for _, node := range drained {
		if node.Type.GroupResource() != question.Nodes {
			return nil, fmt.Errorf("%s is no node: only a node can be drained", node)
		}
		on[node.Name] = nil
	}
	podsOn(world, on)
	items, err := each(ctx, engine, world, nil, drained, func(node Subject) (*question.Request, error) { return node.target().Drain(), nil })
	if err != nil {
		return nil, err
	}
	var all []Subject
	for _, node := range drained {
		all = append(all, on[node.Name]...)
	}
	answers, err := each(ctx, engine, world, nil, all, Question{}.request)
	if err != nil {
		return nil, err
	}
	for i, node := range drained {
		n := len(on[node.Name])
		items[i].drains(answers[:n])
		answers = answers[n:]
	}
	return items, nil
}

// drains adds the answers about pods. Deleted ones add only their duration: the node's findings cover them.
func (r *Item) drains(pods []Item) {
	r.drained, r.WaitsFor = true, []Wait{} // a drain does not wait for the node's own finalizers
	all := slices.Clone(r.Findings)
	for _, pod := range pods {
		if pod.Verdict != policies.Completes {
			r.Findings = append(r.Findings, pod.Findings...)
		}
		all = append(all, pod.Findings...)
		r.WaitsFor = append(r.WaitsFor, pod.WaitsFor...)
		r.Omitted += pod.Omitted
		r.Unseen = append(r.Unseen, pod.Unseen...)
		r.Verdict = policies.Worst(r.Verdict, pod.Verdict)
	}
	r.Unseen = policies.SortUnseen(r.Unseen)
	r.EstimateSeconds = nil
	if finishes(r.Verdict) {
		r.EstimateSeconds = longest(all)
	}
}

// podsOn leaves out DaemonSets' and mirror pods, which the node owns.
func podsOn(world *cluster.World, on map[string][]Subject) {
	world.Read(func(f cluster.Facts) {
		for pod := range f.Pods("") {
			if _, drained := on[pod.Node]; drained && pod.Kind != "DaemonSet" && pod.Kind != "Node" {
				s, _ := Described(f, question.Pods.Resource, pod.Namespace, pod.Name)
				on[pod.Node] = append(on[pod.Node], s)
			}
		}
	})
	for _, held := range on {
		slices.SortFunc(held, func(a, b Subject) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
}
