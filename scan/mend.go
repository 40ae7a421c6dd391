package scan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/policies"
)

const (
	// maxMended bounds the causes that are taken out one by one, and maxAgain the
	// questions that are asked again for all of them: those that hold most come first.
	maxMended, maxAgain = 20, 20_000
)

// mend asks again about what each cause holds, with the cause taken out of the facts, and
// about everything that is held, without all that is broken.
func (s *Scan) mend(ctx context.Context, engine check.Evaluator, answers []answer, options map[string]any) {
	held := map[string][]int{} // by cause, the answers
	at := map[policies.Object]int{}
	for i := range answers {
		if answers[i].answered {
			at[answers[i].report.Target] = i
		}
	}
	for _, item := range s.Items {
		for _, h := range item.HeldBy {
			held[h.Cause] = append(held[h.Cause], at[item.Target])
		}
	}
	budget := maxAgain
	var broken []*Cause
	together := map[int]bool{}
	for i := range s.Causes {
		c := &s.Causes[i]
		if c.Class != Broken || !removable(c) {
			continue
		}
		broken = append(broken, c)
		for _, n := range held[c.ID] {
			together[n] = true
		}
	}
	for i, c := range broken {
		if i == maxMended || len(held[c.ID]) > budget {
			break
		}
		budget -= len(held[c.ID])
		c.Mended = again(ctx, engine, answers, held[c.ID], options, c)
	}
	switch {
	case len(broken) == 1:
		s.Mended = broken[0].Mended
	case len(broken) > 1 && len(together) <= budget:
		s.Mended = again(ctx, engine, answers, slices.Sorted(maps.Keys(together)), options, broken...)
	}
}

// again asks some questions again, without causes. It is nil where that was interrupted.
func again(ctx context.Context, engine check.Evaluator, answers []answer, which []int, options map[string]any, without ...*Cause) *Mended {
	byPlace := map[*Place]*taken{}
	var questions []question
	for _, i := range which {
		q := answers[i].question
		if byPlace[q.place] == nil {
			byPlace[q.place] = take(q.place, without)
		}
		questions = append(questions, q)
	}
	m := &Mended{Asked: len(questions)}
	for place, t := range byPlace {
		var here []question
		for _, q := range questions {
			if q.place == place {
				here = append(here, q)
			}
		}
		for _, a := range askAll(ctx, asking{engine, t}, here, options, func(int) {}) {
			switch {
			case !a.answered:
				return nil
			case a.report.Verdict == policies.Completes || a.report.Symptoms():
				m.Free++
			case a.report.Verdict == policies.Unknown:
				m.Unknown++
			case len(m.StillHeld) < maxNames:
				m.StillHeld = append(m.StillHeld, Shown(a.report.Target))
			}
		}
	}
	return m
}

// removable tells whether a cause can be taken out of the facts.
func removable(c *Cause) bool {
	if len(c.Finalizers) > 0 {
		return slices.ContainsFunc(c.Policies, func(p string) bool { return slices.Contains(owned, p) })
	}
	if c.Object == nil {
		return false
	}
	switch c.Object.Resource {
	case apiservices, validating, mutating, definitions, nodes, csinodes:
		return true
	}
	return false
}

// taken are the facts without causes: as if an API answered, a webhook were not there, a
// node did what it should, the finalizers of an owner were removed.
type taken struct {
	replaced   map[string]any // sections of the facts
	finalizers map[string]bool
	refuse     []string // prefixes of who refuses no longer, as in input.refusals
}

func take(p *Place, causes []*Cause) *taken {
	t := &taken{replaced: map[string]any{}, finalizers: map[string]bool{}}
	p.World.View(func(doc map[string]any) {
		for _, c := range causes {
			for _, finalizer := range c.Finalizers {
				t.finalizers[finalizer] = true
			}
			if c.Object != nil {
				t.object(doc, c)
			}
		}
		t.withoutFinalizers(doc)
	})
	return t
}

// section is a section of the facts as it is without what was taken out before, to be
// changed at its top level.
func (t *taken) section(doc map[string]any, name string) map[string]any {
	if changed, done := t.replaced[name].(map[string]any); done {
		return changed
	}
	changed := maps.Clone(child(doc, name))
	if changed == nil {
		changed = map[string]any{}
	}
	t.replaced[name] = changed
	return changed
}

// seen takes out of what is unseen what would be seen.
func (t *taken) seen(doc map[string]any, is func(resource string) bool) {
	list, done := t.replaced["unseen"].([]any)
	if !done {
		list, _ = doc["unseen"].([]any)
		list = slices.Clone(list)
	}
	t.replaced["unseen"] = slices.DeleteFunc(list, func(item any) bool {
		resource, _ := whole(item)["resource"].(string)
		reason, _ := whole(item)["reason"].(string)
		return reason != "forbidden" && is(resource)
	})
}

func (t *taken) object(doc map[string]any, c *Cause) {
	switch o := c.Object; o.Resource {
	case apiservices:
		delete(t.section(doc, "apiservices"), o.Name)
		_, group, _ := strings.Cut(o.Name, ".")
		t.seen(doc, func(resource string) bool { return strings.HasSuffix(resource, "."+group) })
	case validating, mutating:
		prefix := strings.TrimSuffix(o.Resource, "webhookconfigurations.admissionregistration.k8s.io") + "/" + o.Name + "/"
		t.refuse = append(t.refuse, "webhook/"+prefix)
		begins := func(key string, _ any) bool { return strings.HasPrefix(key, prefix) }
		maps.DeleteFunc(t.section(doc, "webhooks"), begins)
		for _, name := range []string{"blocked", "selfBlocked"} {
			t.below(doc, name, func(byWebhook map[string]any) { maps.DeleteFunc(byWebhook, begins) })
		}
	case definitions:
		delete(t.section(doc, "unconverted"), o.Name)
		t.seen(doc, func(resource string) bool { return resource == o.Name })
	case nodes, csinodes:
		t.node(doc, o.Name, c.Policies)
	}
}

// node takes out what is told of a node that policies found something by.
func (t *taken) node(doc map[string]any, name string, found []string) {
	ours := map[string][]string{
		"unreachable-node": {"notReady"}, "known-bad-runtime": {"buggy"}, "volume-driver-missing": {"driverless"}, "dra-driver-missing": {"undriven"},
		"busy-mount": {"kubeletEvents", "probes"}, "immutable-files": {"kubeletEvents", "probes"}, "network-plugin-removed": {"kubeletEvents"},
	}
	for _, policy := range found {
		sections, known := ours[policy]
		if !known {
			sections = []string{"kubeletEvents", "nodeProblems", "probes", "leaving"}
		}
		for _, section := range sections {
			switch section {
			case "driverless", "undriven": // by namespace
				t.below(doc, section, func(byNode map[string]any) { delete(byNode, name) })
			case "leaving":
				t.leaving(doc, name)
			default:
				delete(t.section(doc, section), name)
			}
		}
	}
}

// leaving takes the pods of a node out of those that it has not finished with.
func (t *taken) leaving(doc map[string]any, node string) {
	section := t.section(doc, "leaving")
	byNode := maps.Clone(child(section, "nodes"))
	delete(byNode, node)
	byNamespace := maps.Clone(child(section, "namespaces"))
	for namespace, left := range byNamespace {
		list, _ := whole(left)["pods"].([]any)
		others := slices.DeleteFunc(slices.Clone(list), func(pod any) bool { return whole(pod)["node"] == node })
		changed := maps.Clone(whole(left))
		changed["pods"], changed["count"] = others, number(changed["count"])-(len(list)-len(others))
		byNamespace[namespace] = changed
		if len(others) == 0 {
			delete(byNamespace, namespace)
		}
	}
	section["nodes"], section["namespaces"] = byNode, byNamespace
}

// below changes copies of the maps below a section.
func (t *taken) below(doc map[string]any, name string, change func(map[string]any)) {
	section := t.section(doc, name)
	for key, value := range section {
		changed := maps.Clone(whole(value))
		change(changed)
		section[key] = changed
	}
}

// withoutFinalizers takes the finalizers out of everything that holds them.
func (t *taken) withoutFinalizers(doc map[string]any) {
	if len(t.finalizers) == 0 {
		return
	}
	one := func(finalizer string, _ any) bool { return t.finalizers[finalizer] }
	for _, name := range []string{"finalizers", "terminating"} {
		maps.DeleteFunc(t.section(doc, name), one)
	}
	for _, name := range []string{"finalized", "spread", "needs"} {
		t.below(doc, name, func(byFinalizer map[string]any) { maps.DeleteFunc(byFinalizer, one) })
	}
	owners := t.section(doc, "owners")
	for uid, owner := range owners {
		byNamespace, held := whole(owner)["finalized"]
		if !held {
			continue
		}
		changed := maps.Clone(whole(owner))
		namespaces := maps.Clone(whole(byNamespace))
		for namespace, byFinalizer := range namespaces {
			left := maps.Clone(whole(byFinalizer))
			maps.DeleteFunc(left, one)
			namespaces[namespace] = left
		}
		changed["finalized"] = namespaces
		owners[uid] = changed
	}
}

// asking is an Evaluator that asks as if the causes were gone.
type asking struct {
	check.Evaluator
	taken *taken
}

func (a asking) Evaluate(ctx context.Context, trigger policies.Trigger, input map[string]any, facts policies.Facts) (policies.Result, error) {
	return a.Evaluator.Evaluate(ctx, trigger, a.taken.input(input), over{facts, a.taken})
}

// over are the facts without what was taken.
type over struct {
	policies.Facts
	taken *taken
}

func (o over) View(f func(doc map[string]any)) {
	o.Facts.View(func(doc map[string]any) {
		doc = maps.Clone(doc)
		maps.Copy(doc, o.taken.replaced)
		f(doc)
	})
}

// input is the question without what was taken.
func (t *taken) input(input map[string]any) map[string]any {
	input = maps.Clone(input)
	if refusals, some := input["refusals"].([]any); some && len(t.refuse) > 0 {
		left := slices.DeleteFunc(slices.Clone(refusals), func(item any) bool {
			by, _ := whole(item)["by"].(string)
			return slices.ContainsFunc(t.refuse, func(prefix string) bool { return strings.HasPrefix(by, prefix) })
		})
		if input["refusals"] = left; len(left) == 0 {
			delete(input, "refusals")
		}
	}
	if len(t.finalizers) == 0 {
		return input
	}
	ownership := maps.Clone(whole(input["ownership"]))
	maps.DeleteFunc(ownership, func(finalizer string, _ any) bool { return t.finalizers[finalizer] })
	input["ownership"] = ownership
	request := maps.Clone(whole(input["request"]))
	object := maps.Clone(whole(request["oldObject"]))
	for _, field := range []string{"metadata", "spec"} {
		list, some := whole(object[field])["finalizers"].([]any)
		if !some {
			continue
		}
		part := maps.Clone(whole(object[field]))
		part["finalizers"] = slices.DeleteFunc(slices.Clone(list), func(finalizer any) bool {
			text, _ := finalizer.(string)
			return t.finalizers[text]
		})
		object[field] = part
	}
	if len(object) > 0 {
		request["oldObject"] = object
	}
	input["request"] = request
	return input
}
