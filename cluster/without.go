package cluster

import (
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

// Gone lists facts to remove for a hypothetical evaluation.
type Gone struct {
	Finalizers  []string
	APIServices []string            // they then answer
	Webhooks    []string            // configurations, as TYPE/NAME
	Conversions []string            // definitions whose objects can then be converted
	Nodes       map[string][]string // sections about a node, by its name
}

// Without are the facts without something.
type Without struct {
	replaced   map[string]any // sections of the facts
	finalizers map[string]bool
	refuse     []string // prefixes of removed refusals, as in input.refusals
}

// Without removes something from facts that do not change any more. They stay unchanged.
func (w *World) Without(gone Gone) *Without {
	t := &Without{replaced: map[string]any{}, finalizers: map[string]bool{}}
	w.View(func(doc map[string]any) {
		for _, name := range gone.APIServices {
			delete(t.section(doc, "apiservices"), name)
			_, group, _ := strings.Cut(name, ".")
			t.seen(doc, func(resource string) bool { return strings.HasSuffix(resource, "."+group) })
		}
		for _, name := range gone.Webhooks {
			t.webhook(doc, name+"/")
		}
		for _, name := range gone.Conversions {
			delete(t.section(doc, "unconverted"), name)
			t.seen(doc, func(resource string) bool { return resource == name })
		}
		for node, sections := range gone.Nodes {
			t.node(doc, node, sections)
		}
		for _, finalizer := range gone.Finalizers {
			t.finalizers[finalizer] = true
		}
		t.withoutFinalizers(doc)
	})
	return t
}

// section returns a section of the facts after earlier removals, to be changed at its top level.
func (t *Without) section(doc map[string]any, name string) map[string]any {
	if changed, done := t.replaced[name].(map[string]any); done {
		return changed
	}
	changed := copied(doc[name])
	t.replaced[name] = changed
	return changed
}

// copied returns a copy of a map or section that may be changed at its top level.
func copied(value any) map[string]any {
	if section, made := value.(facts.Section); made {
		return section.All()
	}
	m, _ := value.(map[string]any)
	if m = maps.Clone(m); m == nil {
		m = map[string]any{}
	}
	return m
}

// seen removes the unseen resources that would then be seen.
func (t *Without) seen(doc map[string]any, is func(resource string) bool) {
	list, done := t.replaced["unseen"].([]any)
	if !done {
		list, _ = doc["unseen"].([]any)
		list = slices.Clone(list)
	}
	t.replaced["unseen"] = slices.DeleteFunc(list, func(item any) bool {
		hidden, _ := item.(map[string]any)
		resource, _ := hidden["resource"].(string)
		return hidden["reason"] != facts.UnseenForbidden && is(resource)
	})
}

func (t *Without) webhook(doc map[string]any, prefix string) {
	t.refuse = append(t.refuse, "webhook/"+prefix)
	begins := func(key string, _ any) bool { return strings.HasPrefix(key, prefix) }
	maps.DeleteFunc(t.section(doc, "webhooks"), begins)
	for _, name := range []string{"blocked", "selfBlocked"} {
		t.below(doc, name, func(byWebhook map[string]any) { maps.DeleteFunc(byWebhook, begins) })
	}
}

func (t *Without) node(doc map[string]any, name string, sections []string) {
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

// leaving removes the pods of a node from its unfinished ones.
func (t *Without) leaving(doc map[string]any, node string) {
	section := t.section(doc, "leaving")
	byNode, byNamespace := copied(section["nodes"]), copied(section["namespaces"])
	delete(byNode, node)
	for namespace, left := range byNamespace {
		changed := copied(left)
		list, _ := changed["pods"].([]any)
		others := slices.DeleteFunc(slices.Clone(list), func(pod any) bool {
			p, _ := pod.(map[string]any)
			return p["node"] == node
		})
		changed["pods"], changed["count"] = others, facts.Number(changed["count"])-(len(list)-len(others))
		byNamespace[namespace] = changed
		if len(others) == 0 {
			delete(byNamespace, namespace)
		}
	}
	section["nodes"], section["namespaces"] = byNode, byNamespace
}

// below changes copies of the maps below a section.
func (t *Without) below(doc map[string]any, name string, change func(map[string]any)) {
	section := t.section(doc, name)
	for key, value := range section {
		changed := copied(value)
		change(changed)
		section[key] = changed
	}
}

// withoutFinalizers removes the finalizers from all sections.
func (t *Without) withoutFinalizers(doc map[string]any) {
	if len(t.finalizers) == 0 {
		return
	}
	one := func(finalizer string, _ any) bool { return t.finalizers[finalizer] }
	for _, name := range []string{"finalizers", "terminating"} {
		maps.DeleteFunc(t.section(doc, name), one)
	}
	for _, name := range []string{"finalized", "spread", "needs", "unallowed", "tasks"} {
		t.below(doc, name, func(byFinalizer map[string]any) { maps.DeleteFunc(byFinalizer, one) })
	}
	owners := t.section(doc, "owners")
	for uid, owner := range owners {
		changed := copied(owner)
		if _, held := changed["finalized"]; !held {
			continue
		}
		namespaces := copied(changed["finalized"])
		for namespace, byFinalizer := range namespaces {
			left := copied(byFinalizer)
			maps.DeleteFunc(left, one)
			namespaces[namespace] = left
		}
		changed["finalized"] = namespaces
		owners[uid] = changed
	}
}

// Over returns facts without the removed ones.
func (t *Without) Over(of question.Facts) question.Facts { return without{of, t} }

type without struct {
	question.Facts
	gone *Without
}

func (o without) View(f func(doc map[string]any)) {
	o.Facts.View(func(doc map[string]any) {
		doc = maps.Clone(doc)
		maps.Copy(doc, o.gone.replaced)
		f(doc)
	})
}

// Input returns the input of policies for a request without the removed facts.
func (t *Without) Input(input map[string]any) map[string]any {
	input = maps.Clone(input)
	if refusals, some := input["refusals"].([]any); some && len(t.refuse) > 0 {
		left := slices.DeleteFunc(slices.Clone(refusals), func(item any) bool {
			refusal, _ := item.(map[string]any)
			by, _ := refusal["by"].(string)
			return slices.ContainsFunc(t.refuse, func(prefix string) bool { return strings.HasPrefix(by, prefix) })
		})
		if input["refusals"] = left; len(left) == 0 {
			delete(input, "refusals")
		}
	}
	if len(t.finalizers) == 0 {
		return input
	}
	ownership := copied(input["ownership"])
	maps.DeleteFunc(ownership, func(finalizer string, _ any) bool { return t.finalizers[finalizer] })
	request := copied(input["request"])
	object := copied(request["oldObject"])
	for _, field := range []string{"metadata", "spec"} {
		part := copied(object[field])
		if list, some := part["finalizers"].([]any); some {
			part["finalizers"] = slices.DeleteFunc(slices.Clone(list), func(finalizer any) bool {
				text, _ := finalizer.(string)
				return t.finalizers[text]
			})
			object[field] = part
		}
	}
	if len(object) > 0 {
		request["oldObject"] = object
	}
	input["ownership"], input["request"] = ownership, request
	return input
}
