// Package budgets finds the pods that the API server refuses to evict: their PodDisruptionBudget allows no
// disruption, or they have several (pkg/registry/core/pod/storage/eviction.go). Deletions ignore budgets.
package budgets

import (
	"iter"
	"maps"
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
	// Several: evictions do not support more than one budget per pod.
	Several = "several"
	// Unsynced: the disruption controller cannot evaluate the budget.
	Unsynced = "unsynced"
	// Now: too few pods are healthy at present.
	Now = "now"
)

// Autoscaled is set by lint on a budget whose pods an autoscaler scales: its expected pods are a minimum.
const Autoscaled = "termguard.dev/autoscaled"

// Budgets kept per namespace, and listed per pod.
const maxBudgets, maxPerPod = 500, 5

// Part is the facts about evictions. It is not safe for concurrent use.
type Part struct {
	options Options
	doc     facts.Document
	alike   facts.Shared[alike]
	pods    facts.Directories[pod]
	budgets map[string]map[string]budget // by namespace and name
}

// Options of a Part. All are required.
type Options struct {
	// Manifests means that the facts list what budgets allow, and no pods, since none run.
	Manifests bool
	MaxNames  int
	// Sight records namespaces with more budgets than are kept.
	Sight *facts.Sight
}

// pod is kept small because there are many.
type pod struct {
	name string
	node unique.Handle[string]
	*facts.One[alike]
}

func (o pod) Named() string { return o.name }

type alike struct {
	labels    string
	ready     bool
	drainable bool // kubectl drain evicts it
}

// budget has the reasons that the eviction of a ready or unready pod is refused, or "".
type budget struct {
	selector       labels.Selector
	ready, unready string
}

// New returns an empty Part that writes into doc. Refusals are computed on read.
func New(doc facts.Document, options Options) *Part {
	p := &Part{options: options, doc: doc, alike: facts.NewShared[alike](), pods: facts.Directories[pod]{}, budgets: map[string]map[string]budget{}}
	doc["budgets"] = map[string]any{}
	doc["unevictable"] = facts.SectionOf(p.budgets, func(namespace string, _ map[string]budget) any {
		return p.pods[namespace].Section(func(o pod) any { return p.refusal(namespace, o.Value).facts() })
	})
	doc["unevictableOn"] = facts.Section{Keys: p.nodes, Below: p.drain}
	return p
}

func (p *Part) Keepers() []facts.Keeper {
	return []facts.Keeper{
		facts.Keep("pods", p.KeepPod, p.ForgetPod),
		facts.Keep("poddisruptionbudgets.policy", p.KeepBudget, p.ForgetBudget),
	}
}

// KeepPod records a pod that budgets protect from eviction.
func (p *Part) KeepPod(o *corev1.Pod) bool {
	key, node := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, unique.Make(o.Spec.NodeName)
	if o.Spec.NodeName == "" || facts.Finished(o) || o.Status.Phase == corev1.PodPending || o.DeletionTimestamp != nil {
		p.ForgetPod(key)
		return false
	}
	_, mirror := o.Annotations[corev1.MirrorPodAnnotationKey]
	controller := metav1.GetControllerOfNoCopy(o)
	now := alike{labels: labels.Set(o.Labels).String(), ready: ready(o), drainable: !mirror && (controller == nil || controller.Kind != "DaemonSet")}
	if before := p.pods.At(key); before != nil && before.node == node && before.Value == now {
		return true // as most updates
	}
	p.ForgetPod(key)
	p.pods.Put(o.Namespace, pod{o.Name, node, p.alike.Take(now)})
	return true
}

func ready(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (p *Part) ForgetPod(key types.NamespacedName) {
	if o := p.pods.At(key); o != nil {
		p.alike.Drop(o.One)
		p.pods.Delete(key)
	}
}

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
	in := p.budgets[o.Namespace]
	if _, ok := in[o.Name]; !ok && len(in) == maxBudgets {
		p.options.Sight.Cut("poddisruptionbudgets.policy", o.Namespace, "more budgets than are kept of one namespace")
		return false
	}
	if in == nil {
		in = map[string]budget{}
		p.budgets[o.Namespace] = in
	}
	now := budget{selector: selector}
	now.ready, now.unready = refusalReasons(o)
	in[o.Name] = now
	p.writeBudget(o)
	return true
}

func (p *Part) writeBudget(o *policyv1.PodDisruptionBudget) {
	status := map[string]any{
		"allowed": int(o.Status.DisruptionsAllowed), "healthy": int(o.Status.CurrentHealthy),
		"needed": int(o.Status.DesiredHealthy), "expected": int(o.Status.ExpectedPods),
	}
	facts.Set(status, "autoscaled", true, p.options.Manifests && o.Annotations[Autoscaled] != "")
	p.doc.Put(status, "budgets", o.Namespace, o.Name)
}

func (p *Part) ForgetBudget(key types.NamespacedName) {
	in := p.budgets[key.Namespace]
	delete(in, key.Name)
	p.doc.Prune("budgets", key.Namespace, key.Name)
	if in != nil && len(in) == 0 { // until then, budgets beyond the limit may remain
		delete(p.budgets, key.Namespace)
		p.options.Sight.Cut("poddisruptionbudgets.policy", key.Namespace, "")
	}
}

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

// refusal has the reason, or "", and the first few budgets.
type refusal struct {
	why     string
	budgets []string
}

func (r refusal) facts() any {
	if r.why == "" {
		return nil
	}
	return map[string]any{"why": r.why, "budgets": facts.List(r.budgets)}
}

func (p *Part) refusal(namespace string, of alike) (r refusal) {
	on := labelsOf(of)
	for name, b := range p.budgets[namespace] {
		if !b.selector.Matches(on) {
			continue
		}
		r.budgets = append(r.budgets, name)
		if r.why = b.unready; of.ready {
			r.why = b.ready
		}
	}
	if len(r.budgets) > 1 {
		r.why = Several
		slices.Sort(r.budgets)
	}
	r.budgets = r.budgets[:min(maxPerPod, len(r.budgets))]
	return r
}

func labelsOf(of alike) labels.Set {
	set := labels.Set{}
	for pair := range strings.SplitSeq(of.labels, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			set[key] = value
		}
	}
	return set
}

// Labels returns the different labels of a namespace's kept pods, and their number.
func (p *Part) Labels(namespace string) (different []labels.Set, pods int) {
	seen := map[string]bool{}
	for o := range p.pods[namespace].All() {
		if pods++; !seen[o.Value.labels] {
			seen[o.Value.labels] = true
			different = append(different, labelsOf(o.Value))
		}
	}
	return different, pods
}

func (p *Part) nodes() iter.Seq[string] {
	names := map[string]bool{}
	for namespace := range p.budgets {
		for o := range p.pods[namespace].All() {
			names[o.node.Value()] = true
		}
	}
	return maps.Keys(names)
}

// drain groups unevictable pods by namespace and reason.
func (p *Part) drain(node string) any {
	type group struct {
		refusal
		pods facts.Names
	}
	on, all := unique.Make(node), facts.Document{}
	for namespace := range p.budgets {
		groups := map[string]*group{}
		for o := range p.pods[namespace].All() {
			if o.node != on || !o.Value.drainable {
				continue
			}
			r := p.refusal(namespace, o.Value)
			if r.why == "" {
				continue
			}
			reason := r.why + " " + strings.Join(r.budgets, " ")
			if groups[reason] == nil {
				groups[reason] = &group{r, facts.Names{Limit: p.options.MaxNames}}
			}
			groups[reason].pods.Add(o.name)
		}
		for reason, g := range groups {
			listed, _ := g.pods.Facts().(map[string]any)
			listed["why"], listed["budgets"] = g.why, facts.List(g.budgets)
			all.Put(listed, namespace, reason)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return map[string]any(all)
}
