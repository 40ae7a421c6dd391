package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/termguard/termguard/cluster"
)

// Drain asks whether all pods of a node would leave it, as kubectl drain
// --ignore-daemonsets asks them to: whether each can be evicted, and whether it goes
// then. The estimate is that of the slowest, since they leave side by side.
func Drain(ctx context.Context, engine Evaluator, world *cluster.World, node Subject) (Report, error) {
	if node.Type.GroupResource() != nodes {
		return Report{}, fmt.Errorf("%s is no node: only a node can be drained", node)
	}
	report, err := evaluate(ctx, engine, world, world, node, node.target().Drain(), nil)
	if err != nil {
		return Report{}, err
	}
	report.Kind, report.WaitsFor = "Drain", []Wait{} // for its own finalizers a drain does not wait
	on, err := podsOn(world, node.Name)
	if err != nil {
		return Report{}, err
	}
	answers, err := each(ctx, on, func(ctx context.Context, pod Subject) (Report, error) {
		return Ask(ctx, engine, world, pod, nil)
	})
	if err != nil {
		return Report{}, err
	}
	for _, r := range answers {
		report.Findings = append(report.Findings, r.Findings...)
		report.WaitsFor = append(report.WaitsFor, r.WaitsFor...)
		report.Omitted += r.Omitted
		report.Unseen = append(report.Unseen, r.Unseen...)
		if worse(r.Verdict, report.Verdict) {
			report.Verdict = r.Verdict
		}
	}
	slices.Sort(report.Unseen)
	report.Unseen = slices.Compact(report.Unseen)
	report.EstimateSeconds, report.Plan = nil, plan(report.Findings)
	if finishes(report.Verdict) {
		report.EstimateSeconds = longest(report.Findings)
	}
	return report, nil
}

// DrainAll asks it of several nodes.
func DrainAll(ctx context.Context, engine Evaluator, world *cluster.World, nodes []Subject, missing []error) (Set, error) {
	var items []Report
	for _, node := range nodes {
		report, err := Drain(ctx, engine, world, node)
		if err != nil {
			return Set{}, err
		}
		items = append(items, report)
	}
	return newSet(items, missing), nil
}

// podsOn are the pods of a node that a drain evicts: not those of DaemonSets, nor the
// mirrors of its static pods, which the node owns.
func podsOn(world *cluster.World, node string) (on []Subject, err error) {
	world.View(func(doc map[string]any) {
		var typ Type
		if typ, err = typesOf(doc).Find(pods.Resource); err != nil {
			return
		}
		for namespace, names := range child(doc, "pods") {
			names, _ := names.(map[string]any)
			for name := range names {
				pod := child(names, name)
				kind := child(pod, "owner")["kind"]
				if pod["node"] != node || kind == "DaemonSet" || kind == "Node" {
					continue
				}
				s := Subject{Type: typ, Namespace: namespace, Name: name}
				if err = s.describe(doc); err != nil {
					return
				}
				on = append(on, s)
			}
		}
	})
	slices.SortFunc(on, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return on, err
}
