// Package budgets finds the pods that the API server refuses to evict, as kubectl drain, Karpenter and
// Cluster API evict them: pods with a PodDisruptionBudget that allows no disruption, and pods with more than
// one (pkg/registry/core/pod/storage/eviction.go). Deletions ignore budgets.
package budgets

import (
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// The reasons that an eviction is refused.
const (
	// Never: the budget allows no disruption even while all its pods are healthy.
	Never = "never"
	// Several: more than one budget covers the pod, which evictions do not support.
	Several = "several"
	// Unsynced: the disruption controller cannot evaluate the budget.
	Unsynced = "unsynced"
	// Now: too few pods are healthy at present.
	Now = "now"
)

// Autoscaled is an annotation that lint sets on a budget whose pods an autoscaler scales: its expected pods
// are then a minimum.
const Autoscaled = "termguard.dev/autoscaled"

// maxBudgets bounds the budgets kept per namespace, and maxPerPod the budgets listed per pod.
const maxBudgets, maxPerPod = 500, 5

// Part is the part of the facts about evictions. It is not safe for concurrent use.
type Part struct {
	options    Options
	doc        facts.Document
	groups     facts.Groups
	namespaces map[string]*namespace
}

// Options of a Part. All are required.
type Options struct {
	// Manifests means that the objects are manifests: the facts then list what their budgets allow, and no
	// pods, since none run.
	Manifests bool
	// MaxNames bounds the names listed per group of pods.
	MaxNames int
	// Sight records namespaces with more budgets than are kept.
	Sight *facts.Sight
}

type namespace struct {
	pods    facts.Directory[pod]
	budgets map[string]*budget
	sets    map[string]*set // by their labels, as text
}

// set is the pods of a namespace with the same labels.
type set struct {
	labels  labels.Set
	text    string // of the labels
	pods    int
	budgets []string // names of the budgets that select them
}

// pod is the record of a pod, kept small because there are many.
type pod struct {
	name string
	state
	group *[]string // path of its group of unevictable pods, nil if it can be evicted
}

// Named implements facts.Directory's element.
func (o pod) Named() string { return o.name }

// state is the state that decides whether a pod can be evicted.
type state struct {
	set       *set
	node      unique.Handle[string]
	ready     bool
	exempt    bool // evictions ignore its budgets
	drainable bool // kubectl drain evicts it
}

type budget struct {
	selector labels.Selector
	text     string // of the selector
	// ready and unready are the reasons that the eviction of a ready or unready pod is refused, "" if it is
	// allowed.
	ready, unready string
}

// New returns an empty Part that writes into doc.
func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"budgets", "unevictable", "unevictableOn"} {
		doc[section] = map[string]any{}
	}
	return &Part{options: options, doc: doc, groups: facts.NewGroups(doc, options.MaxNames), namespaces: map[string]*namespace{}}
}

// KeepPod records a pod.
func (p *Part) KeepPod(o *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if o.Spec.NodeName == "" {
		p.ForgetPod(key)
		return false
	}
	_, mirror := o.Annotations[corev1.MirrorPodAnnotationKey]
	controller := metav1.GetControllerOfNoCopy(o)
	ns := p.namespaceFor(o.Namespace)
	now := state{
		set: ns.setFor(o.Labels), node: unique.Make(o.Spec.NodeName), ready: ready(o),
		exempt:    facts.Finished(o) || o.Status.Phase == corev1.PodPending || o.DeletionTimestamp != nil,
		drainable: !mirror && (controller == nil || controller.Kind != "DaemonSet"),
	}
	entry := ns.pods.At(o.Name)
	if entry != nil && entry.state == now {
		return true // most updates change nothing here
	}
	now.set.pods++ // before leave, which may delete the same set
	if entry == nil {
		ns.pods.Put(pod{name: o.Name})
		entry = ns.pods.At(o.Name)
	} else {
		ns.removePod(entry.set)
	}
	entry.state = now
	p.update(o.Namespace, entry)
	return true
}

func (n *namespace) removePod(s *set) {
	if s.pods--; s.pods == 0 {
		delete(n.sets, s.text)
	}
}

// setFor returns the set of pods with these labels.
func (n *namespace) setFor(podLabels labels.Set) *set {
	key := podLabels.String()
	if n.sets[key] == nil {
		created := &set{labels: podLabels, text: key}
		for name, b := range n.budgets {
			created.cover(name, b.selector.Matches(podLabels))
		}
		n.sets[key] = created
	}
	return n.sets[key]
}

func ready(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ForgetPod undoes KeepPod.
func (p *Part) ForgetPod(key types.NamespacedName) {
	ns := p.namespaces[key.Namespace]
	if ns == nil {
		return
	}
	entry := ns.pods.At(key.Name)
	if entry == nil {
		return
	}
	p.release(key.Namespace, entry)
	ns.removePod(entry.set)
	ns.pods.Delete(key.Name)
	p.prune(key.Namespace)
}

// KeepBudget records which pods a PodDisruptionBudget selects, and whether it allows a disruption.
func (p *Part) KeepBudget(o *policyv1.PodDisruptionBudget) bool {
	if p.options.Manifests {
		if o.Status.ExpectedPods > 0 {
			p.writeBudget(o)
		}
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // as the API server treats it
	}
	ns := p.namespaceFor(o.Namespace)
	before := ns.budgets[o.Name]
	if before == nil && len(ns.budgets) == maxBudgets {
		p.options.Sight.Cut("poddisruptionbudgets.policy", o.Namespace, "more budgets than are kept of one namespace")
		return false
	}
	now := &budget{selector: selector, text: selector.String()}
	now.ready, now.unready = refusalReasons(o)
	ns.budgets[o.Name] = now
	p.writeBudget(o)
	selectsOthers := before == nil || before.text != now.text
	if !selectsOthers && before.ready == now.ready && before.unready == now.unready {
		return true
	}
	changed := map[*set]bool{}
	for _, podSet := range ns.sets {
		if selectsOthers {
			podSet.cover(o.Name, selector.Matches(podSet.labels))
		}
		if selectsOthers || slices.Contains(podSet.budgets, o.Name) {
			changed[podSet] = true
		}
	}
	p.updateAll(o.Namespace, changed)
	return true
}

func (p *Part) writeBudget(o *policyv1.PodDisruptionBudget) {
	status := map[string]any{
		"allowed": int(o.Status.DisruptionsAllowed), "healthy": int(o.Status.CurrentHealthy),
		"needed": int(o.Status.DesiredHealthy), "expected": int(o.Status.ExpectedPods),
	}
	if p.options.Manifests && o.Annotations[Autoscaled] != "" {
		status["autoscaled"] = true
	}
	p.doc.Put(status, "budgets", o.Namespace, o.Name)
}

// ForgetBudget undoes KeepBudget.
func (p *Part) ForgetBudget(key types.NamespacedName) {
	ns := p.namespaces[key.Namespace]
	if ns == nil || ns.budgets[key.Name] == nil {
		return
	}
	delete(ns.budgets, key.Name)
	if len(ns.budgets) == 0 { // until then, budgets beyond the limit may remain
		p.options.Sight.Cut("poddisruptionbudgets.policy", key.Namespace, "")
	}
	p.doc.Prune("budgets", key.Namespace, key.Name)
	changed := map[*set]bool{}
	for _, podSet := range ns.sets {
		if slices.Contains(podSet.budgets, key.Name) {
			podSet.cover(key.Name, false)
			changed[podSet] = true
		}
	}
	p.updateAll(key.Namespace, changed)
	p.prune(key.Namespace)
}

// refusalReasons returns why a budget refuses the eviction of a ready and of an unready pod that it alone
// covers; "" means it allows it.
func refusalReasons(o *policyv1.PodDisruptionBudget) (ready, unready string) {
	failed := meta.FindStatusCondition(o.Status.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case o.Status.ObservedGeneration < o.Generation:
		ready = Now
	case o.Status.DisruptionsAllowed > 0:
	case failed != nil && failed.Status == metav1.ConditionFalse && failed.Reason == policyv1.SyncFailedReason:
		ready = Unsynced
	case o.Status.ExpectedPods == 0:
		ready = Now // the controller has not counted the pod yet
	case o.Status.ExpectedPods <= o.Status.DesiredHealthy:
		ready = Never
	default:
		ready = Now
	}
	policy := facts.Or(o.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
	if policy == policyv1.AlwaysAllow || o.Status.DesiredHealthy > 0 && o.Status.CurrentHealthy >= o.Status.DesiredHealthy {
		return ready, ""
	}
	return ready, ready
}

// cover records whether a budget selects the pods of a set.
func (s *set) cover(budget string, selects bool) {
	at, covered := slices.BinarySearch(s.budgets, budget)
	switch {
	case selects && !covered:
		s.budgets = slices.Insert(s.budgets, at, budget)
	case !selects && covered:
		s.budgets = slices.Delete(s.budgets, at, at+1)
	}
}

// updateAll updates the pods of some sets of a namespace.
func (p *Part) updateAll(namespace string, sets map[*set]bool) {
	if len(sets) == 0 {
		return
	}
	ns := p.namespaces[namespace]
	for o := range ns.pods.All() {
		if sets[o.set] {
			p.update(namespace, ns.pods.At(o.name))
		}
	}
}

// update lists a pod among the unevictable ones of its node, by reason, if its eviction is refused.
func (p *Part) update(namespace string, o *pod) {
	p.release(namespace, o)
	why := p.refusal(namespace, o)
	if why == "" {
		return
	}
	budgets := o.set.budgets[:min(maxPerPod, len(o.set.budgets))]
	group := []string{"unevictableOn", o.node.Value(), namespace, why + " " + strings.Join(budgets, " ")}
	o.group = &group
	entry := map[string]any{"why": why, "budgets": facts.List(budgets)}
	p.doc.Put(entry, "unevictable", namespace, o.name)
	if o.drainable {
		p.groups.Add(o.name, group...)
		listed := p.groups.At(group...).Facts()
		listed["why"], listed["budgets"] = entry["why"], entry["budgets"]
	}
}

func (p *Part) refusal(namespace string, o *pod) string {
	switch {
	case o.exempt || len(o.set.budgets) == 0:
		return ""
	case len(o.set.budgets) > 1:
		return Several
	}
	b := p.namespaces[namespace].budgets[o.set.budgets[0]]
	if o.ready {
		return b.ready
	}
	return b.unready
}

// release undoes update.
func (p *Part) release(namespace string, o *pod) {
	if o.group == nil {
		return
	}
	p.doc.Prune("unevictable", namespace, o.name)
	p.groups.Remove(o.name, *o.group...)
	o.group = nil
}

func (p *Part) namespaceFor(name string) *namespace {
	ns := p.namespaces[name]
	if ns == nil {
		ns = &namespace{budgets: map[string]*budget{}, sets: map[string]*set{}}
		p.namespaces[name] = ns
	}
	return ns
}

func (p *Part) prune(name string) {
	if ns := p.namespaces[name]; ns.pods.Empty() && len(ns.budgets) == 0 {
		delete(p.namespaces, name)
	}
}
