package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/termguard/termguard/cluster/budgets"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
	"github.com/termguard/termguard/cluster/nodes"
	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/cluster/references"
	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

type Resource = facts.Resource

// Types of the document.
type (
	Verdict  = facts.Verdict
	Verdicts = facts.Verdicts
	Holding  = facts.Holding
	Pod      = facts.Pod
)

// States of a finalizer's owner.
const (
	Alive   = ownership.Alive   // it is up
	Unknown = ownership.Unknown // the cluster does not show it
	Unasked = ownership.Unasked // unknown without a cluster
)

const OwnerAnnotation = ownership.Annotation

// Options configure a World. The zero value works.
type Options struct {
	// Catalog of known finalizers; the built-in one by default.
	Catalog *catalog.Catalog
	// Owners declares owners by finalizer, as OwnerAnnotation does. They outweigh other evidence, except
	// about built-in finalizers.
	Owners map[string]string
	// Trusts reports whether annotations count on a namespace and its objects; always by default.
	Trusts func(namespace string) bool
	// Home is termguard's namespace; HomeNamespace by default.
	Home string
	// MaxNames bounds the names that the facts hold of a group; 5 by default.
	MaxNames int
	// Try verifies the certificates of all webhooks, whatever the question; nil for none. Set a dialing one only
	// if ClusterIPs are the cluster's own.
	Try Try
	// Progress is called by Collect for each finished resource, concurrently.
	Progress func(done, of int)
	// Arrived is called for each object, or its metadata if only that is read, concurrently.
	Arrived func(Resource, metav1.Object)
	// Now is time.Now by default.
	Now func() time.Time
	// Everywhere says that all namespaces are read for a question about one, as in a file.
	Everywhere bool

	// Manifests is set if the objects are manifests: everything else is unknown.
	Manifests *Manifests
}

// Manifests describe the target of manifests.
type Manifests struct {
	// Version is a gitVersion; "" for any.
	Version string
	// Others reports whether other manifests run a workload of the catalog; it may be nil.
	Others func(catalog.Workload) bool
	// Owner corrects the owner, "" if unknown, of a finalizer that nothing in the manifests removes; it may be nil.
	Owner func(finalizer, resource, owner string) string
}

func (o *Options) setDefaults() {
	if o.Catalog == nil {
		o.Catalog = catalog.Default()
	}
	if o.Home == "" {
		o.Home = HomeNamespace
	}
	if o.MaxNames == 0 {
		o.MaxNames = 5
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Arrived == nil {
		o.Arrived = func(Resource, metav1.Object) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// controller returns the service account in kube-system that removes a finalizer, or "".
func (o *Options) controller(finalizer string) string {
	entry, _ := o.Catalog.Lookup(finalizer, "")
	return entry.ServiceAccount
}

// World reduces objects to facts as they arrive, and only counts objects that no part needs. It is safe for
// concurrent use, and locks for all parts.
type World struct {
	options Options

	settling  sync.Mutex // taken before mu
	mu        factsLock
	doc       facts.Document
	inventory inventory
	below     *World  // a snapshot under manifests, or nil
	layered   *viewed // both as one document

	sight      *facts.Sight
	dependents *dependents.Part
	warnings   map[subject]map[string]warning // from Events
	ownership  *ownership.Part
	refusals   *refusals.Part
	nodes      *nodes.Part
	budgets    *budgets.Part
	references *references.Part
	keepers    map[string][]facts.Keeper // by resource

	within string
	// requested has the errors of objects requested by name.
	requested map[references.Thing]error
}

// sections is the document's least number: lint makes many, and a growing map takes twice as much.
const sections = 57

// NewWorld returns an empty World.
func NewWorld(options Options) *World {
	options.setDefaults()
	doc := make(facts.Document, sections)
	doc["apiVersion"], doc["kind"], doc["version"] = apiVersion, "Facts", map[string]any{}
	w := &World{options: options, doc: doc, inventory: newInventory(doc), sight: facts.NewSight(doc), dependents: dependents.New(doc, options.MaxNames)}
	manifests := options.Manifests != nil
	target := cmp.Or(options.Manifests, &Manifests{})
	w.refusals = refusals.New(doc, refusals.Options{Manifests: manifests, Now: w.now, Owner: options.controller, Sight: w.sight, Dropped: w.dropped})
	w.nodes = nodes.New(doc, nodes.Options{Manifests: manifests, MaxNames: options.MaxNames, Dropped: w.dropped, Dependents: w.dependents})
	w.budgets = budgets.New(doc, budgets.Options{Manifests: manifests, MaxNames: options.MaxNames, Sight: w.sight})
	w.ownership = ownership.New(doc, ownership.Options{
		Catalog: options.Catalog, Owners: options.Owners, Trusts: options.Trusts, Manifests: manifests, Others: target.Others, Owner: target.Owner, MaxNames: options.MaxNames, Now: w.now,
		Sight: w.sight, Dependents: w.dependents, Touched: w.refusals.Touch,
	})
	w.references = references.New(doc, references.Options{Catalog: options.Catalog, Manifests: manifests, MaxNames: options.MaxNames, World: named{w}})
	w.inventory.touched = w.refusals.Touch
	w.keepers = keepersOf(w.refusals, w.nodes, w.ownership, w.budgets)
	return w
}

// Options returns the options, with their defaults.
func (w *World) Options() Options { return w.options }

// Read calls f with the facts. f must not call the World, which could deadlock.
func (w *World) Read(f func(Facts)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	f(Facts{w, w.below, w.seen()})
}

// View is Read for policies. The document must be neither changed nor kept.
func (w *World) View(f func(doc map[string]any)) { w.Read(func(facts Facts) { f(facts.at.doc) }) }

// seen is for holders of the read lock.
func (w *World) seen() *viewed {
	if w.layered != nil {
		return w.layered
	}
	return w.mu.view(w.doc, w.now())
}

// Over fills the gaps in the facts of manifests with a snapshot's. Both must be final.
func (w *World) Over(snapshot *World) {
	snapshot.View(func(below map[string]any) {
		w.View(func(doc map[string]any) {
			w.below, w.layered = snapshot, &viewed{snapshot.now().Unix(), over(below, doc, 0)}
		})
	})
}

// over merges key by key; equal and single values are shared, not copied.
func over(below, above map[string]any, depth int) map[string]any {
	if len(above) == 0 {
		return below
	}
	merged := maps.Clone(below)
	for key, value := range above {
		value = made(value)
		inner, isMap := value.(map[string]any)
		under, wasMap := made(merged[key]).(map[string]any)
		switch {
		case isMap && wasMap && depth < 3:
			merged[key] = over(under, inner, depth+1)
		case isMap && len(inner) == 0 && wasMap, depth == 0 && key == "unseen", depth == 0 && key == "now":
		default:
			merged[key] = value
		}
	}
	return merged
}

// made returns a section as a map.
func made(value any) any {
	if section, is := value.(facts.Section); is {
		return section.All()
	}
	return value
}

// Reached waits until the facts can be read; an error means that their lock is held for too long.
func (w *World) Reached(ctx context.Context) error {
	const pause = 10 * time.Millisecond
	for !w.mu.TryRLock() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the facts cannot be read: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
	w.mu.RUnlock()
	return nil
}

// factsLock also holds the readers' view between changes.
type factsLock struct {
	sync.RWMutex
	last atomic.Pointer[viewed]
}

// viewed is the document in one second, in Unix time.
type viewed struct {
	at  int64
	doc map[string]any
}

func (l *factsLock) Lock() {
	l.RWMutex.Lock()
	l.last.Store(nil)
}

// view adds the time, which differs between readers, to a copy of the top level. The read lock is held.
func (l *factsLock) view(doc facts.Document, now time.Time) *viewed {
	if last := l.last.Load(); last != nil && last.at == now.Unix() {
		return last
	}
	v := &viewed{now.Unix(), maps.Clone(doc)}
	v.doc["now"] = now.UTC().Format(time.RFC3339)
	l.last.Store(v)
	return v
}

func (w *World) now() time.Time { return w.options.Now() }

// longestHold bounds how long settling holds the lock, apart from one piece of work: a review has 300 ms.
const longestHold = time.Millisecond

// Settle updates the facts that depend on several objects, and yields the lock in between.
func (w *World) Settle() {
	w.settling.Lock()
	defer w.settling.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	since := time.Now()
	w.settle(func() {
		if time.Since(since) > longestHold {
			w.mu.Unlock()
			w.mu.Lock() // after waiting readers
			since = time.Now()
		}
	})
}

// settle is Settle with the locks held; the facts may change whenever it calls yield.
func (w *World) settle(yield func()) {
	done := false
	defer func() {
		if !done { // it panicked: the state of the rest is unknown
			w.refusals.Unsettle()
			w.ownership.Unsettle()
		}
	}()
	w.refusals.Settle(contents{w}, yield)
	w.nodes.Settle(yield)
	w.ownership.Settle(yield)
	w.references.SetRights(w.ownership.Acts())
	w.references.Settle(yield)
	done = true
}

const (
	// settleInterval bounds the delay of a verdict behind its evidence, if settling is fast.
	settleInterval = 100 * time.Millisecond
	// settleShare bounds the share of time that settling takes.
	settleShare = 0.2
)

// KeepSettled settles repeatedly until ctx ends.
func (w *World) KeepSettled(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		w.Settle()
		took := time.Since(began)
		background.Pause(ctx, max(settleInterval, time.Duration(float64(took)/settleShare)-took))
	}
}

// contents implements refusals.Cluster.
type contents struct{ w *World }

func (c contents) Contents(namespace string) []refusals.Content {
	var list []refusals.Content
	for _, r := range c.w.inventory.sorted() {
		if n := r.counts[namespace]; n > 0 && r.Namespaced == (namespace != "") {
			held, finalizers := c.w.ownership.Held(r.String(), namespace)
			list = append(list, refusals.Content{Resource: r.Resource, Count: n, Held: held, Finalizers: finalizers})
		}
	}
	return list
}

func (c contents) Total(resource string) int { return c.w.inventory.total(resource) }

func (c contents) NeedsKubelet(namespace string) bool { return c.w.nodes.NeedsKubelet(namespace) }

// maxPodLabels bounds the work for one namespace.
const maxPodLabels = 100

// PodLabels returns none unless all pods run: others are not kept with their labels.
func (c contents) PodLabels(namespace string) []labels.Set {
	different, pods := c.w.budgets.Labels(namespace)
	if r := c.w.inventory.resources["pods"]; r == nil || r.counts[namespace] != pods || len(different) > maxPodLabels {
		return nil
	}
	return different
}

// named implements references.World.
type named struct{ w *World }

func (n named) Presence(resource string, key types.NamespacedName) references.Presence {
	r := n.w.inventory.resources[resource]
	if r == nil || !r.named {
		return references.Presence{}
	}
	if _, hidden := n.w.sight.Hidden(resource); hidden {
		return references.Presence{}
	}
	if r.kept.At(key) == nil {
		within := n.w.within == "" || !r.Namespaced || n.w.within == key.Namespace || n.w.readsWhole(r.Resource)
		err, ok := n.w.requested[references.Thing{Resource: resource, NamespacedName: key}]
		return references.Presence{Visible: (within || ok && err == nil) && n.w.options.Manifests == nil}
	}
	return references.Presence{Visible: true, Exists: true, Finalized: n.w.ownership.Holds(resource, key), Terminating: n.w.ownership.Leaving(resource, key)}
}

// Undefined reports whether a kind lacks a definition. A group with followed kinds but no definition may be
// another API server's.
func (n named) Undefined(kind schema.GroupKind) bool {
	if n.w.options.Manifests != nil || n.w.ownership.Resource(kind) != "" || slices.Contains(facts.BuiltinGroups(), kind.Group) {
		return false
	}
	if _, hidden := n.w.sight.Hidden(references.Definitions); hidden {
		return false
	}
	for resource, r := range n.w.inventory.resources {
		if r.Group == kind.Group && !n.w.ownership.Defined(resource) {
			return false
		}
	}
	return true
}

func (n named) Allows(finalizer, resource, namespace string, operation catalog.Operation, account string) (lets, ok bool, only []references.Thing) {
	on, actors := n.w.ownership.Resource(operation.Kind), []string{account}
	if account == "" {
		actors = n.w.ownership.Actors(finalizer, resource, namespace)
	}
	ok = on != "" && len(actors) > 0
	for _, actor := range actors {
		may, sure, by := n.w.ownership.Lets(actor, operation.Verb, on, operation.Namespace)
		lets, ok = lets || may, ok && sure
		for _, r := range by {
			only = append(only, references.Thing{Resource: r.Resource, NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}})
		}
	}
	if len(actors) > 1 {
		only = nil // without the right of one, another may have it
	}
	return lets, ok, only
}

// SetVersion records the API server's gitVersion, with its known bugs.
func (w *World) SetVersion(git string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownership.SetVersion(git)
	bugs := map[string]any{}
	for id, bug := range catalog.Bugs("kubernetes", git) {
		bugs[id] = bug.Facts()
	}
	// The namespace controller deletes pods first: the gate OrderedNamespaceDeletion is on from 1.33
	// (pkg/features/kube_features.go).
	podsFirst := catalog.AtLeast(git, 1, 33)
	w.refusals.SetPodsFirst(podsFirst)
	w.doc["version"] = map[string]any{
		"git": git, "bugs": bugs,
		"podsFirst": podsFirst,
		// Lists come from a cache of the whole resource, and are refused while it cannot be filled:
		// ConsistentListFromCache and ResilientWatchCacheInitialization are on from 1.31 (apiserver,
		// pkg/features/kube_features.go).
		"listsFromCache": catalog.AtLeast(git, 1, 31),
	}
}

// SetServed records the served API groups, and unreadable group versions ("v1beta1.metrics.k8s.io").
func (w *World) SetServed(groups []string, stale map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sight.Serve(groups)
	w.refusals.SetStale(stale)
	w.resight()
}

// Follow records the followed resources, which decide what more than metadata is read.
func (w *World) Follow(resources []Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	scopes := make(map[string]bool, len(resources))
	for _, res := range resources {
		scopes[res.String()] = res.Namespaced
	}
	w.references.Follow(scopes)
}

// Role reports whether objects are read whole, whether always from all namespaces, and in a role: objects read
// in a lower one must be read again.
func (w *World) Role(res Resource) (whole, everywhere bool, role int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	everywhere = w.readsWhole(res)
	return everywhere || w.references.ReadsFields(res.String()), everywhere, w.references.Role(res.String())
}

func (w *World) readsWhole(res Resource) bool {
	return Reduces(res) || w.references.ReadsWhole(res.String())
}

// WorksElsewhere reports whether workloads in a namespace may work in others.
func (w *World) WorksElsewhere(namespace string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.ownership.WorksElsewhere(namespace) || w.refusals.ConvertsFrom(namespace) || w.refusals.SeesUpdatesFrom(namespace)
}

// SetWithin sets the only namespace read of resources that matter only by metadata, "" for all.
func (w *World) SetWithin(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.within = namespace
}

func (w *World) resight() {
	w.refusals.UpdateVisibility()
	w.ownership.UpdateVisibility()
	w.references.UpdateVisibility()
}

// SetListError records why an aggregated API, or unconvertible objects, cannot be listed; "" undoes it.
func (w *World) SetListError(res Resource, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals.SetListError(res, message)
}

// SetUnseen records that a resource cannot be seen, until its next End.
func (w *World) SetUnseen(res Resource, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sight.Hide(res, reason, message)
	w.resight()
}

// Seen withdraws SetUnseen for a resource whose facts are complete.
func (w *World) Seen(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(res)
}

func (w *World) show(res Resource) {
	if _, hidden := w.sight.Hidden(res.String()); hidden {
		w.sight.Show(res)
		w.resight()
	}
}

// SetLearned replaces the memory, which must not be changed any more.
func (w *World) SetLearned(m learned.Memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownership.SetLearned(m)
	w.nodes.SetStops(m.Stops())
}

func (w *World) SetLeases(list []coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownership.SetLeases(list)
}

// Shows reports whether the facts know an object with exactly these finalizers; false for an unseen resource.
func (w *World) Shows(res schema.GroupResource, key types.NamespacedName, uid types.UID, finalizers []string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, hidden := w.sight.Hidden(res.String())
	return w.inventory.resources[res.String()] != nil && !hidden && w.ownership.Shows(res.String(), key, uid, finalizers)
}
