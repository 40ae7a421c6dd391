package ownership

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

type workload struct {
	kind, namespace, name string
	account               string // "namespace/name" of its service account
	images                []string
	releases              []string // image references with known bugs in some releases
	wanted, ready         int32
	refused               string                  // why its pods cannot be created, or ""
	outlook               string                  // namespaces, from outlookOf
	template              *corev1.PodTemplateSpec // for outlookOf, if it refers to settings
	goes                  bool
	owner                 owner
}

func (wl workload) String() string { return wl.kind + " " + wl.namespace + "/" + wl.name }

func (wl workload) resource() string { return strings.ToLower(wl.kind) + "s.apps" }

// up reports whether a workload has a ready pod, and keeps it: the status of a scaled down or deleted one
// still counts terminating pods.
func (p *Part) up(wl workload) bool {
	return wl.ready > 0 && (wl.wanted > 0 || wl.kind == "DaemonSet") && !wl.goes && !p.goes(wl.namespace)
}

func (p *Part) keepDeployment(o *appsv1.Deployment) bool {
	refused := ""
	for _, c := range o.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			refused = facts.Shorten(c.Message, facts.MaxText)
			break
		}
	}
	return p.keepWorkload("Deployment", &o.ObjectMeta, o.Spec.Template, facts.Or(o.Spec.Replicas, 1), o.Status.ReadyReplicas, refused)
}

func (p *Part) keepStatefulSet(o *appsv1.StatefulSet) bool {
	return p.keepWorkload("StatefulSet", &o.ObjectMeta, o.Spec.Template, facts.Or(o.Spec.Replicas, 1), o.Status.ReadyReplicas, "")
}

func (p *Part) keepDaemonSet(o *appsv1.DaemonSet) bool {
	return p.keepWorkload("DaemonSet", &o.ObjectMeta, o.Spec.Template, o.Status.DesiredNumberScheduled, o.Status.NumberReady, "")
}

func (p *Part) keepWorkload(kind string, m *metav1.ObjectMeta, template corev1.PodTemplateSpec, wanted, ready int32, refused string) bool {
	key := kind + "/" + m.Namespace + "/" + m.Name
	now := workload{
		kind: kind, namespace: m.Namespace, name: m.Name, account: accountOf(m.Namespace, template.Spec), images: imagesOf(template.Spec), releases: p.releasesOf(template.Spec),
		wanted: wanted, ready: ready, refused: refused, goes: m.DeletionTimestamp != nil, owner: onlyOwner(m),
	}
	var asks []Setting
	if now.outlook, asks = outlookOf(m.Namespace, template, p.settings); len(asks) > 0 {
		now.template = &template
	}
	before, known := p.workloads[key]
	p.workloads[key] = now
	if !known || !slices.Equal(before.images, now.images) || before.account != now.account {
		p.acts++
	}
	if !known || !slices.Equal(before.images, now.images) {
		p.matches.note(key, now)
	}
	p.grantsDirty = p.grantsDirty || before.outlook != now.outlook || before.account != now.account && now.outlook != ""
	if !known || !slices.Equal(before.releases, now.releases) || before.wanted != wanted || (before.ready > 0) != (ready > 0) || before.account != now.account || before.refused != refused || before.goes != now.goes || before.owner != now.owner {
		p.dirty = true
	}
	return true
}

func (p *Part) forgetWorkload(kind string) func(types.NamespacedName) {
	return func(name types.NamespacedName) {
		key := kind + "/" + name.String()
		p.grantsDirty = p.grantsDirty || p.workloads[key].outlook != ""
		delete(p.workloads, key)
		p.acts++
		p.matches.forget(key)
		p.dirty = true
	}
}

// matches caches the workloads of catalog entries. It has its own lock: concurrent readers of the facts may
// look up an entry first.
type matches struct {
	mu      sync.Mutex
	byEntry map[string]*match
}

// match is an entry's workloads, by key. In matches, only writers of the facts change it.
type match struct {
	entry     catalog.Entry
	workloads map[string]struct{}
}

// The facts are locked for writing during note and forget.
func (m *matches) note(key string, wl workload) {
	for _, match := range m.byEntry {
		match.note(key, wl)
	}
}

func (m *matches) forget(key string) {
	for _, match := range m.byEntry {
		delete(match.workloads, key)
	}
}

// of returns the keys of an entry's workloads, in order. The facts are locked, at least for reading.
func (m *matches) of(entry catalog.Entry, workloads map[string]workload) []string {
	id := strings.Join(append([]string{entry.Finalizer, entry.Prefix, entry.Suffix, entry.Regex}, entry.On...), "\n")
	m.mu.Lock()
	found, known := m.byEntry[id]
	if !known {
		found = &match{entry: entry, workloads: map[string]struct{}{}}
		for key, wl := range workloads {
			found.note(key, wl)
		}
		m.byEntry[id] = found
	}
	m.mu.Unlock()
	return slices.Sorted(maps.Keys(found.workloads))
}

func (m *match) note(key string, wl workload) {
	delete(m.workloads, key)
	for _, known := range m.entry.Workloads {
		if known.Matches(wl.kind, wl.namespace, wl.name, wl.images) {
			m.workloads[key] = struct{}{}
		}
	}
}

// matching returns the catalog entry's workloads that are evidence, and lookalikes.
func (p *Part) matching(q *asked) (admitted, namesakes []workload) {
	for _, key := range p.matches.of(q.entry, p.workloads) {
		switch wl := p.workloads[key]; {
		case p.options.Manifests && q.doubts(wl) && !p.mayTake(subjectsOf(wl.account), q.verdictKey): // another project's, named after it
		case p.admits(q, wl.account):
			admitted = append(admitted, wl)
		default:
			namesakes = append(namesakes, wl)
		}
	}
	return admitted, namesakes
}

// runningPod is the kept part of a pod. There are many: pods of one workload in the same state share a value.
type runningPod struct {
	name string
	*facts.One[running]
}

// Named implements facts.Named.
func (r runningPod) Named() string { return r.name }

type running struct {
	account string // "namespace/name"
	images  string // their names, one per line
	names   string // other possible field managers: containers and commands, one per line
	failing string // proof that it will not become ready by itself, or ""
	ready   bool
	stopped bool
	goes    bool
	crashed int64 // last start of a pod that keeps crashing, in Unix time
}

func (r running) imageNames() []string { return strings.Split(r.images, "\n") }

func (r running) calls(manager string) bool {
	return manager != "" && (slices.Contains(r.imageNames(), manager) || slices.Contains(strings.Split(r.names, "\n"), manager))
}

type account struct {
	namespace string
	exists    bool
	pods      facts.Directory[runningPod]
}

func (p *Part) account(name string) *account {
	a, found := p.accounts[name]
	if !found {
		a = &account{namespace: facts.NamespaceOf(name)}
		p.accounts[name] = a
	}
	return a
}

func (p *Part) dropAccount(name string) {
	if a := p.accounts[name]; a != nil && !a.exists && a.pods.Empty() {
		delete(p.accounts, name)
	}
	p.dirty = true
}

// KeepPod keeps a pod, unless it has finished.
func (p *Part) KeepPod(pod *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if facts.Finished(pod) {
		p.ForgetPod(key)
		return true
	}
	images := imagesOf(pod.Spec)
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
		if len(c.Command) > 0 {
			names = append(names, path.Base(c.Command[0]))
		}
	}
	now := running{
		account: accountOf(pod.Namespace, pod.Spec), images: strings.Join(images, "\n"), names: strings.Join(names, "\n"),
		failing: facts.Failing(pod),
		ready:   facts.Ready(pod),
		stopped: facts.Stopped(pod),
		goes:    pod.DeletionTimestamp != nil,
		crashed: facts.Crashed(pod),
	}
	if known := p.running.At(key); known != nil && known.Value == now && !slices.ContainsFunc(images, isSidecar) {
		return true // as most updates
	}
	p.ForgetPod(key)
	kept := runningPod{key.Name, p.alike.Take(now)}
	p.running.Put(key.Namespace, kept)
	p.keepSidecar(key, pod, now, images)
	p.account(now.account).pods.Put(kept)
	if now.crashed != 0 {
		p.crashing[key] = true
	}
	p.countImages(now, 1)
	p.dirty = true
	return true
}

func (p *Part) countImages(of running, by int) {
	if !of.ready || of.goes {
		return
	}
	for _, image := range of.imageNames() {
		if p.readyImages[image] == nil {
			p.readyImages[image] = facts.Counts[string]{}
		}
		if p.readyImages[image].Add(of.account, by); len(p.readyImages[image]) == 0 {
			delete(p.readyImages, image)
		}
	}
}

// ForgetPod undoes KeepPod.
func (p *Part) ForgetPod(key types.NamespacedName) {
	gone := p.running.At(key)
	if gone == nil {
		return
	}
	of := gone.Value
	p.alike.Drop(gone.One)
	p.running.Delete(key)
	delete(p.sidecars, key)
	delete(p.crashing, key)
	p.account(of.account).pods.Delete(key.Name)
	p.dropAccount(of.account)
	p.countImages(of, -1)
}

func (p *Part) serves(namespace string, r running) bool {
	return r.ready && !r.goes && !p.goes(namespace)
}

// readyImage counts the serving pods with an image that are evidence.
func (p *Part) readyImage(q *asked, image string) (n int) {
	for account, ready := range p.readyImages[image] {
		if !p.goes(facts.NamespaceOf(account)) && p.admits(q, account) {
			n += ready
		}
	}
	return n
}

// goes reports whether a namespace is Terminating: its content is deleted, whatever blocks the namespace itself.
func (p *Part) goes(namespace string) bool { return p.leaving[types.NamespacedName{Name: namespace}] }

// KeepServiceAccount records that a service account exists.
func (p *Part) KeepServiceAccount(o *corev1.ServiceAccount) bool {
	p.account(o.Namespace + "/" + o.Name).exists = true
	p.dirty = true
	return true
}

// ForgetServiceAccount undoes KeepServiceAccount.
func (p *Part) ForgetServiceAccount(key types.NamespacedName) {
	p.account(key.String()).exists = false
	p.dropAccount(key.String())
}

func accountOf(namespace string, spec corev1.PodSpec) string {
	return namespace + "/" + cmp.Or(spec.ServiceAccountName, "default")
}

// imagesOf returns the last path elements of image repositories, which identify software in any registry.
func imagesOf(spec corev1.PodSpec) []string {
	var images []string
	for _, c := range spec.Containers {
		images = append(images, facts.ImageName(c.Image))
	}
	return images
}
