package cluster

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
)

// This file keeps what is needed to tell who runs: workloads, pods under their
// service accounts, and who may update what.

// workload is a Deployment, StatefulSet or DaemonSet.
type workload struct {
	kind, namespace, name string
	account               string // "namespace/name" of its service account
	images                []string
	wanted, ready         int32
	refused               string // why no pod of it can be created, "" where it can
}

func (wl workload) String() string { return wl.kind + " " + wl.namespace + "/" + wl.name }

func (w *World) keepWorkload(kind string, m *metav1.ObjectMeta, template corev1.PodSpec, wanted, ready int32, refused string) {
	key := kind + "/" + m.Namespace + "/" + m.Name
	now := workload{kind: kind, namespace: m.Namespace, name: m.Name, account: accountOf(m.Namespace, template), images: imagesOf(template), wanted: wanted, ready: ready, refused: refused}
	before, known := w.workloads[key]
	w.workloads[key] = now
	if !known || !slices.Equal(before.images, now.images) {
		w.matches.note(key, now)
	}
	if !known || before.wanted != wanted || (before.ready > 0) != (ready > 0) || before.account != now.account || before.refused != refused {
		w.ownersDirty = true
	}
}

func (w *World) forgetWorkload(kind, name string) {
	key := kind + "/" + name
	delete(w.workloads, key)
	w.matches.forget(key)
	w.ownersDirty = true
}

// matches remembers which workloads each catalog entry means. An entry is
// looked up when it is asked about for the first time, which may be by several
// who only read the facts: it has a lock of its own for that.
type matches struct {
	mu      sync.Mutex
	byEntry map[string]*match
}

// match is the set of workloads that a catalog entry means, by key. Once it is
// among the matches, only who may write the facts changes it.
type match struct {
	entry     catalog.Entry
	workloads map[string]struct{}
}

// note takes in a workload that is new or has changed, and forget one that is
// gone. The facts are locked for writing.
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

// of returns the keys of the workloads that a catalog entry means, in order.
// The facts are locked, for reading at least.
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

// matching returns the workloads that a catalog entry means, in order.
func (w *World) matching(entry catalog.Entry) []workload {
	var found []workload
	for _, key := range w.matches.of(entry, w.workloads) {
		found = append(found, w.workloads[key])
	}
	return found
}

// runningPod is what ownership reads of a pod.
type runningPod struct {
	account string
	ready   bool
	failing string   // proof that it will not become ready by itself, "" where there is none
	goes    bool     // it is being deleted
	names   []string // what a field manager may call it: containers, images, commands, its workload
	images  []string
	owner   types.UID // whose foreground deletion waits for it, "" if none
}

// account is a service account and the pods that run under it.
type account struct {
	exists bool
	pods   map[string]struct{}
}

func (w *World) account(name string) *account {
	a, found := w.accounts[name]
	if !found {
		a = &account{pods: map[string]struct{}{}}
		w.accounts[name] = a
	}
	return a
}

func (w *World) dropAccount(name string) {
	if a := w.accounts[name]; a != nil && !a.exists && len(a.pods) == 0 {
		delete(w.accounts, name)
	}
	w.ownersDirty = true
}

func (w *World) runPod(key types.NamespacedName, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	p := runningPod{
		account: accountOf(pod.Namespace, pod.Spec),
		failing: failing(pod),
		goes:    pod.DeletionTimestamp != nil,
		images:  imagesOf(pod.Spec),
		owner:   blockingOwner(pod),
	}
	for _, c := range pod.Status.Conditions {
		p.ready = p.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	p.names = slices.Clone(p.images)
	for _, c := range pod.Spec.Containers {
		p.names = append(p.names, c.Name)
		if len(c.Command) > 0 {
			p.names = append(p.names, path.Base(c.Command[0]))
		}
	}
	w.running[key.String()] = p
	w.keepSidecar(key, pod, p)
	w.account(p.account).pods[key.String()] = struct{}{}
	if p.ready {
		for _, image := range p.images {
			w.readyImages[image]++
		}
	}
	w.ownersDirty = true
}

func (w *World) stopPod(key types.NamespacedName) {
	p, found := w.running[key.String()]
	if !found {
		return
	}
	delete(w.running, key.String())
	delete(w.storage.sidecars, key)
	delete(w.account(p.account).pods, key.String())
	w.dropAccount(p.account)
	if p.ready {
		for _, image := range p.images {
			if w.readyImages[image]--; w.readyImages[image] <= 0 {
				delete(w.readyImages, image)
			}
		}
	}
}

// stuckReasons are the waiting reasons that do not pass by themselves
// (k8s.io/kubernetes, pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime).
var stuckReasons = map[string]bool{
	"CrashLoopBackOff": true, "ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true,
	"ErrImageNeverPull": true, "CreateContainerConfigError": true, "CreateContainerError": true,
}

// oftenCrashed is how often a container must have crashed before that counts as
// not passing by itself: one that loses its lease crashes, too.
const oftenCrashed = 3

// failing is the proof that a pod will not become ready by itself.
func failing(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting == nil || !stuckReasons[waiting.Reason] || waiting.Reason == "CrashLoopBackOff" && c.RestartCount < oftenCrashed {
			continue
		}
		return waiting.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	if pod.Status.Reason == "NodeLost" {
		return pod.Status.Reason
	}
	return ""
}

func accountOf(namespace string, spec corev1.PodSpec) string {
	return namespace + "/" + cmp.Or(spec.ServiceAccountName, "default")
}

// imagesOf are the last path elements of a pod's image repositories: they name
// the software whatever registry it comes from.
func imagesOf(spec corev1.PodSpec) []string {
	var images []string
	for _, c := range spec.Containers {
		images = append(images, imageName(c.Image))
	}
	return images
}

// imageName is the last path element of an image reference, without tag and
// digest.
func imageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name
}

// grant is the permission to update a resource.
type grant struct {
	resource    string // "plural.group" or "*.group"; "*" for the group where wide
	subresource string
	// wide is set where holding it says nothing about who controls the resource.
	wide bool
}

// covers tells whether a grant is about a resource.
func (g grant) covers(res string) bool {
	plural, group, _ := strings.Cut(res, ".")
	granted, in, _ := strings.Cut(g.resource, ".")
	return (granted == "*" || granted == plural) && (in == "*" || in == group)
}

// binding gives a role to service accounts.
type binding struct {
	role     string // as the key of World.roles
	scope    string // the namespace it holds in; "" everywhere
	accounts []string
	groups   []string // of users
}

// grantee is a service account that may update a resource.
type grantee struct {
	account string
	scope   string
	// controls is set where it may also write the resource's status or
	// finalizers subresource, as its controller does and a mere user does not.
	controls bool
}

// builtinRoles grant so much to so many that holding them says nothing about
// who controls a resource
// (k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
var builtinRoles = map[string]bool{"/cluster-admin": true, "/admin": true, "/edit": true, "/view": true}

func (w *World) keepRole(name string, labels map[string]string, rules []rbacv1.PolicyRule) {
	w.grantsDirty = true
	builtin := builtinRoles[name] || labels["kubernetes.io/bootstrapping"] == "rbac-defaults"
	var grants []grant
	for _, rule := range rules {
		if !slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "update" || v == "patch" || v == "*" }) {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, res := range rule.Resources {
				plural, sub, _ := strings.Cut(res, "/")
				// A wildcard over groups, or over all of the core group, is a
				// cluster-admin in other words.
				wide := builtin || group == "*" || (plural == "*" && group == "") || (sub != "" && sub != "status" && sub != "finalizers" && sub != "*")
				gr := schema.GroupResource{Group: group, Resource: plural}.String()
				if plural == "*" && sub == "" || sub == "*" {
					grants = append(grants, grant{resource: gr, wide: wide}, grant{resource: gr, subresource: "status", wide: wide})
					continue
				}
				grants = append(grants, grant{resource: gr, subresource: sub, wide: wide})
			}
		}
	}
	w.roles[name] = grants
}

func (w *World) keepBinding(namespace, name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	b := binding{role: "/" + ref.Name, scope: namespace}
	if ref.Kind == "Role" {
		b.role = namespace + "/" + ref.Name
	}
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			b.accounts = append(b.accounts, cmp.Or(s.Namespace, namespace)+"/"+s.Name)
		case rbacv1.UserKind:
			if account, ok := strings.CutPrefix(s.Name, "system:serviceaccount:"); ok {
				b.accounts = append(b.accounts, strings.Replace(account, ":", "/", 1))
			}
		case rbacv1.GroupKind:
			b.groups = append(b.groups, s.Name)
		}
	}
	w.bindings[namespace+"/"+name] = b
	w.grantsDirty = true
}

// indexGrants works out who may update what.
func (w *World) indexGrants() {
	type holder struct{ account, scope string }
	type rights struct{ main, controls bool }
	index := map[string]map[holder]rights{}
	w.bound = map[string][]string{}
	for name, b := range w.bindings {
		for _, subject := range slices.Concat(b.accounts, b.groups) {
			w.bound[subject] = append(w.bound[subject], name)
		}
		for _, g := range w.roles[b.role] {
			if g.wide {
				continue
			}
			if index[g.resource] == nil {
				index[g.resource] = map[holder]rights{}
			}
			for _, account := range b.accounts {
				h := holder{account, b.scope}
				r := index[g.resource][h]
				r.main = r.main || g.subresource == ""
				r.controls = r.controls || g.subresource != ""
				index[g.resource][h] = r
			}
		}
	}
	w.grantees = map[string][]grantee{}
	for res, holders := range index {
		for h, r := range holders {
			if r.main {
				w.grantees[res] = append(w.grantees[res], grantee{account: h.account, scope: h.scope, controls: r.controls})
			}
		}
		slices.SortFunc(w.grantees[res], func(a, b grantee) int {
			return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.scope, b.scope))
		})
	}
}

// mayUpdate are the service accounts that hold a grant of their own to update a
// resource in a namespace.
func (w *World) mayUpdate(res, namespace string) []grantee {
	var found []grantee
	for _, g := range slices.Concat(w.grantees[res], w.grantees["*"+res[len(plural(res)):]]) {
		if g.scope == "" || g.scope == namespace {
			found = append(found, g)
		}
	}
	return found
}

// scope is the namespace where it matters to who may update a resource there,
// else "".
func (w *World) scope(res, namespace string) string {
	for _, g := range slices.Concat(w.grantees[res], w.grantees["*"+res[len(plural(res)):]]) {
		if g.scope != "" && g.scope == namespace {
			return namespace
		}
	}
	return ""
}

func plural(res string) string {
	p, _, _ := strings.Cut(res, ".")
	return p
}
