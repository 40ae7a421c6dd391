package ownership

import (
	"cmp"
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
	replicas, ready       int32
	refused               string                  // why its pods cannot be created, or ""
	outlook               string                  // namespaces, from outlookOf
	template              *corev1.PodTemplateSpec // for outlookOf, if it refers to settings
	terminating           bool
	owner                 owner
}

func (wl workload) String() string { return wl.kind + " " + wl.namespace + "/" + wl.name }

func (wl workload) resource() string { return strings.ToLower(wl.kind) + "s.apps" }

// up reports whether a workload has a ready pod, and keeps it: the status of a scaled down or deleted one
// still counts terminating pods.
func (p *Part) up(wl workload) bool {
	return wl.ready > 0 && (wl.replicas > 0 || wl.kind == "DaemonSet") && !wl.terminating && !p.terminates(wl.namespace)
}

func (p *Part) workloadKeepers() []facts.Keeper {
	return []facts.Keeper{
		facts.Rows("deployments.apps", p.workloads["Deployment"], func(o *appsv1.Deployment) (workload, bool) {
			wl := p.workloadOf("Deployment", o, &o.Spec.Template, facts.Or(o.Spec.Replicas, 1), o.Status.ReadyReplicas)
			for _, c := range o.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
					wl.refused = facts.Shorten(c.Message, facts.MaxText)
				}
			}
			return wl, true
		}, p.workloadChanged),
		facts.Rows("statefulsets.apps", p.workloads["StatefulSet"], func(o *appsv1.StatefulSet) (workload, bool) {
			return p.workloadOf("StatefulSet", o, &o.Spec.Template, facts.Or(o.Spec.Replicas, 1), o.Status.ReadyReplicas), true
		}, p.workloadChanged),
		facts.Rows("daemonsets.apps", p.workloads["DaemonSet"], func(o *appsv1.DaemonSet) (workload, bool) {
			return p.workloadOf("DaemonSet", o, &o.Spec.Template, o.Status.DesiredNumberScheduled, o.Status.NumberReady), true
		}, p.workloadChanged),
	}
}

func (p *Part) workloadOf(kind string, m metav1.Object, template *corev1.PodTemplateSpec, replicas, ready int32) workload {
	wl := workload{
		kind: kind, namespace: m.GetNamespace(), name: m.GetName(), account: accountOf(m.GetNamespace(), template.Spec), images: imagesOf(template.Spec), releases: p.releasesOf(template.Spec),
		replicas: replicas, ready: ready, terminating: m.GetDeletionTimestamp() != nil, owner: onlyOwner(m),
	}
	var settings []Setting
	if wl.outlook, settings = outlookOf(wl.namespace, *template, p.settings); len(settings) > 0 {
		wl.template = template
	}
	return wl
}

func (p *Part) workloadChanged(_ types.NamespacedName, before, now workload) {
	moved := before.account != now.account
	p.dirty = true
	p.grantsDirty = p.grantsDirty || before.outlook != now.outlook || moved && now.outlook != ""
	if moved || !slices.Equal(before.images, now.images) {
		p.acts++
	}
	for _, match := range p.matches.byEntry { // the facts are locked for writing
		match.note(before, now)
	}
}

// workloadsWhere sorts by kind, namespace and name.
func (p *Part) workloadsWhere(is func(workload) bool) []workload {
	var list []workload
	for _, ofKind := range p.workloads {
		for _, wl := range ofKind {
			if is(wl) {
				list = append(list, wl)
			}
		}
	}
	slices.SortFunc(list, func(a, b workload) int { return strings.Compare(a.String(), b.String()) })
	return list
}

func (p *Part) workloadsUnder(account string) []workload {
	return p.workloadsWhere(func(wl workload) bool { return wl.replicas > 0 && wl.account == account })
}

// matches has its own lock: concurrent readers of the facts may look up an entry first.
type matches struct {
	mu      sync.Mutex
	byEntry map[string]*match
}

// match is an entry's workloads, by String. In matches, only writers of the facts change it.
type match struct {
	entry     catalog.Entry
	workloads map[string]workload
}

// of is called with the facts locked, at least for reading.
func (m *matches) of(entry catalog.Entry, all func(func(workload) bool) []workload) []workload {
	id := strings.Join(append([]string{entry.Finalizer, entry.Prefix, entry.Suffix, entry.Regex}, entry.On...), "\n")
	m.mu.Lock()
	cached, hit := m.byEntry[id]
	if !hit {
		cached = &match{entry: entry, workloads: map[string]workload{}}
		all(func(wl workload) bool {
			cached.note(workload{}, wl)
			return false
		})
		m.byEntry[id] = cached
	}
	m.mu.Unlock()
	return slices.Collect(inOrder(cached.workloads))
}

func (m *match) note(before, now workload) {
	delete(m.workloads, before.String())
	if slices.ContainsFunc(m.entry.Workloads, func(w catalog.Workload) bool { return w.Matches(now.kind, now.namespace, now.name, now.images) }) {
		m.workloads[now.String()] = now
	}
}

func (p *Part) matching(q *question) (admitted, namesakes []workload) {
	for _, wl := range p.matches.of(q.entry, p.workloadsWhere) {
		switch {
		case p.options.Manifests && q.doubts(wl) && !p.mayRemove(subjectsOf(wl.account), q.verdictKey): // another project's, named after it
		case p.admits(q, wl.account):
			admitted = append(admitted, wl)
		default:
			namesakes = append(namesakes, wl)
		}
	}
	return admitted, namesakes
}

// runningPod shares its value with pods of one workload in the same state: there are many.
type runningPod struct {
	name string
	*facts.One[running]
}

func (r runningPod) Named() string { return r.name }

type running struct {
	account     string // "namespace/name"
	images      string // their names, one per line
	names       string // other possible field managers: containers and commands, one per line
	failing     string // proof that it will not become ready by itself, or ""
	ready       bool
	stopped     bool
	terminating bool
	// crashed is its last start after a crash, and often if it keeps crashing, in Unix time.
	crashed, often int64
}

func (r running) imageNames() []string { return strings.Split(r.images, "\n") }

func (r running) calls(manager string) bool {
	return manager != "" && (slices.Contains(r.imageNames(), manager) || slices.Contains(strings.Split(r.names, "\n"), manager))
}

func (p *Part) keepPod(pod *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if facts.Finished(pod) {
		p.forgetPod(key)
		return true
	}
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
		if len(c.Command) > 0 {
			names = append(names, path.Base(c.Command[0]))
		}
	}
	now := running{
		account: accountOf(pod.Namespace, pod.Spec), images: strings.Join(imagesOf(pod.Spec), "\n"), names: strings.Join(names, "\n"),
		failing:     facts.Failing(pod),
		ready:       facts.Ready(pod),
		stopped:     facts.Stopped(pod),
		terminating: pod.DeletionTimestamp != nil,
	}
	now.crashed, now.often = facts.Crashed(pod)
	if before := p.running.At(key); before != nil && before.Value == now {
		return true // as most updates
	}
	p.forgetPod(key)
	kept := runningPod{key.Name, p.shared.Take(now)}
	p.running.Put(key.Namespace, kept)
	p.podsOf.Put(now.account, kept)
	p.countImages(now, 1)
	p.dirty = true
	return true
}

func (p *Part) countImages(of running, by int) {
	if !of.ready || of.terminating {
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

func (p *Part) forgetPod(key types.NamespacedName) {
	gone := p.running.At(key)
	if gone == nil {
		return
	}
	of := gone.Value
	p.shared.Drop(gone.One)
	p.running.Delete(key)
	p.podsOf.Delete(types.NamespacedName{Namespace: of.account, Name: key.Name})
	p.countImages(of, -1)
	p.dirty = true
}

func (p *Part) serves(namespace string, r running) bool {
	return r.ready && !r.terminating && !p.terminates(namespace)
}

func (p *Part) readyImage(q *question, image string) (n int) {
	for account, ready := range p.readyImages[image] {
		if !p.terminates(facts.NamespaceOf(account)) && p.admits(q, account) {
			n += ready
		}
	}
	return n
}

// terminates reports whether a namespace is Terminating: its content is deleted, whatever blocks the namespace.
func (p *Part) terminates(namespace string) bool {
	return p.leaving[types.NamespacedName{Name: namespace}]
}

// exists reports whether a service account, "namespace/name", exists.
func (p *Part) exists(account string) bool {
	namespace, name, _ := strings.Cut(account, "/")
	return p.accounts[types.NamespacedName{Namespace: namespace, Name: name}]
}

func accountOf(namespace string, spec corev1.PodSpec) string {
	return namespace + "/" + cmp.Or(spec.ServiceAccountName, "default")
}

// imagesOf returns the last path elements of image repositories, which identify software in any registry.
func imagesOf(spec corev1.PodSpec) []string {
	var images []string
	for _, c := range spec.Containers {
		images = append(images, catalog.ImageName(c.Image))
	}
	return images
}
