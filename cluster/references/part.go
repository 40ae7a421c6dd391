// Package references tells which objects name one another, as far as the owners
// of finalizers depend on it: what an owner must read to clear a finalizer, and
// what it waits for, as the catalog knows it, or their fields tell.
package references

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"

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

// maxNamed bounds what is kept of the names that one object tells, and the
// finalizers of it that are looked at: who writes an object may write any number.
const maxNamed = 64

// World tells what a Part must know of objects that others keep.
type World interface {
	// There tells whether an object is there, and whether it holds finalizers.
	// known is false where the facts do not show it.
	There(resource string, key types.NamespacedName) (there, held, known bool)
	// Undefined tells whether nothing serves a kind, for want of a definition.
	Undefined(kind schema.GroupKind) bool
	// Lets tells whether the owner of a finalizer on a resource has the right to do
	// something, as a service account, "namespace/name", or as itself where that is "";
	// and what it has it by, each where there is nothing else. known is false where the
	// facts do not show it.
	Lets(finalizer, resource, namespace string, deed catalog.Deed, account string) (lets, known bool, only []Thing)
}

// Options of a Part. All are needed.
type Options struct {
	// Catalog of known finalizers.
	Catalog *catalog.Catalog
	// Manifests says that the objects are manifests: what they do not hold may be
	// there all the same, and what refers to what is only an ordinary set.
	Manifests bool
	// MaxNames bounds the names that the facts hold of a group of objects.
	MaxNames int
	// World tells of the objects themselves.
	World World
}

// object is one of a resource, as "plural.group".
type object struct {
	resource string
	types.NamespacedName
}

// need is a thing that the owner of a finalizer must read, as an object names it.
type need struct {
	finalizer string // "" in what is read on the way to another thing
	*catalog.Need
	catalog.Named
}

// reference is a referrer's of an object: of all objects of that resource where
// the name is empty, of those in its namespace if that is not.
type reference struct {
	*rule
	target types.NamespacedName
}

// record is what is kept of one object.
type record struct {
	needs     []need          // of its finalizers
	deeds     []deed          // of the owners of its finalizers
	below     []need          // of those that name it
	refers    []reference     // that keep finalizers of others
	waits     []wait          // finalizers that stay while others refer to it
	published []need          // Secrets that its status names
	ids       []object        // identifiers that its status holds
	ranges    []string        // of addresses that count as references
	leaving   bool            // it is being deleted
	owned     bool            // it refers to others because its controller does
	account   map[string]bool // of a role binding: the service accounts, "namespace/name"
}

// wait is a finalizer of an object that stays while others refer to it by one of
// the rules, or, where there are none, may stay while others name it.
type wait struct {
	finalizer string
	rules     []*rule
}

// needed is a thing that objects of some namespaces need, as it was when they
// were last looked at.
type needed struct {
	there, held bool
	by          map[string]bool // namespaces
}

// Part is the part of the facts that tells it. Whoever calls its methods makes
// sure that nobody else does; Missing only reads, and may be called by several at
// once.
type Part struct {
	options Options
	doc     facts.Document
	plan    plan

	records   map[object]*record
	carriers  map[string]map[object]bool                         // with needs, by namespace
	needed    map[object]*needed                                 // by what is needed
	needs     map[string][]object                                // what is needed, by namespace
	awaiting  map[string]map[object]bool                         // that others may keep, by resource
	referrers map[*rule]map[types.NamespacedName]map[object]bool // those that refer, by target
	bindings  map[string]map[types.NamespacedName]bool           // role bindings, by service account

	seed     maphash.Seed
	namers   map[uint64]*namer     // by their hash
	mentions map[uint64][]*mention // by the hash of what is named
	awaits   map[uint64]object     // those that may wait for who names them

	dirtyNeeds map[string]bool // namespaces
	dirtyUses  map[object]bool
	allDirty   bool
	rights     int // as Regrant was told
}

// New returns a Part that has seen nothing and writes into doc.
func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"needs", "needed", "unallowed", "inUse", "awaited", "referrers"} {
		doc[section] = map[string]any{}
	}
	return &Part{
		options: options, doc: doc, plan: newPlan(options.Catalog),
		records: map[object]*record{}, carriers: map[string]map[object]bool{}, needed: map[object]*needed{}, needs: map[string][]object{},
		awaiting: map[string]map[object]bool{}, referrers: map[*rule]map[types.NamespacedName]map[object]bool{},
		bindings: map[string]map[types.NamespacedName]bool{},
		seed:     maphash.MakeSeed(), namers: map[uint64]*namer{}, mentions: map[uint64][]*mention{}, awaits: map[uint64]object{},
		dirtyNeeds: map[string]bool{}, dirtyUses: map[object]bool{},
	}
}

// Follow takes in which resources are followed, as "plural.group", and whether
// their objects are in namespaces. Those that were stay known: what is kept of
// their objects goes with these.
func (p *Part) Follow(resources map[string]bool) {
	if p.plan.follow(resources) && !p.options.Manifests {
		referrers := map[string]any{}
		for target, by := range p.plan.referrers() {
			referrers[target] = facts.List(by)
		}
		p.doc["referrers"] = referrers
	}
}

// ReadsWhole tells whether more than the metadata of the objects of a resource is
// read: of Secrets never, whatever a catalog says. It only reads.
func (p *Part) ReadsWhole(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.whole() && resource != "secrets"
}

// ReadsFields tells whether the fields of objects of a resource are looked at for what they
// name. It only reads.
func (p *Part) ReadsFields(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.peers > 0
}

// Names tells whether Keep keeps all objects of a resource, so that what is not
// kept is not there. It only reads.
func (p *Part) Names(resource string) bool {
	r := p.plan.roles[resource]
	return r != nil && r.named
}

// Role tells apart what is read of a resource from what was before: it grows
// when objects that were seen must be seen again. It only reads.
func (p *Part) Role(resource string) int {
	if r := p.plan.roles[resource]; r != nil {
		return r.version()
	}
	return 0
}

// Resight notes that what can be seen has changed.
func (p *Part) Resight() { p.allDirty = true }

// Keep brings what an object tells up to date, and tells whether there is
// anything to forget. What it reads of it is reduced to names at once.
func (p *Part) Keep(resource string, key types.NamespacedName, obj runtime.Object) bool {
	r := p.plan.roles[resource]
	m, isObject := obj.(metav1.Object)
	if r == nil || !isObject {
		return false
	}
	id := object{resource, key}
	var n naming
	if r.peers > 0 && !p.options.Manifests {
		n = p.naming(id, obj)
		p.mention(id, n.mentions, m.GetDeletionTimestamp() != nil)
	}
	before, now := p.records[id], p.reduce(r, id, m, obj, n)
	changed := !reflect.DeepEqual(before, now)
	if changed {
		p.drop(id)
		if now != nil {
			p.add(id, now)
		}
	}
	held := len(m.GetFinalizers()) > 0
	if n := p.needed[id]; n != nil && (changed || !n.there || n.held != held) {
		p.touch(n)
	}
	return r.named || now != nil || len(n.mentions) > 0
}

// Forget undoes Keep.
func (p *Part) Forget(resource string, key types.NamespacedName) {
	if p.plan.roles[resource] == nil {
		return
	}
	id := object{resource, key}
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

// reduce is what is kept of an object, nil if nothing is.
func (p *Part) reduce(r *role, id object, m metav1.Object, obj runtime.Object, n naming) *record {
	now := record{published: n.published}
	whole := func() func() map[string]any { // converted when it is first asked for
		var fields map[string]any
		return func() map[string]any {
			if fields == nil {
				if fields = fieldsOf(obj); p.options.Manifests {
					fields = maps.Clone(fields)
					delete(fields, "status") // which says what was, in some cluster
				}
			}
			return fields
		}
	}()
	finalizers := m.GetFinalizers()
	for _, finalizer := range finalizers[:min(maxNamed, len(finalizers))] {
		rules := p.plan.rulesFor(finalizer, id.resource)
		for _, n := range rules.needs {
			now.needs = appendNeeds(now.needs, finalizer, n, whole())
		}
		for _, a := range rules.acts {
			now.deeds = appendDeeds(now.deeds, finalizer, a, whole())
		}
		named := r.peers > 0 && custom(id.resource) && !rules.builtIn
		if named {
			now.needs = appendHints(now.needs, finalizer, rules, n.needs)
		}
		found := wait{finalizer: finalizer}
		for _, w := range rules.waits {
			if len(w.If) > 0 && !w.Applies(whole()) {
				continue
			}
			found.rules = append(found.rules, w)
			if w.Within != "" {
				now.ranges = append(now.ranges, w.Ranges(whole())...)
			}
		}
		if len(found.rules) > 0 || named && len(rules.waits) == 0 && metav1.GetControllerOfNoCopy(m) == nil {
			now.waits = append(now.waits, found)
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
		now.owned = metav1.GetControllerOfNoCopy(m) != nil && custom(id.resource)
		for _, rule := range r.refers {
			now.refers = append(now.refers, p.references(rule, id, whole())...)
			now.refers = now.refers[:min(maxNamed, len(now.refers))]
		}
	}
	if b, is := obj.(*rbacv1.RoleBinding); is && p.plan.impersonates {
		now.account = accountsOf(b)
	}
	if len(now.needs)+len(now.deeds)+len(now.below)+len(now.refers)+len(now.waits)+len(now.account)+len(now.published) == 0 {
		return nil
	}
	return &now
}

func appendNeeds(found []need, finalizer string, n *catalog.Need, fields map[string]any) []need {
	for _, named := range n.Names(fields) {
		if len(found) == maxNamed {
			return found
		}
		found = append(found, need{finalizer, n, named})
	}
	return found
}

// appendHints adds what fields name. Where the catalog tells what an owner reads of an object,
// only what that names next is left.
func appendHints(found []need, finalizer string, rules *rules, hints []need) []need {
	for _, n := range hints {
		if len(found) < maxNamed && (len(rules.needs) == 0 || n.Without == through) {
			found = append(found, need{finalizer, n.Need, n.Named})
		}
	}
	return found
}

// references are those of a referrer that a rule tells.
func (p *Part) references(rule *rule, id object, fields map[string]any) []reference {
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
	var found []reference
	for _, named := range rule.Names(fields) {
		namespace := id.Namespace
		if named.Namespace != "" {
			namespace = named.Namespace
		}
		found = append(found, reference{rule, types.NamespacedName{Namespace: in(namespace), Name: named.Name}})
	}
	return found
}

// fieldsOf are the fields of an object, as JSON decodes them.
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

// mayRefer spares most pods, of which there are many, the look at their fields.
func mayRefer(obj runtime.Object) bool {
	pod, is := obj.(*corev1.Pod)
	return !is || len(pod.Spec.ResourceClaims) > 0 || len(pod.Status.ResourceClaimStatuses) > 0 || pod.Spec.SchedulingGroup != nil
}

func accountsOf(b *rbacv1.RoleBinding) map[string]bool {
	found := map[string]bool{}
	for _, s := range b.Subjects {
		if s.Kind == rbacv1.ServiceAccountKind && len(found) < maxNamed {
			found[s.Namespace+"/"+s.Name] = true
		}
	}
	return found
}

func (p *Part) add(id object, r *record) {
	p.records[id] = r
	if len(r.needs)+len(r.deeds) > 0 {
		put(p.carriers, id.Namespace, id)
	}
	if len(r.waits) > 0 {
		put(p.awaiting, id.resource, id)
		for _, carried := range append([]object{id}, r.ids...) {
			p.awaits[p.hash(carried)] = id
		}
	}
	for _, ref := range r.refers {
		by := p.referrers[ref.rule]
		if by == nil {
			by = map[types.NamespacedName]map[object]bool{}
			p.referrers[ref.rule] = by
		}
		put(by, ref.target, id)
	}
	for account := range r.account {
		put(p.bindings, account, id.NamespacedName)
	}
	p.changed(id, r)
}

func (p *Part) drop(id object) {
	r := p.records[id]
	if r == nil {
		return
	}
	delete(p.records, id)
	if len(r.needs)+len(r.deeds) > 0 {
		take(p.carriers, id.Namespace, id)
	}
	if len(r.waits) > 0 {
		take(p.awaiting, id.resource, id)
		for _, carried := range append([]object{id}, r.ids...) {
			delete(p.awaits, p.hash(carried))
		}
	}
	for _, ref := range r.refers {
		take(p.referrers[ref.rule], ref.target, id)
	}
	for account := range r.account {
		take(p.bindings, account, id.NamespacedName)
	}
	p.changed(id, r)
}

// changed notes what follows from a record that came or went.
func (p *Part) changed(id object, r *record) {
	if len(r.needs)+len(r.deeds)+len(r.account) > 0 {
		p.dirtyNeeds[id.Namespace] = true
	}
	if len(r.waits) > 0 {
		p.dirtyUses[id] = true
	}
	if len(r.ranges) > 0 {
		p.dirtyAll(id.resource) // what lies in its ranges may have lain in those of another
	}
	for _, ref := range r.refers {
		p.dirty(ref)
	}
}

// dirty notes that those that refer to an object have changed.
func (p *Part) dirty(ref reference) {
	if ref.target.Name == "" || ref.Within != "" {
		p.dirtyAll(ref.rule.target)
		return
	}
	p.dirtyUses[object{ref.rule.target, ref.target}] = true
}

func (p *Part) dirtyAll(resource string) {
	for id := range p.awaiting[resource] {
		p.dirtyUses[id] = true
	}
}

// Settle brings the document up to date with what arrived since the last time. It
// calls yield after each piece of work: meanwhile more may arrive.
func (p *Part) Settle(yield func()) {
	if p.allDirty {
		for namespace := range p.carriers {
			p.dirtyNeeds[namespace] = true
		}
		p.allDirty = false
	}
	for namespace := range p.dirtyNeeds {
		p.settleNeeds(namespace)
		delete(p.dirtyNeeds, namespace) // only now: what panics is not done
		yield()
	}
	for id := range p.dirtyUses {
		p.settleUse(id)
		delete(p.dirtyUses, id)
		yield()
	}
}

func put[K, V comparable](m map[K]map[V]bool, key K, value V) {
	if m[key] == nil {
		m[key] = map[V]bool{}
	}
	m[key][value] = true
}

func take[K, V comparable](m map[K]map[V]bool, key K, value V) {
	if delete(m[key], value); len(m[key]) == 0 {
		delete(m, key)
	}
}

// first are the first few of a set of names, in order.
func first(names map[string]bool, limit int) []any {
	var few []string
	for name := range names {
		at, _ := slices.BinarySearch(few, name)
		if at == limit {
			continue
		}
		few = slices.Insert(few, at, name)
		few = few[:min(limit, len(few))]
	}
	return facts.List(few)
}

// group is a set of names as a value of the document.
func group(names map[string]bool, limit int) map[string]any {
	return map[string]any{"count": len(names), "names": first(names, limit)}
}
