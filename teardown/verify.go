package teardown

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// byOrder is the command that deletes everything in order, as findings call it.
const byOrder = "this order"

// verify asks about every deletion as one of a command that goes wave by wave, over the facts
// as they are then: what only earlier waves hold is gone.
func (m *maker) verify(ctx context.Context, waves [][]int, left []int) error {
	at := make([]int, len(m.nodes)) // the wave of each
	all := append(slices.Clone(waves), left)
	for w, wave := range all {
		for _, i := range wave {
			at[i] = w
		}
	}
	together := check.Together{By: byOrder, Waits: true}
	if m.options.Command != "" {
		together.By = strings.Join(strings.Fields(m.options.Command)[:2], " ")
	}
	var subjects []check.Subject
	for i, n := range m.nodes {
		n.subject.Place = at[i]
		subjects = append(subjects, n.subject)
	}
	without, err := m.without(ctx, at, len(all))
	if err != nil {
		return err
	}
	set, err := check.AskAll(ctx, inOrder{m, at, without}, m.World, together, subjects, nil, m.options.Delete)
	if err != nil {
		return err
	}
	for i, report := range set.Items {
		m.nodes[i].report = m.met(report, at, i)
	}
	return nil
}

// gone tells whether objects go in waves before one.
func (m *maker) gone(w check.Wait, at []int, wave int) bool {
	return len(w.Names) == w.Count && !slices.ContainsFunc(w.Names, func(name string) bool {
		i, torn := m.at[policies.Object{Resource: w.Resource, Namespace: w.Namespace, Name: name}]
		return !torn || at[i] >= wave
	})
}

// without is what is gone when each wave begins, nil where that changes nothing.
func (m *maker) without(ctx context.Context, at []int, waves int) ([]*cluster.Without, error) {
	gone := make([]cluster.Gone, waves) // by the wave that it goes with
	last := map[string]int{}            // of the holders of each finalizer
	m.World.Read(func(f cluster.Facts) {
		holding := f.Holding()
		for _, namespace := range holding {
			for h := range f.Held(namespace, "") {
				until := waves // it stays
				if h.Count == len(h.Names) {
					until = -1
					for _, name := range h.Names {
						i, torn := m.at[policies.Object{Resource: h.Resource, Namespace: namespace, Name: name}]
						if !torn {
							until = waves
							break
						}
						until = max(until, at[i])
					}
				}
				have, known := last[h.Finalizer]
				if !known || until > have {
					last[h.Finalizer] = until
				}
			}
		}
	})
	for _, finalizer := range slices.Sorted(maps.Keys(last)) {
		if w := last[finalizer]; w < waves {
			gone[w].Finalizers = append(gone[w].Finalizers, finalizer)
		}
	}
	for i, n := range m.nodes {
		g := &gone[at[i]]
		switch n.rank {
		case apiservices:
			g.APIServices = append(g.APIServices, n.id.Name)
		case webhooks:
			g.Webhooks = append(g.Webhooks, strings.TrimSuffix(n.id.Resource, "webhookconfigurations.admissionregistration.k8s.io")+"/"+n.id.Name)
		case definitions:
			g.Definitions = append(g.Definitions, n.id.Name)
		}
	}
	found := make([]*cluster.Without, waves)
	var sum cluster.Gone
	for w := range waves {
		if w > 0 {
			found[w] = found[w-1]
			if more := gone[w-1]; len(more.Finalizers)+len(more.APIServices)+len(more.Webhooks)+len(more.Definitions) > 0 {
				sum.Finalizers = append(sum.Finalizers, more.Finalizers...)
				sum.APIServices = append(sum.APIServices, more.APIServices...)
				sum.Webhooks = append(sum.Webhooks, more.Webhooks...)
				sum.Definitions = append(sum.Definitions, more.Definitions...)
				found[w] = m.World.Without(sum)
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// inOrder is an Evaluator that asks about each thing when its wave begins.
type inOrder struct {
	m       *maker
	at      []int
	without []*cluster.Without
}

// Evaluate asks without what is gone by then.
func (o inOrder) Evaluate(ctx context.Context, trigger policies.Trigger, input map[string]any, facts policies.Facts) (policies.Result, error) {
	request, _ := input["request"].(map[string]any)
	text := func(of any, key string) string {
		values, _ := of.(map[string]any)
		value, _ := values[key].(string)
		return value
	}
	id := policies.Object{Resource: text(request["resource"], "resource"), Namespace: text(request, "namespace"), Name: text(request, "name")}
	if group := text(request["resource"], "group"); group != "" {
		id.Resource += "." + group
	}
	if id.Resource == "namespaces" {
		id.Namespace = ""
	}
	i, known := o.m.at[id]
	if !known {
		return policies.Result{}, fmt.Errorf("asked about %v, which is not in the order", id)
	}
	o.m.options.Progress(min(int(o.m.asked.Add(1)), 2*len(o.m.nodes)), 2*len(o.m.nodes))
	if without := o.without[o.at[i]]; without != nil {
		return o.m.engine.Evaluate(ctx, trigger, without.Input(input), without.Over(facts))
	}
	return o.m.engine.Evaluate(ctx, trigger, input, facts)
}

// met is a report without what the order meets: findings where all that they want deleted
// goes in earlier waves, and what does so is waited for no longer.
func (m *maker) met(r check.Report, at []int, i int) check.Report {
	r.WaitsFor = slices.DeleteFunc(slices.Clone(r.WaitsFor), func(w check.Wait) bool { return m.gone(w, at, at[i]) })
	kept := r.Findings[:0:0]
	for _, f := range r.Findings {
		wanted, earlier := 0, 0
		for _, first := range deletesFirst([]policies.Finding{f}) {
			for _, o := range first.objects {
				wanted++
				if c, torn := m.carrier(o); torn && at[c] < at[i] {
					earlier++
				}
			}
		}
		if wanted == 0 || earlier < wanted {
			kept = append(kept, f)
		}
	}
	if len(kept) < len(r.Findings) {
		r.Findings = kept
		r.Verdict = policies.Result{Findings: kept, Unseen: r.Unseen}.Verdict()
	}
	return r
}
