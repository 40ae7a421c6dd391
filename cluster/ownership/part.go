// Package ownership finds the owners of finalizers: one verdict with its evidence, shared by all its objects.
package ownership

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

// Options of a Part; cluster.Options and cluster.Manifests explain most. All but Owners, Trusts, Others and
// Owner are needed.
type Options struct {
	Catalog   *catalog.Catalog
	Owners    map[string]string
	Trusts    func(namespace string) bool
	Manifests bool
	Others    func(catalog.Workload) bool
	Owner     func(finalizer, resource, owner string) string
	MaxNames  int
	Now       func() time.Time
	Sight     *facts.Sight
	// Dependents receives the finalized objects that block their owner.
	Dependents *dependents.Part
	// Touched receives namespaces in which objects of a resource get or lose finalizers.
	Touched func(resource, namespace string)
}

// Part writes the owners into the facts. Callers serialize calls of Keep, Forget, Set…, Take…, Gone,
// Endings, Settle, Unsettle and UpdateVisibility; all other methods only read.
type Part struct {
	options  Options
	doc      facts.Document
	groups   facts.Groups
	cleaners func() map[string]bool

	held     map[place]*holdings
	verdicts map[verdictKey]*verdict
	grouped  facts.Sets[string, *bucket] // by namespace
	declared facts.Counts[string]        // groups that declare the owner

	ending      facts.Sets[kindHeld, *bucket] // with Terminating objects
	endingDirty map[kindHeld]bool
	endings     []Ending

	workloads   map[string]map[types.NamespacedName]workload // by kind
	settings    map[Setting]string
	links       rows[types.NamespacedName, link] // by resource
	ownerOf     map[types.UID]owner              // by UID
	matches     matches
	readyImages map[string]facts.Counts[string] // pods by image name and service account
	leaving     map[types.NamespacedName]bool   // Terminating namespaces
	accounts    map[types.NamespacedName]bool   // service accounts
	podsOf      facts.Directories[runningPod]   // by service account
	running     facts.Directories[runningPod]
	shared      facts.Shared[running]
	sidecars    map[types.NamespacedName]sidecar
	roles       map[types.NamespacedName]role
	bindings    map[types.NamespacedName]binding
	writers     map[string][]string // subjects that may write reports, by "what/namespace", in that namespace alone
	special     map[string]bool     // namespaces with bindings that give service accounts rights beyond grantees
	grantees    map[granted][]grantee
	narrow      map[string]bool                   // accounts of workloads that watch some namespaces
	bindingsOf  map[string][]types.NamespacedName // by service account or group of users
	clouds      map[types.NamespacedName]bool
	drivers     map[types.NamespacedName]bool
	registered  map[types.NamespacedName][]string // CSI drivers, by node
	definitions map[types.NamespacedName]definition
	kinds       map[string]string // resources, by "kind.group" in lower case
	learned     learned.Memory
	took        map[learned.FinalizerKey]map[string]learned.Durations // by namespace, as the memory has it
	local       map[learned.Scope]bool                                // that count in one namespace only
	leases      map[string]lease                                      // by "namespace/name"
	stopped     map[types.NamespacedName]types.NamespacedName         // pods that kubelets stopped, by Event
	tasks       rows[task, made]                                      // by namespace
	affected    map[string]bool                                       // images with known bugs in some releases
	version     string                                                // of the API server

	dirty, grantsDirty bool
	acts               int
}

func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"finalized", "finalizers", "spread", "removers", "terminating", "durations"} {
		doc[section] = map[string]any{}
	}
	p := &Part{
		options: options, doc: doc, groups: facts.NewGroups(doc, options.MaxNames),
		held: map[place]*holdings{}, grouped: facts.Sets[string, *bucket]{}, declared: facts.Counts[string]{}, verdicts: map[verdictKey]*verdict{},
		ending: facts.Sets[kindHeld, *bucket]{}, endingDirty: map[kindHeld]bool{},
		workloads: map[string]map[types.NamespacedName]workload{"Deployment": {}, "StatefulSet": {}, "DaemonSet": {}}, links: rows[types.NamespacedName, link]{}, ownerOf: map[types.UID]owner{}, matches: matches{byEntry: map[string]*match{}}, readyImages: map[string]facts.Counts[string]{}, leaving: map[types.NamespacedName]bool{},
		accounts: map[types.NamespacedName]bool{}, podsOf: facts.Directories[runningPod]{}, running: facts.Directories[runningPod]{}, shared: facts.NewShared[running](), sidecars: map[types.NamespacedName]sidecar{},
		roles: map[types.NamespacedName]role{}, bindings: map[types.NamespacedName]binding{}, grantees: map[granted][]grantee{},
		clouds: map[types.NamespacedName]bool{}, drivers: map[types.NamespacedName]bool{}, registered: map[types.NamespacedName][]string{}, definitions: map[types.NamespacedName]definition{}, kinds: map[string]string{},
		leases: map[string]lease{}, stopped: map[types.NamespacedName]types.NamespacedName{}, tasks: rows[task, made]{}, affected: options.Catalog.Affected(),
		cleaners: sync.OnceValue(func() map[string]bool { return cleanersOf(options.Catalog) }),
	}
	doc["controllers"], doc["tasks"], doc["failing"] = p.controllers(), p.tasked(), p.failing()
	return p
}

func (p *Part) Keepers() []facts.Keeper {
	return append(p.workloadKeepers(),
		facts.Rows("namespaces", p.leaving, func(o *corev1.Namespace) (goes, kept bool) {
			return o.DeletionTimestamp != nil, o.DeletionTimestamp != nil
		}, mark[bool](&p.dirty)),
		facts.Rows("nodes", p.clouds, func(o *corev1.Node) (cloud, kept bool) {
			return inCloud(o.Spec.ProviderID), inCloud(o.Spec.ProviderID)
		}, mark[bool](&p.dirty)),
		facts.Keep("pods", p.keepPod, p.forgetPod),
		facts.Rows("pods", p.sidecars, sidecarOf, mark[sidecar](&p.dirty)),
		facts.Rows("events", p.stopped, p.stoppedBy, mark[types.NamespacedName](&p.dirty)),
		facts.Rows("serviceaccounts", p.accounts, func(*corev1.ServiceAccount) (exists, kept bool) { return true, true }, mark[bool](&p.dirty)),
		facts.Rows("roles"+rbacGroup, p.roles, func(o *rbacv1.Role) (role, bool) { return roleOf(o, o.Rules) }, mark[role](&p.grantsDirty)),
		facts.Rows("clusterroles"+rbacGroup, p.roles, func(o *rbacv1.ClusterRole) (role, bool) { return roleOf(o, o.Rules) }, mark[role](&p.grantsDirty)),
		facts.Rows("rolebindings"+rbacGroup, p.bindings, func(o *rbacv1.RoleBinding) (binding, bool) {
			return bindingOf(o.Namespace, o.RoleRef, o.Subjects)
		}, mark[binding](&p.grantsDirty)),
		facts.Rows("clusterrolebindings"+rbacGroup, p.bindings, func(o *rbacv1.ClusterRoleBinding) (binding, bool) {
			return bindingOf("", o.RoleRef, o.Subjects)
		}, mark[binding](&p.grantsDirty)),
		facts.Rows(definitions, p.definitions, definitionOf, p.definitionChanged),
		facts.Rows("csidrivers.storage.k8s.io", p.drivers, func(*storagev1.CSIDriver) (installed, kept bool) { return true, true }, mark[bool](&p.dirty)),
		facts.Rows("csinodes.storage.k8s.io", p.registered, registeredOn, mark[[]string](&p.dirty)),
	)
}

func mark[R any](dirty *bool) func(types.NamespacedName, R, R) {
	return func(types.NamespacedName, R, R) { *dirty = true }
}

func (p *Part) Unsettle() { p.dirty, p.grantsDirty = true, true }

func (p *Part) SetVersion(git string) {
	if p.version != git {
		p.version, p.dirty = git, true
	}
}

func (p *Part) UpdateVisibility() { p.dirty = true }

func (p *Part) SetLearned(m learned.Memory) {
	p.learned = m
	p.dirty = true
	p.took = m.Durations()
	durations := facts.Document{}
	for on, byNamespace := range p.took {
		for namespace, d := range byNamespace {
			durations.Put(d.Facts(), on.Finalizer, on.Resource, namespace)
		}
	}
	p.doc["durations"] = map[string]any(durations)
	if local := m.Local(); !maps.Equal(local, p.local) {
		p.local, p.grantsDirty = local, true
	}
}

func (p *Part) Took(finalizer, resource, namespace string) (d learned.Durations, seen bool) {
	took := p.took[learned.FinalizerKey{Finalizer: finalizer, Resource: resource}]
	if d, seen = took[namespace]; !seen {
		d, seen = took[""]
	}
	return d, seen
}

// Learned returns the identities seen to remove a finalizer that count in a namespace.
func (p *Part) Learned(finalizer, resource, namespace string) []learned.Owner {
	return p.learned.Owners(finalizer, resource, namespace)
}

// RunsPods reports whether pods run under a service account.
func (p *Part) RunsPods(account string) bool { return p.podsOf[account] != nil }

func (p *Part) trusts(resource string, m metav1.Object) bool {
	namespace := m.GetNamespace()
	if resource == "namespaces" {
		namespace = m.GetName()
	}
	return p.options.Trusts == nil || p.options.Trusts(namespace)
}

// Ownership returns the verdicts on an object, by finalizer.
func (p *Part) Ownership(obj metav1.Object, res schema.GroupResource, specFinalizers []string) map[string]any {
	verdicts := map[string]any{}
	finalizers := p.evidenceOf(res.String(), obj, specFinalizers)
	if obj.GetUID() == "" {
		if holding := p.holding(res.String(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}); holding != nil {
			finalizers = holding.finalizers
		}
	}
	for _, e := range finalizers {
		key := p.verdictKey(res.String(), obj.GetNamespace(), e)
		if verdict, ok := p.verdicts[key]; ok {
			verdicts[e.finalizer] = verdict.facts
		} else {
			verdicts[e.finalizer] = p.judge(key, e).facts()
		}
	}
	return verdicts
}

func (p *Part) Declares(namespace string) bool { return p.declared[namespace] > 0 }

// Undeclared returns the document without a namespace's declarations.
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
		group["ownership"] = p.judge(p.verdictKey(v.key.resource, namespace, plain), plain).facts()
		in = replaced(in, group, b.path[2:]...)
	}
	return replaced(doc, in, "finalized", namespace)
}

// replaced returns a copy of a document, which shares the rest.
func replaced(doc map[string]any, value any, path ...string) map[string]any {
	doc = maps.Clone(doc)
	if len(path) > 1 {
		below, _ := doc[path[0]].(map[string]any)
		value = replaced(below, value, path[1:]...)
	}
	doc[path[0]] = value
	return doc
}
