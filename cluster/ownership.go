package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster/catalog"
)

// States of a finalizer's owner: what removes the finalizer.
const (
	Alive   = "alive"   // it is up
	Down    = "down"    // it is known and does not run
	Absent  = "absent"  // it is not installed
	Unknown = "unknown" // the cluster does not tell
	Unasked = "unasked" // only a cluster could tell, and there are just manifests
)

// verdictKey is what a verdict on ownership depends on.
type verdictKey struct {
	finalizer, resource string
	// evidence is the signature of what the objects themselves tell, with the
	// namespace where RBAC differs between namespaces.
	evidence  string
	namespace string
}

func (w *World) verdictKey(finalizer, res, namespace string, e evidence) verdictKey {
	key := verdictKey{finalizer: finalizer, resource: res, evidence: e.signature(), namespace: w.scope(res, namespace)}
	if key.namespace != "" {
		key.evidence = strings.TrimSpace(key.evidence + " namespace=" + key.namespace)
	}
	return key
}

// verdict says who removes a finalizer. Its facts are replaced, never changed:
// whoever holds them may go on reading.
type verdict struct {
	key      verdictKey
	evidence evidence
	facts    map[string]any
	buckets  map[string]*bucket // by namespace
	removers []remover          // on whom it rests, as the facts have it
}

func (w *World) verdictFor(key verdictKey, e evidence) *verdict {
	v, found := w.verdicts[key]
	if !found {
		v = &verdict{key: key, evidence: e, facts: w.judge(key, e), buckets: map[string]*bucket{}}
		w.verdicts[key] = v
		child(w.doc, "finalizers", key.finalizer, key.resource)[key.evidence] = v.facts
		w.keepRemovers(v, w.removersOf(v))
	}
	return v
}

// unjudge drops a bucket, and its verdict with the last of them.
func (w *World) unjudge(b *bucket) {
	v := b.verdict
	delete(v.buckets, b.path[1])
	if len(v.buckets) == 0 {
		w.keepRemovers(v, nil)
		delete(w.verdicts, v.key)
		prune(w.doc, "finalizers", v.key.finalizer, v.key.resource, v.key.evidence)
	}
}

// Settle brings every verdict on ownership up to date with what arrived since
// the last time. Until then, the facts hold the verdicts as they were.
func (w *World) Settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refreshOwnPods()
	w.refreshBlocked()
	w.refreshConversions()
	w.settleLeaving()
	w.settleGone()
	if w.grantsDirty {
		w.grantsDirty = false
		w.ownersDirty = true
		w.regrant()
	}
	if !w.ownersDirty {
		return
	}
	w.ownersDirty = false
	for _, v := range w.verdicts {
		facts := w.judge(v.key, v.evidence)
		if reflect.DeepEqual(facts, v.facts) {
			w.keepRemovers(v, w.removersOf(v)) // which depend on grants, too
			continue
		}
		v.facts = facts
		w.keepRemovers(v, w.removersOf(v))
		child(w.doc, "finalizers", v.key.finalizer, v.key.resource)[v.key.evidence] = facts
		for _, b := range v.buckets {
			b.facts["ownership"] = facts
		}
	}
}

// regrant works out anew who may update what, and moves the objects whose
// verdict now depends on their namespace, or no longer does.
func (w *World) regrant() {
	w.indexGrants()
	for _, r := range w.resources {
		for key, h := range r.held {
			if len(h.buckets) == 0 || h.buckets[0].verdict.key.namespace == w.scope(r.String(), key.Namespace) {
				continue
			}
			w.release(r, key)
			w.hang(r, key, &holding{generation: h.generation, evidence: h.evidence, owner: h.owner})
		}
	}
}

// judgement is a verdict in the making.
type judgement struct {
	state    string
	certain  bool // of absent and down: it will not remove the finalizer, rather than may not
	owner    string
	clears   string
	creates  string // what the owner must create beside the object for that
	evidence []string
	// workloads are those that run what removes the finalizer, as far as known.
	workloads []workload
	// circumstantial is set where nothing but permissions ties the owner to the
	// finalizer: any other source outweighs it.
	circumstantial bool
	// idle are those that would, and are scaled to zero.
	idle []workload
}

func (j judgement) facts() map[string]any {
	certainty := "may"
	if j.certain {
		certainty = "will"
	}
	facts := map[string]any{"state": j.state, "certainty": certainty, "owner": j.owner, "clears": j.clears, "evidence": anys(j.evidence)}
	for key, list := range map[string][]workload{"workloads": j.workloads, "idle": j.idle} {
		if len(list) > 0 {
			workloads := make([]any, len(list))
			for i, wl := range list {
				workloads[i] = map[string]any{"resource": strings.ToLower(wl.kind) + "s.apps", "namespace": wl.namespace, "name": wl.name}
			}
			facts[key] = workloads
		}
	}
	if j.state == Alive && j.creates != "" {
		facts["creates"] = j.creates
	}
	if len(j.workloads) > 0 {
		facts["accounts"] = accountsOf(j.workloads)
	}
	return facts
}

// judge tells who removes a finalizer, from what is known now. Strongest first:
// what is declared, what runs in the control plane, who was seen to remove it,
// the workloads that the catalog names, the field manager that wrote the
// finalizer, who may update the resource, leases, and which API groups are
// served.
func (w *World) judge(key verdictKey, e evidence) map[string]any {
	return w.judgement(key, e).facts()
}

func (w *World) judgement(key verdictKey, e evidence) judgement {
	entry, catalogued := w.options.Catalog.Lookup(key.finalizer, key.resource)
	j := judgement{owner: entry.Owner, clears: entry.Clears, creates: entry.Creates}
	declared := w.options.Owners[key.finalizer]
	if declared == "" {
		declared = e.declared
	}
	if declared != "" {
		return w.judgeDeclared(j, declared)
	}
	if catalogued && builtIn(entry) {
		return j.is(Alive, true, "it is built into the %s", entry.Component)
	}
	seen := w.witness(key)
	if seen.alive != "" {
		j.owner, j.workloads = cmp.Or(j.owner, seen.owner), w.workloadsUnder(seen.account)
		return j.is(Alive, true, "%s", seen.alive)
	}
	return w.weigh(seen, j, w.surmise(key, e, entry, catalogued, seen.gone != "", j))
}

// surmise tells who removes a finalizer that nobody who is still there was seen
// to remove. Where its owner usually runs outside the cluster, that it was seen
// in this one, wasHere, tells that here it did not.
func (w *World) surmise(key verdictKey, e evidence, entry catalog.Entry, catalogued, wasHere bool, j judgement) judgement {
	found := w.matching(entry)
	for _, wl := range found {
		if wl.ready > 0 {
			j.workloads = []workload{wl}
			return j.is(Alive, true, "%s has %d ready %s", wl, wl.ready, pods(wl.ready))
		}
	}
	for _, known := range entry.Workloads {
		if e.driver != "" && isSidecar(known.Image) && !w.options.manifests {
			if j, decided := w.judgeSidecar(j, known.Image, e.driver); decided {
				return j
			}
			continue
		}
		if n := w.readyImages[known.Image]; known.Image != "" && n > 0 {
			j.workloads = w.workloadsWhere(func(wl workload) bool { return slices.Contains(wl.images, known.Image) })
			return j.is(Alive, true, "%d ready %s of image %s", n, pods(n), known.Image)
		}
	}

	candidates := w.mayUpdate(key.resource, key.namespace)
	var live, idle []grantee
	for _, c := range candidates {
		a := w.accounts[c.account]
		switch {
		case a == nil:
		case w.readyUnder(a) != "":
			live = append(live, c)
		case a.exists && c.controls:
			idle = append(idle, c)
		}
	}
	for _, c := range live {
		if manager := w.managed(c, e.managers); manager != "" {
			j.workloads = w.workloadsUnder(c.account)
			return j.is(Alive, true, "field manager %q wrote the finalizer, and pod %s runs under service account %s, which may update %s",
				manager, w.readyUnder(w.accounts[c.account]), c.account, key.resource)
		}
	}
	custom := w.custom(key.resource)
	if custom {
		var controllers []string
		for _, c := range live {
			if c.controls && !slices.Contains(controllers, c.account) {
				controllers = append(controllers, c.account)
			}
		}
		// Whoever controls the kind clears its own finalizers, not those that
		// another's software has put on it.
		if len(controllers) == 1 && !(catalogued && entry.Foreign(key.resource)) {
			if j.owner == "" {
				j.owner = "controller under service account " + controllers[0]
			}
			j.workloads, j.circumstantial = w.workloadsUnder(controllers[0]), true
			return j.is(Alive, true, "service account %s may update %s and its status, and pod %s is ready under it",
				controllers[0], key.resource, w.readyUnder(w.accounts[controllers[0]]))
		}
	}

	if custom && len(found) == 0 && !(catalogued && entry.Foreign(key.resource)) {
		_, group, _ := strings.Cut(key.resource, ".")
		if l, up := w.leader(group); up {
			j.circumstantial = true
			j.owner = cmp.Or(j.owner, "holder of lease "+l.String())
			return j.is(Alive, true, "lease %s, named after API group %s, is held by %s, who renews it", l, group, l.holder)
		}
	}

	if w.options.manifests {
		return w.judgeManifests(j, found, live, key.resource, key.finalizer)
	}
	if blind := w.blind(); blind != "" {
		return j.is(Unknown, false, "%s cannot be seen", blind)
	}
	if len(found) > 0 {
		return w.judgeDown(j, found)
	}
	if len(live) > 0 && (custom || !catalogued) {
		j.circumstantial = true
		return j.is(Unknown, false, "%s may update %s: whether one of them removes the finalizer, the cluster does not tell", accounts(live), key.resource)
	}
	if catalogued && entry.CRDGroup != "" && !w.served(entry.CRDGroup) {
		return j.is(Absent, true, "API group %s, which it needs, is not served", entry.CRDGroup)
	}
	for _, owner := range e.owners {
		if _, group, named := strings.Cut(owner, "."); named && !w.served(group) {
			return j.is(Absent, true, "the object is owned by a %s, and API group %s is not served", owner, group)
		}
	}
	if custom && len(idle) > 0 {
		if j.owner == "" {
			j.owner = "controller under service account " + idle[0].account
		}
		return w.judgeIdle(j, idle[0].account)
	}
	switch {
	case !catalogued:
		return j.is(Absent, false, "the catalog does not know it, and no controller that may update %s runs", key.resource)
	case entry.Component == "cloud-controller-manager" && len(w.clouds) == 0:
		return j.is(Absent, true, "no cloud controller runs in the cluster, and no node has a provider ID: there is no cloud provider")
	case entry.Component != "in-cluster" && !wasHere:
		return j.is(Unknown, false, "it usually runs outside the cluster, which the cluster does not show")
	case len(entry.Workloads) == 0:
		return j.is(Absent, false, "no controller that may update %s runs", key.resource)
	}
	return j.is(Absent, true, "no workload of it exists: looked for %s", wanted(entry))
}

// builtIn tells whether Kubernetes itself removes a finalizer.
func builtIn(entry catalog.Entry) bool {
	return entry.Component == "kube-controller-manager" || entry.Component == "kube-apiserver"
}

func (j judgement) is(state string, certain bool, format string, args ...any) judgement {
	j.state, j.certain = state, certain
	j.evidence = append(j.evidence, fmt.Sprintf(format, args...))
	return j
}

// judgeDeclared judges by what an annotation or the configuration declares:
// "KIND/NAMESPACE/NAME" or "external".
func (w *World) judgeDeclared(j judgement, declared string) judgement {
	if declared == "external" {
		j.owner = "external controller"
		return j.is(Alive, true, "it is declared to run outside the cluster")
	}
	parts := strings.Split(declared, "/")
	if len(parts) != 3 {
		return j.is(Unknown, false, "it is declared to belong to %q, which is not KIND/NAMESPACE/NAME", declared)
	}
	for _, key := range slices.Sorted(maps.Keys(w.workloads)) {
		wl := w.workloads[key]
		if !strings.EqualFold(wl.kind, parts[0]) || wl.namespace != parts[1] || wl.name != parts[2] {
			continue
		}
		j.owner = wl.String()
		if wl.ready > 0 {
			return j.is(Alive, true, "declared owner %s has %d ready %s", wl, wl.ready, pods(wl.ready))
		}
		return w.judgeDown(j, []workload{wl})
	}
	if blind := w.blind(); blind != "" {
		return j.is(Unknown, false, "%s cannot be seen", blind)
	}
	j.owner = declared
	return j.is(Absent, true, "declared owner %s does not exist", declared)
}

// judgeDown judges workloads of which none has a ready pod: for good where
// there is proof, else only for now.
func (w *World) judgeDown(j judgement, found []workload) judgement {
	certain := true
	for _, wl := range found {
		proof, sure := w.whyDown(wl)
		certain = certain && sure
		j.evidence = append(j.evidence, wl.String()+" "+proof)
		if wl.wanted == 0 && wl.kind != "DaemonSet" { // which cannot be scaled
			j.idle = append(j.idle, wl)
		}
	}
	j.state, j.certain = Down, certain
	return j
}

// judgeManifests judges what nothing in a set of manifests surely removes.
func (w *World) judgeManifests(j judgement, found []workload, live []grantee, resource, finalizer string) judgement {
	switch {
	case len(found) > 0:
		j = w.judgeDown(j, found)
		j.certain = false // a person may scale it up again
		return j
	case len(live) > 0:
		return j.is(Alive, false, "%s may update %s", accounts(live), resource)
	}
	if j.owner == "" {
		j.owner = controllerOf(resource, finalizer)
	}
	return j.is(Unasked, false, "the manifests hold nothing that removes it: only a cluster tells whether it runs there")
}

func (w *World) judgeIdle(j judgement, name string) judgement {
	proof, sure := w.whyIdle(name)
	for _, key := range slices.Sorted(maps.Keys(w.workloads)) {
		if wl := w.workloads[key]; wl.account == name && wl.wanted == 0 && wl.kind != "DaemonSet" {
			j.idle = append(j.idle, wl)
		}
	}
	return j.is(Down, sure, "service account %s may update it and its status, and %s", name, proof)
}

// workloadsUnder are the workloads that run under a service account.
func (w *World) workloadsUnder(account string) []workload {
	return w.workloadsWhere(func(wl workload) bool { return wl.account == account })
}

func (w *World) workloadsWhere(is func(workload) bool) []workload {
	var found []workload
	for _, key := range slices.Sorted(maps.Keys(w.workloads)) {
		if wl := w.workloads[key]; wl.wanted > 0 && is(wl) {
			found = append(found, wl)
		}
	}
	return found
}

// whyIdle is whyDown of a service account, whatever should run under it.
func (w *World) whyIdle(account string) (proof string, sure bool) {
	if wanted := w.workloadsUnder(account); len(wanted) > 0 {
		return w.whyDown(wanted[0])
	}
	return w.whyDown(workload{account: account, wanted: 1, refused: "no workload runs under it"})
}

// whyDown tells why nothing is ready under the service account of a workload,
// and whether there is proof that this does not pass by itself: it is scaled to
// zero, no pod of it can be created, or each of its pods fails for a reason that
// stays.
func (w *World) whyDown(wl workload) (proof string, sure bool) {
	if wl.wanted == 0 {
		return "is scaled to zero", true
	}
	a := w.accounts[wl.account]
	switch {
	case a != nil && len(a.pods) > 0:
	case wl.refused != "":
		return "has no pod: " + wl.refused, true
	default:
		return "has no pod at the moment", false // as between two pods of a Deployment that is rolled out
	}
	for _, pod := range slices.Sorted(maps.Keys(a.pods)) {
		p := w.running[pod]
		switch {
		case p.goes:
		case w.leading(pod) != "":
			return "has no ready pod, but " + w.leading(pod), false
		case p.failing == "":
			return "has no ready pod at the moment", false
		case proof == "":
			proof = fmt.Sprintf("has no ready pod: pod %s is in %s", pod, p.failing)
		}
	}
	if proof == "" {
		return "has no ready pod at the moment: its pods are being deleted", false
	}
	return proof, true
}

// readyUnder is one ready pod that runs under a service account, "" if none.
func (w *World) readyUnder(a *account) string {
	var first string
	for pod := range a.pods {
		if p := w.running[pod]; p.ready && !p.goes && (first == "" || pod < first) {
			first = pod
		}
	}
	return first
}

// managed is the field manager among those given that names a ready pod of a
// grantee: its container, image or command.
func (w *World) managed(g grantee, managers []string) string {
	for pod := range w.accounts[g.account].pods {
		p := w.running[pod]
		if !p.ready || p.goes {
			continue
		}
		for _, manager := range managers {
			if slices.Contains(p.names, manager) {
				return manager
			}
		}
	}
	return ""
}

// ownerInputs are the resources without which nobody can be called absent.
var ownerInputs = []string{
	"pods", "serviceaccounts", "deployments.apps", "statefulsets.apps", "daemonsets.apps",
	"roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io",
}

// blind is an input to ownership that cannot be seen, "" if there is none.
func (w *World) blind() string {
	for _, name := range ownerInputs {
		if u, found := w.unseen[name]; found {
			return name + " (" + u.reason + ")"
		}
	}
	return ""
}

// custom tells whether a resource is defined by a CustomResourceDefinition.
func (w *World) custom(res string) bool {
	return lookup(w.doc, "crds", res) != nil
}

// served tells whether an API group is served: it, or a group below it, for
// catalog entries that name a family ("azure.com").
func (w *World) served(group string) bool {
	if w.groups[group] {
		return true
	}
	for g := range w.groups {
		if strings.HasSuffix(g, "."+group) {
			return true
		}
	}
	return false
}

func wanted(entry catalog.Entry) string {
	var names []string
	for _, wl := range entry.Workloads {
		names = append(names, strings.TrimSpace(wl.Kind+" "+wl.Name))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func accounts(list []grantee) string {
	var names []string
	for _, g := range list {
		names = append(names, g.account)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return "service accounts " + strings.Join(names, ", ")
}

func pods[T ~int | ~int32](n T) string {
	if n == 1 {
		return "pod"
	}
	return "pods"
}
