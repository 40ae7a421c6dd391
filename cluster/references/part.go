// Package references finds the objects that name one another, as far as the owners of finalizers read or wait
// for them, by the catalog or by their fields.
package references

import (
	"cmp"
	"hash/maphash"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// maxNamed bounds the names kept of one object, and its finalizers that are read: users may write any number.
const maxNamed = 64

// World is the interface to other objects.
type World interface {
	Presence(resource string, key types.NamespacedName) Presence
	// Undefined reports whether a kind is not served for lack of a definition.
	Undefined(kind schema.GroupKind) bool
	// Allows reports whether an owner has the right to an operation, as a service account, or as itself if that is "",
	// and the roles and bindings without which it would not. ok is false if the facts do not show it.
	Allows(finalizer, resource, namespace string, operation catalog.Operation, account string) (lets, ok bool, only []Thing)
}

// Presence is what the facts show of an object.
type Presence struct {
	Visible     bool // whether it exists
	Exists      bool
	Finalized   bool // it has finalizers
	Terminating bool // it is Terminating, and has finalizers
}

// Options of a Part. All are needed.
type Options struct {
	Catalog *catalog.Catalog
	// Manifests says that the objects are manifests: others may exist, and references among them are ordinary.
	Manifests bool
	MaxNames  int
	World     World
}

type need struct {
	finalizer string // "" for an intermediate object
	*catalog.Need
	catalog.Named
}

// reference is to an object, or to all of a resource if the name is empty, in one namespace if set.
type reference struct {
	*rule
	target types.NamespacedName
}

type record struct {
	*ties
	waits   []wait // finalizers that stay while others refer to it
	leaving bool
	owned   bool // it refers to others because its controller does
}

type ties struct {
	needs     []need
	acts      []act
	below     []need          // of the objects that name it
	refers    []reference     // that keep finalizers of others
	published []need          // Secrets that its status names
	ids       []Thing         // identifiers in its status
	ranges    []string        // of addresses that count as references
	account   map[string]bool // the service accounts of a role binding
	places    []place         // where owners of its finalizers must run that run on each node
}

var untied ties

type place struct{ namespace, finalizer, resource, node string }

// maxPlaces bounds the places kept of a namespace: its users may name any nodes.
const maxPlaces = 1000

// wait is a finalizer that stays while others refer to the object by a rule, or may stay, without rules, while
// others name it.
type wait struct {
	finalizer string
	rules     []*rule
}

type needed struct {
	Presence
	by map[string]bool
}

// Part writes the references into the facts. Callers serialize calls of Follow, Keep, Forget, SetRights,
// UpdateVisibility and Settle; all other methods only read.
type Part struct {
	options Options
	doc     facts.Document
	plan    plan

	records   map[Thing]*record
	carriers  facts.Sets[string, Thing] // with needs, by namespace
	needed    map[Thing]*needed
	needs     map[string][]Thing                                // needed objects, by namespace
	awaiting  facts.Sets[string, Thing]                         // that others may keep, by resource
	referrers map[*rule]facts.Sets[types.NamespacedName, Thing] // objects that refer, by target
	bindings  facts.Sets[string, types.NamespacedName]          // role bindings, by service account

	seed     maphash.Seed
	namers   map[uint64]*namer      // by their hash
	mentions map[uint64][]mentioned // by the target's hash
	awaits   map[uint64]Thing       // objects that may wait for their namers

	onNode      facts.Sets[place, string]
	placed      facts.Counts[string]
	dirtyPlaces map[place]bool

	dirtyNeeds map[string]bool
	dirtyUses  map[Thing]bool
	allDirty   bool
	rights     int
}

func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"needs", "needed", "unallowed", "inUse", "awaited", "referrers", "onNode"} {
		doc[section] = map[string]any{}
	}
	return &Part{
		options: options, doc: doc, plan: newPlan(options.Catalog),
		records: map[Thing]*record{}, carriers: facts.Sets[string, Thing]{}, needed: map[Thing]*needed{}, needs: map[string][]Thing{},
		awaiting: facts.Sets[string, Thing]{}, referrers: map[*rule]facts.Sets[types.NamespacedName, Thing]{},
		bindings: facts.Sets[string, types.NamespacedName]{},
		seed:     maphash.MakeSeed(), namers: map[uint64]*namer{}, mentions: map[uint64][]mentioned{}, awaits: map[uint64]Thing{},
		onNode: facts.Sets[place, string]{}, placed: facts.Counts[string]{}, dirtyPlaces: map[place]bool{},
		dirtyNeeds: map[string]bool{}, dirtyUses: map[Thing]bool{},
	}
}

// Follow adds resources, and whether they are namespaced; records of earlier ones are removed with their
// objects.
func (p *Part) Follow(resources map[string]bool) {
	if p.plan.follow(resources) && !p.options.Manifests {
		referrers := map[string]any{}
		for target, by := range p.plan.referrers() {
			referrers[target] = facts.List(by)
		}
		p.doc["referrers"] = referrers
	}
}

// ReadsWhole reports whether more than a resource's metadata is read; never for Secrets, whatever a catalog
// says.
func (p *Part) ReadsWhole(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.whole() && resource != "secrets"
}

// ReadsFields reports whether a resource's fields are read for names.
func (p *Part) ReadsFields(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.peers > 0
}

// KeepsAll reports whether Keep keeps all objects of a resource, so that others do not exist.
func (p *Part) KeepsAll(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.named
}

// Role grows when objects of a resource must be read again.
func (p *Part) Role(resource string) int {
	if r := p.plan.roles[resource]; r != nil {
		return r.version()
	}
	return 0
}

func (p *Part) UpdateVisibility() { p.allDirty = true }

// Keep reduces an object to names at once, and reports whether there is anything to forget.
func (p *Part) Keep(resource string, key types.NamespacedName, obj runtime.Object) bool {
	r := p.plan.roles[resource]
	m, isObject := obj.(metav1.Object)
	if r == nil || !isObject {
		return false
	}
	id := Thing{resource, key}
	n := p.naming(r, id, obj)
	p.mention(id, n.mentions, m.GetDeletionTimestamp() != nil)
	before, now := p.records[id], p.reduce(r, id, m, obj, n)
	changed := !reflect.DeepEqual(before, now)
	if changed {
		p.drop(id)
		if now != nil {
			p.records[id] = now
			p.index(id, now, true)
		}
	}
	held := len(m.GetFinalizers()) > 0
	at := Presence{Visible: true, Exists: true, Finalized: held, Terminating: held && m.GetDeletionTimestamp() != nil}
	if n := p.needed[id]; n != nil && (changed || n.Presence != at) {
		p.touch(n)
	}
	return r.named || now != nil || len(n.mentions) > 0
}

func (p *Part) Forget(resource string, key types.NamespacedName) {
	if p.plan.roles[resource] == nil {
		return
	}
	id := Thing{resource, key}
	p.drop(id)
	p.mention(id, nil, false)
	if n := p.needed[id]; n != nil {
		p.touch(n)
	}
}

func (p *Part) touch(n *needed) {
	for namespace := range n.by {
		p.dirtyNeeds[namespace] = true
	}
}

func (p *Part) drop(id Thing) {
	if r := p.records[id]; r != nil {
		delete(p.records, id)
		p.index(id, r, false)
	}
}

func (p *Part) reduce(r *role, id Thing, m metav1.Object, obj runtime.Object, n naming) *record {
	now := record{ties: &ties{published: n.published}}
	var fields map[string]any
	whole := func() map[string]any { // converted on first use
		if fields != nil {
			return fields
		}
		if fields = fieldsOf(obj); p.options.Manifests {
			fields = maps.Clone(fields)
			delete(fields, "status") // from some cluster
		}
		return fields
	}
	finalizers := m.GetFinalizers()
	for _, finalizer := range finalizers[:min(maxNamed, len(finalizers))] {
		rules := p.plan.rulesFor(finalizer, id.Resource)
		for _, n := range rules.needs {
			now.needs = appendNeeds(now.needs, finalizer, n, whole())
		}
		for _, a := range rules.acts {
			now.acts = appendActs(now.acts, finalizer, a, whole())
		}
		named := r.peers > 0 && facts.Custom(facts.GroupOf(id.Resource)) && !rules.builtIn
		if named {
			now.needs = appendHints(now.needs, finalizer, rules, n.needs)
			if n.node != "" {
				now.places = append(now.places, place{id.Namespace, finalizer, id.Resource, n.node})
			}
		}
		entry := wait{finalizer: finalizer}
		for _, w := range rules.waits {
			if len(w.If) > 0 && !w.Applies(whole()) {
				continue
			}
			entry.rules = append(entry.rules, w)
			if w.Within != "" {
				now.ranges = append(now.ranges, w.Ranges(whole())...)
			}
		}
		if len(entry.rules) > 0 || named && len(rules.waits) == 0 && metav1.GetControllerOfNoCopy(m) == nil {
			now.waits = append(now.waits, entry)
		}
	}
	if len(now.waits) > 0 {
		now.ids = n.ids
	}
	now.ranges = now.ranges[:min(maxNamed, len(now.ranges))]
	for _, n := range r.below {
		now.below = appendNeeds(now.below, "", n, whole())
	}
	if len(r.refers) > 0 && mayRefer(obj) {
		now.leaving = m.GetDeletionTimestamp() != nil
		now.owned = metav1.GetControllerOfNoCopy(m) != nil && facts.Custom(facts.GroupOf(id.Resource))
		for _, rule := range r.refers {
			now.refers = append(now.refers, p.references(rule, id, whole())...)
			now.refers = now.refers[:min(maxNamed, len(now.refers))]
		}
	}
	if b, is := obj.(*rbacv1.RoleBinding); is && p.plan.impersonates {
		now.account = accountsOf(b)
	}
	if len(now.needs)+len(now.acts)+len(now.below)+len(now.refers)+len(now.account)+len(now.published)+len(now.ids)+len(now.ranges)+len(now.places) == 0 {
		if now.ties = &untied; len(now.waits) == 0 {
			return nil
		}
	}
	return &now
}

func appendNeeds(needs []need, finalizer string, n *catalog.Need, fields map[string]any) []need {
	for _, named := range n.Names(fields) {
		if len(needs) == maxNamed {
			return needs
		}
		needs = append(needs, need{finalizer, n, named})
	}
	return needs
}

// appendHints adds names in fields, only of intermediate objects if the catalog has the owner's needs.
func appendHints(needs []need, finalizer string, rules *rules, hints []need) []need {
	for _, n := range hints {
		if len(needs) < maxNamed && (len(rules.needs) == 0 || n.Without == through) {
			needs = append(needs, need{finalizer, n.Need, n.Named})
		}
	}
	return needs
}

func (p *Part) references(rule *rule, id Thing, fields map[string]any) []reference {
	in := func(namespace string) string {
		if !p.plan.namespaced(rule.target) || rule.AnyNamespace {
			return ""
		}
		return namespace
	}
	if rule.Path == "" {
		if !rule.Counts(fields) {
			return nil
		}
		var target types.NamespacedName
		if rule.SameNamespace {
			target.Namespace = in(id.Namespace)
		}
		return []reference{{rule, target}}
	}
	var refs []reference
	for _, named := range rule.Names(fields) {
		refs = append(refs, reference{rule, types.NamespacedName{Namespace: in(cmp.Or(named.Namespace, id.Namespace)), Name: named.Name}})
	}
	return refs
}

func fieldsOf(obj runtime.Object) map[string]any {
	if u, is := obj.(*unstructured.Unstructured); is {
		return u.Object
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return map[string]any{} // it names nothing
	}
	return fields
}

// mayRefer excludes most pods from conversion: there are many.
func mayRefer(obj runtime.Object) bool {
	pod, is := obj.(*corev1.Pod)
	return !is || len(pod.Spec.ResourceClaims) > 0 || len(pod.Status.ResourceClaimStatuses) > 0 || pod.Spec.SchedulingGroup != nil
}

func accountsOf(b *rbacv1.RoleBinding) map[string]bool {
	accounts := map[string]bool{}
	for _, s := range b.Subjects {
		if s.Kind == rbacv1.ServiceAccountKind && len(accounts) < maxNamed {
			accounts[s.Namespace+"/"+s.Name] = true
		}
	}
	return accounts
}

func (p *Part) index(id Thing, r *record, in bool) {
	if len(r.needs)+len(r.acts) > 0 {
		p.carriers.Set(id.Namespace, id, in)
	}
	if len(r.needs)+len(r.acts)+len(r.account) > 0 {
		p.dirtyNeeds[id.Namespace] = true
	}
	if len(r.waits) > 0 {
		p.awaiting.Set(id.Resource, id, in)
		p.dirtyUses[id] = true
		for _, carried := range append([]Thing{id}, r.ids...) {
			if delete(p.awaits, p.hash(carried)); in {
				p.awaits[p.hash(carried)] = id
			}
		}
	}
	if len(r.ranges) > 0 {
		p.dirtyAll(id.Resource) // an address in its ranges may have been in another's
	}
	for _, ref := range r.refers {
		if p.referrers[ref.rule] == nil {
			p.referrers[ref.rule] = facts.Sets[types.NamespacedName, Thing]{}
		}
		p.referrers[ref.rule].Set(ref.target, id, in)
		p.dirty(ref)
	}
	for account := range r.account {
		p.bindings.Set(account, id.NamespacedName, in)
	}
	for _, at := range r.places {
		p.indexPlace(at, id.Name, in)
	}
}

func (p *Part) indexPlace(at place, name string, in bool) {
	had := len(p.onNode[at]) > 0
	if !had && (!in || at.namespace != "" && p.placed[at.namespace] == maxPlaces) {
		return
	}
	p.onNode.Set(at, name, in)
	p.dirtyPlaces[at] = true
	switch has := len(p.onNode[at]) > 0; {
	case has && !had:
		p.placed.Add(at.namespace, 1)
	case had && !has:
		p.placed.Add(at.namespace, -1)
	}
}

func (p *Part) dirty(ref reference) {
	if ref.target.Name == "" || ref.Within != "" {
		p.dirtyAll(ref.rule.target)
		return
	}
	p.dirtyUses[Thing{ref.rule.target, ref.target}] = true
}

func (p *Part) dirtyAll(resource string) {
	for id := range p.awaiting[resource] {
		p.dirtyUses[id] = true
	}
}

// Settle updates the document. It calls yield after each piece of work, when more may arrive.
func (p *Part) Settle(yield func()) {
	if p.allDirty {
		for namespace := range p.carriers {
			p.dirtyNeeds[namespace] = true
		}
		p.allDirty = false
	}
	for namespace := range p.dirtyNeeds {
		p.settleNeeds(namespace)
		delete(p.dirtyNeeds, namespace) // only now: a panic must not lose it
		yield()
	}
	for at := range p.dirtyPlaces {
		path := []string{"onNode", at.namespace, at.finalizer, at.resource, at.node}
		if p.doc.Prune(path...); len(p.onNode[at]) > 0 {
			p.doc.Put(group(p.onNode[at], p.options.MaxNames), path...)
		}
	}
	clear(p.dirtyPlaces)
	for id := range p.dirtyUses {
		p.settleUse(id)
		delete(p.dirtyUses, id)
		yield()
	}
}

func first(names map[string]bool, limit int) []any {
	return facts.List(facts.Least(maps.Keys(names), limit, strings.Compare))
}

func group(names map[string]bool, limit int) map[string]any {
	return map[string]any{"count": len(names), "names": first(names, limit)}
}
