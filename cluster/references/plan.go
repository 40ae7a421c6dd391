package references

import (
	"maps"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster/catalog"
)

type rule struct {
	catalog.Referrer
	target string
}

type rules struct {
	needs   []*catalog.Need
	acts    []*catalog.Act
	waits   []*rule
	builtIn bool
	lacks   []string // resources of needs without which some releases of the owner fail
}

// role is why the objects of a resource are read.
type role struct {
	carries bool
	named   bool
	below   []*catalog.Need // further needs that start from them
	refers  []*rule
	asks    bool // waits for others depend on its fields
	peers   int  // custom resources of its group, whose names its fields may have
}

func (r *role) version() int {
	version := len(r.below) + len(r.refers) + r.peers
	for _, set := range []bool{r.carries, r.named, r.asks} {
		if set {
			version++
		}
	}
	return version
}

func (r *role) whole() bool { return r.carries || len(r.below) > 0 || len(r.refers) > 0 || r.asks }

// plan says which data is read of the served resources: catalog entries for other kinds cost nothing.
type plan struct {
	catalog      *catalog.Catalog
	followed     map[string]bool
	roles        map[string]*role
	byEntry      map[[2]string]*rules // by the entry's key and the resource
	impersonates bool                 // some owners act as other service accounts
	peers        map[string][]string
	hints        map[string]*catalog.Need // for names in fields, by resource
	endings      map[string][]string      // resources, by the end of their name
}

func newPlan(c *catalog.Catalog) plan {
	return plan{catalog: c, followed: map[string]bool{}, roles: map[string]*role{}, byEntry: map[[2]string]*rules{},
		peers: map[string][]string{}, hints: map[string]*catalog.Need{}, endings: map[string][]string{}}
}

func (p *plan) follow(resources map[string]bool) bool {
	var added []string
	for resource, namespaced := range resources {
		if _, ok := p.followed[resource]; !ok {
			added = append(added, resource)
		}
		p.followed[resource] = namespaced
	}
	if len(added) == 0 {
		return false
	}
	p.hint(added)
	slices.Sort(added)
	for _, resource := range added {
		for _, e := range slices.Concat(p.catalog.Referring(resource), p.catalog.Referring("*")) {
			p.take(e, resource)
		}
	}
	return true
}

// referrers returns the resources that keep finalizers, by the finalized resource.
func (p *plan) referrers() map[string][]string {
	referrers := map[string][]string{}
	for _, by := range slices.Sorted(maps.Keys(p.roles)) {
		for _, rule := range p.roles[by].refers {
			if all := referrers[rule.target]; !slices.Contains(all, by) {
				referrers[rule.target] = append(all, by)
			}
		}
	}
	return referrers
}

func (p *plan) take(e *catalog.Entry, resource string) {
	listed := slices.Contains(e.On, resource) || e.Owns(resource) // an entry for many kinds includes its API group
	if !listed && !anyOf(e) {
		return
	}
	var all rules // mostly empty
	for _, n := range e.NeedsOf(resource) {
		if listed || len(n.Of) > 0 {
			all.needs = append(all.needs, &n)
			p.role(resource).carries = true
			p.need(&n)
		}
	}
	for i := range e.Acts {
		if listed {
			all.acts = append(all.acts, &e.Acts[i])
			p.role(resource).carries = true
			p.role("serviceaccounts").named = true
		}
	}
	for _, o := range e.ObstaclesOf(resource) {
		if listed && len(o.When) > 0 {
			p.role(resource).carries = true
		}
		if o.Lacks != "" {
			all.lacks = append(all.lacks, o.Lacks)
		}
	}
	for _, w := range e.WaitsForOf(resource) {
		if !listed && len(w.Of) == 0 {
			continue
		}
		r := &rule{w, resource}
		all.waits = append(all.waits, r)
		p.role(resource).asks = p.role(resource).asks || w.Within != "" || len(w.If) > 0
		by := p.role(w.Resource)
		by.refers = append(by.refers, r)
	}
	if len(all.needs)+len(all.waits)+len(all.acts) > 0 {
		kept := all
		p.byEntry[[2]string{e.Key(), resource}] = &kept
	}
}

func anyOf(e *catalog.Entry) bool {
	return slices.ContainsFunc(e.Needs, func(n catalog.Need) bool { return len(n.Of) > 0 }) ||
		slices.ContainsFunc(e.WaitsFor, func(r catalog.Referrer) bool { return len(r.Of) > 0 })
}

func (p *plan) need(n *catalog.Need) {
	of := p.role(n.Resource)
	of.named = true
	if n.Impersonates {
		p.impersonates = true
		p.role(roleBindings).named = true
	}
	for i := range n.Needs {
		if below := &n.Needs[i]; !slices.Contains(of.below, below) {
			of.below = append(of.below, below)
		}
		p.need(&n.Needs[i])
	}
}

func (p *plan) role(resource string) *role {
	if p.roles[resource] == nil {
		p.roles[resource] = &role{}
	}
	return p.roles[resource]
}

func (p *plan) rulesFor(finalizer, resource string) *rules {
	if entry, exists := p.catalog.Lookup(finalizer, resource); exists {
		if all := p.byEntry[[2]string{entry.Key(), resource}]; all != nil {
			return all
		}
		return &rules{builtIn: entry.BuiltIn()}
	}
	return &rules{}
}

// namespaced assumes it of the core group's unfollowed resources: its three cluster-scoped ones are followed.
func (p *plan) namespaced(resource string) bool {
	namespaced, followed := p.followed[resource]
	return namespaced || !followed && !strings.Contains(resource, ".")
}

const roleBindings = "rolebindings.rbac.authorization.k8s.io"
