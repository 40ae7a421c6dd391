package cluster

import (
	"iter"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/learned"
)

// Options configure a World. The zero value works.
type Options struct {
	// Catalog of known finalizers. Defaults to the one in the binary.
	Catalog *catalog.Catalog
	// Owners declares who removes a finalizer, by finalizer:
	// "KIND/NAMESPACE/NAME" of a workload, or "external". Declarations
	// outweigh everything else that is known about a finalizer.
	Owners map[string]string
	// MaxNames bounds the names that the facts hold of a group of objects,
	// whatever its size. Defaults to 5: enough to point at.
	MaxNames int
	// Dial reaches Services, to see whether the certificates behind webhooks fit.
	// Defaults to nil: they are not tried. To be set only where ClusterIPs are the
	// cluster's own.
	Dial Dial
	// Progress is called by Collect for each resource that it is done with, from
	// several goroutines. Defaults to nothing.
	Progress func(done, of int)
	// Now tells the time. Defaults to time.Now.
	Now func() time.Time

	manifests bool // the objects are manifests: what they do not hold is unknown
	// further are those of FromManifests.
	further iter.Seq[*unstructured.Unstructured]
}

func (o *Options) furtherContains(matches func(*unstructured.Unstructured) bool) bool {
	for obj := range o.further {
		if matches(obj) {
			return true
		}
	}
	return false
}

func (o *Options) setDefaults() {
	if o.further == nil {
		o.further = func(func(*unstructured.Unstructured) bool) {}
	}
	if o.Catalog == nil {
		o.Catalog = catalog.Default()
	}
	if o.MaxNames == 0 {
		o.MaxNames = 5
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// World reduces objects to the facts document as they arrive. What it keeps of
// an object without finalizers that no policy reads is a count. It is safe for
// concurrent use.
type World struct {
	options Options

	mu  sync.RWMutex
	doc map[string]any

	resources   map[string]*resource                    // by "plural.group"
	unseen      map[string]unseen                       // by "plural.group"; what cannot be seen, and why
	groups      map[string]bool                         // API groups that are served
	stale       map[string]bool                         // APIServices whose group our own discovery cannot read
	interned    map[string]any                          // strings that recur, boxed once
	backends    map[string]*backend                     // Services that something refers to, by "namespace/name"
	services    map[string]service                      // by "namespace/name"
	slices      map[string]slice                        // EndpointSlices, by "namespace/name"
	templates   map[string]map[string]map[string]string // labels of the pods of workloads, by namespace and "resource/name"
	matches     matches
	readyImages map[string]int        // ready pods by image name
	workloads   map[string]workload   // by "Kind/namespace/name"
	accounts    map[string]*account   // service accounts, by "namespace/name"
	running     map[string]runningPod // pods, by "namespace/name"
	roles       map[string][]grant    // by "namespace/name", "" for cluster roles
	bindings    map[string]binding    // by "namespace/name", "" for cluster role bindings
	grantees    map[string][]grantee  // who may update a resource, by "plural.group"
	bound       map[string][]string   // keys of bindings, by service account or group of users
	verdicts    map[verdictKey]*verdict
	clouds      map[string]bool // nodes that a cloud provider runs
	snapshot    bool            // read from a file: the document is all there is

	indexed         map[string]*group                   // groups of names, by path in the document
	podPaths        map[types.NamespacedName][][]string // the groups that a pod is in
	links           map[types.UID]*link                 // objects that block the deletion of their owner
	hooks           map[string]*hook                    // webhooks that refuse when their backend is down, as keyed in the facts
	guards          map[string]*guard                   // ValidatingAdmissionPolicies, by name
	policyBindings  map[string]*policyBinding           // ValidatingAdmissionPolicyBindings that deny, by name
	namespaceLabels map[string]map[string]string        // by namespace
	touched         map[string]bool                     // namespaces whose contents changed since the last Settle
	left            map[types.NamespacedName]leaving    // pods that their kubelet has to finish with
	leaving         map[leavingGroup]map[types.NamespacedName]leaving
	leavingDirty    map[leavingGroup]bool // since the last Settle
	placed          map[string]int        // pods that need their node to go, by node
	placedDirty     map[string]bool       // since the last Settle
	nodesSeen       bool                  // at the last Settle
	symptoms        symptoms
	troubles        troubles           // with webhooks, as others were told
	trials          map[endpoint]trial // handshakes with their backends
	storage         storage
	learned         learned.Memory
	leases          map[string]lease          // that are held, by "namespace/name"
	freshLeases     []string                  // those of them whose holder is up
	converted       map[string]map[string]any // definitions with a conversion webhook, by name
	converters      map[string]endpoint       // of them, where a Service is called
	listErrors      map[string]string         // of custom resources, by "plural.group"

	ownersDirty, grantsDirty, hooksDirty, conversionsDirty bool
}

// NewWorld returns a World that has seen nothing.
func NewWorld(options Options) *World {
	options.setDefaults()
	w := &World{
		options:         options,
		doc:             map[string]any{"apiVersion": "termguard.dev/v1", "kind": "Facts"},
		resources:       map[string]*resource{},
		unseen:          map[string]unseen{},
		groups:          map[string]bool{},
		stale:           map[string]bool{},
		interned:        map[string]any{},
		backends:        map[string]*backend{},
		services:        map[string]service{},
		slices:          map[string]slice{},
		templates:       map[string]map[string]map[string]string{},
		matches:         matches{byEntry: map[string]*match{}},
		readyImages:     map[string]int{},
		workloads:       map[string]workload{},
		accounts:        map[string]*account{},
		running:         map[string]runningPod{},
		roles:           map[string][]grant{},
		bindings:        map[string]binding{},
		grantees:        map[string][]grantee{},
		verdicts:        map[verdictKey]*verdict{},
		clouds:          map[string]bool{},
		hooks:           map[string]*hook{},
		links:           map[types.UID]*link{},
		guards:          map[string]*guard{},
		policyBindings:  map[string]*policyBinding{},
		namespaceLabels: map[string]map[string]string{},
		indexed:         map[string]*group{},
		podPaths:        map[types.NamespacedName][][]string{},
		touched:         map[string]bool{},
		left:            map[types.NamespacedName]leaving{},
		leaving:         map[leavingGroup]map[types.NamespacedName]leaving{},
		leavingDirty:    map[leavingGroup]bool{},
		placed:          map[string]int{},
		placedDirty:     map[string]bool{},
		symptoms:        newSymptoms(),
		troubles:        troubles{},
		trials:          map[endpoint]trial{},
		storage:         newStorage(),
		converted:       map[string]map[string]any{},
		converters:      map[string]endpoint{},
		listErrors:      map[string]string{},
	}
	for _, key := range []string{
		"apiservices", "webhooks", "admissionpolicies", "crds", "namespaces", "finalized", "finalizers", "counts",
		"pods", "podsByNode", "podsByGrace", "nodes", "notReady", "daemonsets", "csidrivers", "storage", "owners", "spread", "version", "blocked", "selfBlocked", "denied", "removers",
		"leaving", "symptoms", "hazards", "csinodes", "driverless", "buggy", "registrars", "gone", "unconverted",
	} {
		w.doc[key] = map[string]any{}
	}
	w.doc["unseen"] = []any{}
	return w
}

// View calls f with the facts, which stand still until f returns. The document
// must be neither changed nor kept.
func (w *World) View(f func(doc map[string]any)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	doc := maps.Clone(w.doc) // only the top level: the time differs between readers
	doc["now"] = w.now().UTC().Format(time.RFC3339)
	f(doc)
}

// now is the time of the facts: of a live cluster, the present.
func (w *World) now() time.Time {
	if text, fixed := w.doc["now"].(string); fixed {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return w.options.Now()
}

// Ownership tells who removes the finalizers of one object, whether or not it
// is part of the inventory: the verdict of each finalizer, by its name. For a
// namespace, specFinalizers are those of spec.finalizers. An object without a UID is
// only named, as by an eviction: what it tells itself is what the inventory has.
func (w *World) Ownership(obj metav1.Object, res schema.GroupResource, specFinalizers []string) map[string]any {
	w.mu.RLock()
	defer w.mu.RUnlock()
	verdicts := map[string]any{}
	told := finalizersOf(obj, specFinalizers)
	if r := w.resources[res.String()]; obj.GetUID() == "" && r != nil {
		if known, held := r.held[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}]; held {
			told = known.evidence
		}
	}
	for finalizer, evidence := range told {
		key := w.verdictKey(finalizer, res.String(), obj.GetNamespace(), evidence)
		if known := w.recorded(key); known != nil {
			verdicts[finalizer] = known
			continue
		}
		verdicts[finalizer] = w.judge(key, evidence)
	}
	return verdicts
}

// recorded is the verdict that the facts hold already: of objects with the very
// same evidence, or, in a snapshot, which knows no more than its document, of
// the same finalizer on the same resource.
func (w *World) recorded(key verdictKey) any {
	if known, found := w.verdicts[key]; found {
		return known.facts
	}
	if !w.snapshot {
		return nil
	}
	byEvidence, _ := lookup(w.doc, "finalizers", key.finalizer, key.resource).(map[string]any)
	if known, found := byEvidence[key.evidence]; found {
		return known
	}
	if len(byEvidence) == 1 {
		for _, known := range byEvidence {
			return known
		}
	}
	return nil
}

// SetVersion records the API server's version, as in gitVersion, with the known
// bugs that it has.
func (w *World) SetVersion(git string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bugs := map[string]any{}
	for id, bug := range catalog.Bugs("kubernetes", git) {
		bugs[id] = map[string]any{"affected": bug.Affected, "fixedIn": bug.FixedIn, "symptom": bug.Symptom, "source": bug.Source}
	}
	w.doc["version"] = map[string]any{"git": git, "bugs": bugs, "podsFirst": podsFirst(git), "listsFromCache": listsFromCache(git)}
}

// podsFirst tells whether the namespace controller of a version deletes pods
// before anything else: the gate OrderedNamespaceDeletion is on from 1.33
// (pkg/features/kube_features.go).
func podsFirst(git string) bool {
	v, err := version.ParseGeneric(git)
	return err != nil || v.AtLeast(version.MajorMinor(1, 33))
}

// intern boxes a string that many records share, once.
func (w *World) intern(s string) any {
	if boxed, found := w.interned[s]; found {
		return boxed
	}
	boxed := any(s)
	w.interned[s] = boxed
	return boxed
}

// lookup follows path into nested maps; nil where it leads nowhere.
func lookup(doc map[string]any, path ...string) any {
	var node any = doc
	for _, key := range path {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[key]
	}
	return node
}

// child returns the map at path below doc and creates what is missing.
func child(doc map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := doc[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			doc[key] = next
		}
		doc = next
	}
	return doc
}

// prune deletes the entry at path and the maps above it that it leaves empty,
// up to but not including the first, which is a section of the document.
func prune(doc map[string]any, path ...string) {
	below, ok := doc[path[0]].(map[string]any)
	if !ok {
		return
	}
	if len(path) == 2 {
		delete(below, path[1])
		return
	}
	prune(below, path[1:]...)
	if inner, ok := below[path[1]].(map[string]any); ok && len(inner) == 0 {
		delete(below, path[1])
	}
}
