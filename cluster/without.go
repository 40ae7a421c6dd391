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
	Conversions []string            // definitions whose objects then convert
	Nodes       map[string][]string // sections, by node
}

// Without are the facts without something.
type Without struct {
	replaced map[string]any // sections
	carried  match
	refuses  match // what no longer refuses, as in input.refusals
}

type match func(key string) bool

func every(string) bool { return true }

func is(name string) match { return func(key string) bool { return key == name } }

func begins(prefixes []string) match {
	return func(key string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	}
}

func pruned(node any, path ...match) map[string]any {
	left := copied(node)
	for key, below := range left {
		switch {
		case !path[0](key):
		case len(path) == 1:
			delete(left, key)
		default:
			left[key] = pruned(below, path[1:]...)
		}
	}
	return left
}

// copied returns a copy that may be changed at its top level.
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

// Without returns the facts, which must not change any more, without something.
func (w *World) Without(gone Gone) *Without {
	t := &Without{replaced: map[string]any{}, carried: func(finalizer string) bool { return slices.Contains(gone.Finalizers, finalizer) }}
	var hooks, refusers []string
	for _, name := range gone.Webhooks {
		hooks, refusers = append(hooks, name+"/"), append(refusers, "webhook/"+name+"/")
	}
	t.refuses = begins(refusers)
	w.View(func(doc map[string]any) {
		remove := func(path ...match) {
			for name := range doc {
				if path[0](name) {
					t.replaced[name] = pruned(t.section(doc, name), path[1:]...)
				}
			}
		}
		for _, name := range gone.APIServices {
			remove(is("apiservices"), is(name))
			_, group, _ := strings.Cut(name, ".")
			t.see(doc, func(resource string) bool { return strings.HasSuffix(resource, "."+group) })
		}
		for _, name := range gone.Conversions {
			remove(is("unconverted"), is(name))
			t.see(doc, is(name))
		}
		if len(hooks) > 0 {
			remove(is("webhooks"), begins(hooks))
			remove(is("blocked"), every, begins(hooks))
			remove(is("selfBlocked"), every, begins(hooks))
		}
		for node, sections := range gone.Nodes {
			for _, section := range sections {
				switch section {
				case "driverless", "undriven": // by namespace
					remove(is(section), every, is(node))
				case "leaving":
					t.leaving(doc, node)
				default:
					remove(is(section), is(node))
				}
			}
		}
		if len(gone.Finalizers) > 0 {
			remove(is("finalizers"), t.carried)
			remove(is("terminating"), t.carried)
			for _, section := range []string{"finalized", "spread", "needs", "unallowed", "tasks"} {
				remove(is(section), every, t.carried)
			}
			remove(is("owners"), every, is("finalized"), every, t.carried)
		}
	})
	return t
}

func (t *Without) section(doc map[string]any, name string) any {
	if changed, done := t.replaced[name]; done {
		return changed
	}
	return doc[name]
}

func (t *Without) see(doc map[string]any, seen match) {
	list, _ := t.section(doc, "unseen").([]any)
	t.replaced["unseen"] = slices.DeleteFunc(slices.Clone(list), func(item any) bool {
		hidden, _ := item.(map[string]any)
		resource, _ := hidden["resource"].(string)
		return hidden["reason"] != facts.UnseenForbidden && seen(resource)
	})
}

func (t *Without) leaving(doc map[string]any, node string) {
	section := pruned(t.section(doc, "leaving"), is("nodes"), is(node))
	byNamespace := copied(section["namespaces"])
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
	section["namespaces"], t.replaced["leaving"] = byNamespace, section
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

// Input returns an input without the removed facts.
func (t *Without) Input(input map[string]any) map[string]any {
	input = pruned(input, is("ownership"), t.carried)
	if refusals, some := input["refusals"].([]any); some {
		left := slices.DeleteFunc(slices.Clone(refusals), func(item any) bool {
			refusal, _ := item.(map[string]any)
			by, _ := refusal["by"].(string)
			return t.refuses(by)
		})
		if input["refusals"] = left; len(left) == 0 {
			delete(input, "refusals")
		}
	}
	request := copied(input["request"])
	if _, some := request["oldObject"].(map[string]any); !some {
		return input
	}
	object := copied(request["oldObject"])
	for _, field := range []string{"metadata", "spec"} {
		part := copied(object[field])
		if list, some := part["finalizers"].([]any); some {
			part["finalizers"] = slices.DeleteFunc(slices.Clone(list), func(finalizer any) bool {
				text, _ := finalizer.(string)
				return t.carried(text)
			})
			object[field] = part
		}
	}
	request["oldObject"], input["request"] = object, request
	return input
}
