package references

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster/facts"
)

func (p *Part) settleUse(id Thing) {
	p.doc.Prune("inUse", id.Namespace, id.Resource, id.Name)
	p.doc.Prune("awaited", id.Namespace, id.Resource, id.Name)
	r := p.records[id]
	if r == nil || p.options.Manifests {
		return
	}
	for _, w := range r.waits {
		users := facts.Sets[side, Thing]{} // several rules may match the same
		fromStatus := map[string]bool{}
		awaited := facts.Sets[string, string]{} // the owner deletes them itself
		for _, rule := range w.rules {
			for user := range p.users(rule, id, r) {
				switch {
				case user == id:
				case rule.Deletes:
					awaited.Add(rule.Resource, nameIn(id.Namespace, user.NamespacedName))
				default:
					users.Add(sideOf(id, user, rule.Resource), user)
					fromStatus[rule.Resource] = fromStatus[rule.Resource] || rule.readsStatus()
				}
			}
		}
		hints, more := map[string]map[string]any{}, 0 // objects that only name it, by resource
		if len(w.rules) == 0 {
			more = p.visit(id, r, func(by Thing, path string, carries bool) {
				if by == id {
					return
				}
				users.Add(sideOf(id, by, by.Resource), by)
				if hint := hints[by.Resource]; hint == nil || path < hint["field"].(string) {
					hints[by.Resource] = map[string]any{"field": path, "carries": carries}
				}
			})
		}
		for resource, names := range awaited {
			p.doc.Put(group(names, p.options.MaxNames), "awaited", id.Namespace, id.Resource, id.Name, w.finalizer, resource)
		}
		for of, by := range users {
			use := p.use(id, by, fromStatus[of.resource])
			maps.Copy(use, hints[of.resource])
			use["count"] = len(by) + more // of any resource
			p.doc.Put(use, "inUse", id.Namespace, id.Resource, id.Name, w.finalizer, of.resource, of.side)
		}
	}
}

type side struct{ resource, side string }

func sideOf(id, user Thing, resource string) side {
	if id.Namespace != "" && user.Namespace == id.Namespace {
		return side{resource, "inside"}
	}
	return side{resource, "outside"}
}

// readsStatus reports whether a reference is in a custom resource's status: its owner should write it, but
// anyone with rights to it can.
func (r *rule) readsStatus() bool {
	return strings.HasPrefix(r.Path, "status.") && facts.Custom(facts.GroupOf(r.Resource))
}

func (p *Part) use(id Thing, by map[Thing]bool, fromStatus bool) map[string]any {
	names, mutual, owned, leaving := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for user := range by {
		name := nameIn(id.Namespace, user.NamespacedName)
		names[name] = true
		r, n := p.records[user], p.namers[p.hash(user)]
		if r != nil && r.leaving || n != nil && n.mentions[0].leaving {
			leaving++
		}
		if r != nil && r.owned {
			owned[name] = true
		}
		if p.keeps(id, user) {
			mutual[name] = true
		}
	}
	use := group(names, p.options.MaxNames)
	use["leaving"], use["mutual"] = leaving, first(mutual, p.options.MaxNames)
	named, _ := use["names"].([]any)
	named = slices.DeleteFunc(slices.Clone(named), func(name any) bool { return !owned[name.(string)] })
	facts.Set(use, "fromStatus", true, fromStatus)
	facts.Set(use, "owned", named, len(named) > 0)
	return use
}

func (p *Part) users(rule *rule, id Thing, r *record) map[Thing]bool {
	if rule.Within != "" {
		return p.within(rule, id, r)
	}
	at := id.NamespacedName
	if rule.Path == "" {
		at.Name = ""
	}
	if rule.AnyNamespace || rule.Path == "" && !rule.SameNamespace {
		at.Namespace = ""
	}
	return p.referrers[rule][at]
}

func (p *Part) within(rule *rule, id Thing, r *record) map[Thing]bool {
	mine := prefixes(r.ranges)
	var others []netip.Prefix
	for other := range p.awaiting[id.Resource] {
		if other != id {
			others = append(others, prefixes(p.records[other].ranges)...)
		}
	}
	objects := map[Thing]bool{}
	for target, users := range p.referrers[rule] {
		address, err := netip.ParseAddr(target.Name)
		if err != nil {
			continue
		}
		in := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
		if !slices.ContainsFunc(mine, in) || slices.ContainsFunc(others, in) {
			continue
		}
		maps.Copy(objects, users)
	}
	return objects
}

func prefixes(texts []string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes
}

func (p *Part) keeps(id, other Thing) bool {
	held := p.records[other]
	if held == nil || len(held.waits) == 0 {
		return false
	}
	return slices.ContainsFunc(p.records[id].refers, func(ref reference) bool {
		if ref.rule.target != other.Resource || ref.target != other.NamespacedName {
			return false
		}
		return !ref.rule.Deletes && slices.ContainsFunc(held.waits, func(w wait) bool { return slices.Contains(w.rules, ref.rule) })
	})
}
