// Package ownership tells who removes finalizers: of each, one verdict with its
// evidence, shared by all objects that it holds for.
package ownership

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

// Options of a Part. All are needed, but Owners.
type Options struct {
	// Catalog of known finalizers.
	Catalog *catalog.Catalog
	// Owners declares who removes a finalizer, by finalizer:
	// "KIND/NAMESPACE/NAME" of a workload, or "external".
	Owners map[string]string
	// Trusts tells whether annotations count on the objects of a namespace; a
	// Namespace is in itself. Defaults to always.
	Trusts func(namespace string) bool
	// Manifests says that the objects are manifests: what they do not hold is unknown.
	Manifests bool
	// MaxNames bounds the names that the facts hold of a group of objects.
	MaxNames int
	// Now tells the time.
	Now func() time.Time
	// Sight is what can be seen.
	Sight *facts.Sight
	// Dependents are told of objects with finalizers that hold up their owner.
	Dependents *dependents.Part
	// Touched is told of namespaces in which objects of a resource get or lose
	// finalizers; "" stands for cluster-scoped ones.
	Touched func(resource, namespace string)
}

// Part is the part of the facts that tells it. Whoever calls its methods makes
// sure that nobody else does; those that say so only read, and may be called by
// several at once.
type Part struct {
	options Options
	doc     facts.Document
	groups  facts.Groups
	// cleaners are the images that the catalog knows to remove finalizers: made once, by the
	// first that asks.
	cleaners func() map[string]bool

	held     map[string]*holdings // objects with finalizers, by "plural.group"
	verdicts map[verdictKey]*verdict
	grouped  map[string]int // groups of objects with finalizers, by namespace
	declared map[string]int // of them, those of objects that declare who removes them

	ending      map[kindHeld]map[*bucket]bool // buckets with objects that are being deleted
	endingDirty map[*bucket]bool
	endings     []Ending // that nobody asked about yet

	workloads   map[string]workload // by "Kind/namespace/name"
	settings    map[Setting]string  // values of those that workloads ask for
	links       map[string]links    // to owners, by "plural.group"
	ownerOf     map[types.UID]owner // the same
	matches     matches
	readyImages map[string]map[string]int     // ready pods by image name and service account
	crashing    map[types.NamespacedName]bool // pods that crash again and again
	leaving     map[string]bool               // namespaces that are being deleted
	accounts    map[string]*account           // service accounts, by "namespace/name"
	running     facts.Directories[runningPod]
	alike       facts.Shared[running]
	sidecars    map[types.NamespacedName]sidecar
	roles       map[string][]grant  // by "namespace/name", "" for cluster roles
	powers      map[string][]grant  // by the same: what owners do with other objects
	tells       map[string][]string // by the same: what tells of others, and they let write
	writers     map[string][]string // subjects that may write that, by "what/namespace", in that namespace alone
	apart       map[string]bool     // namespaces in which bindings give service accounts what grantees do not show
	bindings    map[string]binding  // by "namespace/name", "" for cluster role bindings
	// grantees are those who may update a resource, by "plural.group" and the
	// namespace in which they may, "" for everywhere.
	grantees    map[string]map[string][]grantee
	narrow      map[string]bool            // service accounts of workloads that are told which namespaces to watch
	bound       map[string][]string        // keys of bindings, by service account or group of users
	clouds      map[string]bool            // nodes that a cloud provider runs
	drivers     map[string]bool            // CSI drivers that are installed
	registered  map[string][]string        // CSI drivers, by the node that they are registered on
	definitions map[string]definition      // by "plural.group"
	kinds       map[string]string          // the resources of definitions, by "kind.group" in lower case
	defining    map[string]int             // definitions by API group
	makers      map[string]map[string]bool // names of custom objects without a namespace, by "plural.group"
	learned     learned.Memory
	local       map[learned.Lesson]bool        // that count in one namespace only
	leases      map[string]lease               // that are held, by "namespace/name"
	tasks       map[string]map[task]controller // what Jobs and RoleBindings were made for, by namespace
	affected    map[string]bool                // images of which releases have known faults
	version     string                         // of the API server
	freshLeases []string                       // those of them whose holder is up

	dirty, grantsDirty bool
	acts               int // as Acts has it
}

// New returns a Part that has seen nothing and writes into doc.
func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"finalized", "finalizers", "spread", "removers", "terminating", "durations"} {
		doc[section] = map[string]any{}
	}
	p := &Part{
		options: options, doc: doc, groups: facts.NewGroups(doc, options.MaxNames),
		held: map[string]*holdings{}, grouped: map[string]int{}, declared: map[string]int{}, verdicts: map[verdictKey]*verdict{},
		ending: map[kindHeld]map[*bucket]bool{}, endingDirty: map[*bucket]bool{},
		workloads: map[string]workload{}, links: map[string]links{}, ownerOf: map[types.UID]owner{}, matches: matches{byEntry: map[string]*match{}}, readyImages: map[string]map[string]int{}, crashing: map[types.NamespacedName]bool{}, leaving: map[string]bool{},
		accounts: map[string]*account{}, running: facts.Directories[runningPod]{}, alike: facts.NewShared[running](), sidecars: map[types.NamespacedName]sidecar{},
		roles: map[string][]grant{}, powers: map[string][]grant{}, tells: map[string][]string{}, bindings: map[string]binding{}, grantees: map[string]map[string][]grantee{}, bound: map[string][]string{},
		clouds: map[string]bool{}, drivers: map[string]bool{}, registered: map[string][]string{}, definitions: map[string]definition{}, kinds: map[string]string{}, defining: map[string]int{}, makers: map[string]map[string]bool{},
		leases: map[string]lease{}, tasks: map[string]map[task]controller{}, affected: options.Catalog.Affected(),
		cleaners: sync.OnceValue(func() map[string]bool { return cleanersOf(options.Catalog) }),
	}
	doc["controllers"], doc["tasks"] = p.controllers(), p.tasked()
	return p
}

// Unsettle has everything settled anew, the next time.
func (p *Part) Unsettle() { p.dirty, p.grantsDirty = true, true }

// SetVersion takes in the version of the API server, as in gitVersion.
func (p *Part) SetVersion(git string) {
	if p.version != git {
		p.version, p.dirty = git, true
	}
}

// Resight notes that what can be seen has changed.
func (p *Part) Resight() { p.dirty = true }

// SetLearned replaces what is known of who removes which finalizers. The memory
// must not be changed any more.
func (p *Part) SetLearned(m learned.Memory) {
	p.learned = m
	p.dirty = true
	durations := facts.Document{}
	for on, byNamespace := range m.Durations() {
		for namespace, d := range byNamespace {
			durations.Put(d.Facts(), on.Finalizer, on.Resource, namespace)
		}
	}
	p.doc["durations"] = map[string]any(durations)
	if local := m.Local(); !maps.Equal(local, p.local) {
		p.local, p.grantsDirty = local, true
	}
}

// Learned are those who were seen to remove a finalizer, and count in a
// namespace. It only reads.
func (p *Part) Learned(finalizer, resource, namespace string) []learned.Owner {
	return p.learned.Owners(finalizer, resource, namespace)
}

// RunsPods tells whether pods run under a service account, given as
// "namespace/name". It only reads.
func (p *Part) RunsPods(account string) bool {
	a := p.accounts[account]
	return a != nil && !a.pods.Empty()
}

// KeepNode takes in whether a cloud provider runs a node.
func (p *Part) KeepNode(o *corev1.Node) bool {
	if cloud, had := inCloud(o.Spec.ProviderID), p.clouds[o.Name]; cloud != had {
		delete(p.clouds, o.Name)
		if cloud {
			p.clouds[o.Name] = true
		}
		p.dirty = true
	}
	return true
}

// ForgetNode undoes KeepNode.
func (p *Part) ForgetNode(key types.NamespacedName) {
	delete(p.clouds, key.Name)
	p.dirty = true
}

// trusts tells whether the annotations of an object count.
func (p *Part) trusts(resource string, m metav1.Object) bool {
	namespace := m.GetNamespace()
	if resource == "namespaces" {
		namespace = m.GetName()
	}
	return p.options.Trusts == nil || p.options.Trusts(namespace)
}

// Ownership tells who removes the finalizers of an object: the verdict of each, by
// its name. recorded is asked first, for what is known without judging; it
// returns nil where it knows nothing. It only reads.
func (p *Part) Ownership(obj metav1.Object, res schema.GroupResource, specFinalizers []string, recorded func(finalizer, resource, evidence string) any) map[string]any {
	verdicts := map[string]any{}
	finalizers := p.evidenceOf(res.String(), obj, specFinalizers)
	if obj.GetUID() == "" {
		if known := p.holding(res.String(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}); known != nil {
			finalizers = known.finalizers
		}
	}
	for _, told := range finalizers {
		finalizer, evidence := told.finalizer, told.evidence
		key := p.verdictKey(finalizer, res.String(), obj.GetNamespace(), evidence)
		if known, found := p.verdicts[key]; found {
			verdicts[finalizer] = known.facts
		} else if known := recorded(key.finalizer, key.resource, key.evidence); known != nil {
			verdicts[finalizer] = known
		} else {
			verdicts[finalizer] = p.judge(key, evidence).facts()
		}
	}
	return verdicts
}

// Declares tells whether objects in a namespace declare who removes their
// finalizers. It only reads.
func (p *Part) Declares(namespace string) bool { return p.declared[namespace] > 0 }

// Undeclared is the document as it would be if no object in a namespace did. It
// only reads.
func (p *Part) Undeclared(doc map[string]any, namespace string) map[string]any {
	finalized, _ := doc["finalized"].(map[string]any)
	in, _ := finalized[namespace].(map[string]any)
	for _, v := range p.verdicts {
		b := v.buckets[namespace]
		if v.evidence.declared == "" || b == nil {
			continue
		}
		plain := v.evidence
		plain.declared = ""
		group := maps.Clone(b.Facts())
		group["ownership"] = p.judge(p.verdictKey(v.key.finalizer, v.key.resource, namespace, plain), plain).facts()
		in = replaced(in, group, b.path[2:]...)
	}
	return replaced(doc, in, "finalized", namespace)
}

// replaced is a copy of a document with another value at a path; it shares the rest.
func replaced(doc map[string]any, value any, path ...string) map[string]any {
	doc = maps.Clone(doc)
	if len(path) > 1 {
		below, _ := doc[path[0]].(map[string]any)
		value = replaced(below, value, path[1:]...)
	}
	doc[path[0]] = value
	return doc
}

// Holds tells whether an object has finalizers. It only reads.
func (p *Part) Holds(resource string, key types.NamespacedName) bool {
	return p.holding(resource, key) != nil
}
