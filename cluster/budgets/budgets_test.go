package budgets

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

func podOf(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// budgetOf returns a budget that allows no disruption although its only pod is healthy.
func budgetOf(name string, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1},
	}
	if change != nil {
		change(b)
	}
	return b
}

func newPart() (*Part, facts.Document) {
	doc := facts.Document{}
	return New(doc, Options{MaxNames: 2, Sight: facts.NewSight(doc)}), doc
}

func why(doc facts.Document, name string) any {
	return facts.Lookup(doc, "unevictable", "shop", name, "why")
}

// TestRefusals compares the reasons with the API server's checks (pkg/registry/core/pod/storage/eviction.go).
func TestRefusals(t *testing.T) {
	type (
		edit  = func(*corev1.Pod)
		edits = func(*policyv1.PodDisruptionBudget)
	)
	unhealthy := func(p *corev1.Pod) { p.Status.Conditions = nil }
	cases := map[string]struct {
		reason string
		pod    edit
		budget edits
		want   any
	}{
		"Never":     {"all its pods are healthy, and none may go", nil, nil, Never},
		"Allowed":   {"one may go", nil, func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, nil},
		"Now":       {"one of three is not healthy", nil, func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 3; b.Status.DesiredHealthy = 2 }, Now},
		"Stale":     {"the controller has not seen the newest budget", nil, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, Now},
		"Uncounted": {"the controller has counted no pods yet", nil, func(b *policyv1.PodDisruptionBudget) { b.Status = policyv1.PodDisruptionBudgetStatus{} }, Now},
		"WithoutPods": {"a budget for other pods, which do not exist", nil, func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchLabels["app"], b.Status = "db", policyv1.PodDisruptionBudgetStatus{}
		}, nil},
		"NotCovered": {"the selector is of other pods", nil, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" }, nil},
		"NoSelector": {"none selects none", nil, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, nil},
		"Everything": {"an empty one selects all", nil, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = nil }, Never},
		"Invalid": {"the API server passes over a selector that is invalid", nil, func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
		}, nil},
		"Unsynced": {"the controller cannot count its pods", nil, func(b *policyv1.PodDisruptionBudget) {
			b.Status = policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason}}}
		}, Unsynced},
		"Finished":    {"nothing is disrupted", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nil, nil},
		"Pending":     {"nothing is disrupted yet", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil, nil},
		"Terminating": {"it is already Terminating", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, nil, nil},
		"Unscheduled": {"no node is drained of it", func(p *corev1.Pod) { p.Spec.NodeName = "" }, nil, nil},
		"Unhealthy":   {"enough others are healthy", unhealthy, nil, nil},
		"UnhealthyAndNeeded": {"too few others are healthy", unhealthy, func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy = 0
		}, Never},
		"UnhealthyAndFree": {"the budget lets go of such pods", unhealthy, func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy = 0
			b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
		}, nil},
	}
	for name, tc := range cases {
		for order, first := range map[string]bool{"PodFirst": true, "BudgetFirst": false} {
			t.Run(name+"/"+order, func(t *testing.T) {
				p, doc := newPart()
				if first {
					p.KeepPod(podOf("web-0", tc.pod))
					p.KeepBudget(budgetOf("web", tc.budget))
				} else {
					p.KeepBudget(budgetOf("web", tc.budget))
					p.KeepPod(podOf("web-0", tc.pod))
				}
				if diff := cmp.Diff(tc.want, why(doc, "web-0")); diff != "" {
					t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
				}
			})
		}
	}
}

// TestSeveral checks that a pod with two budgets is refused whatever they allow, until one is removed.
func TestSeveral(t *testing.T) {
	p, doc := newPart()
	generous := func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }
	p.KeepPod(podOf("web-0", nil))
	p.KeepBudget(budgetOf("a", generous))
	p.KeepBudget(budgetOf("b", generous))
	want := map[string]any{"why": Several, "budgets": []any{"a", "b"}, "count": 1, "names": []any{"web-0"}}
	if diff := cmp.Diff(want, facts.Lookup(doc, "unevictableOn", "n1", "shop", "several a b")); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	p.KeepBudget(budgetOf("b", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" }))
	if got := why(doc, "web-0"); got != nil {
		t.Errorf("refused, %v, though one budget is left, which allows it", got)
	}
	p.KeepBudget(budgetOf("a", nil))
	if got := why(doc, "web-0"); got != Never {
		t.Errorf("refused %v, want %v", got, Never)
	}
	p.ForgetBudget(types.NamespacedName{Namespace: "shop", Name: "a"})
	if got := why(doc, "web-0"); got != nil {
		t.Errorf("refused, %v, without a budget", got)
	}
}

// TestNotDrained checks that pods of DaemonSets and mirror pods do not block a drain.
func TestNotDrained(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"DaemonSet": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "web", Controller: new(true)}}
		},
		"Mirror": func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
	} {
		p, doc := newPart()
		p.KeepBudget(budgetOf("web", nil))
		p.KeepPod(podOf("web-0", change))
		if got := facts.Lookup(doc, "unevictableOn", "n1"); got != nil || why(doc, "web-0") != Never {
			t.Errorf("%s: a drain waits for %v", name, got)
		}
	}
}

func TestForget(t *testing.T) {
	p, doc := newPart()
	for i := range 3 {
		p.KeepPod(podOf(fmt.Sprint("web-", i), nil))
	}
	p.KeepBudget(budgetOf("web", nil))
	if got := facts.Lookup(doc, "unevictableOn", "n1", "shop", "never web", "count"); got != 3 {
		t.Errorf("%v pods, want 3", got)
	}
	for i := range 3 {
		p.ForgetPod(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)})
	}
	p.ForgetBudget(types.NamespacedName{Namespace: "shop", Name: "web"})
	for _, section := range []string{"budgets", "unevictable", "unevictableOn"} {
		if left, _ := facts.Lookup(doc, section).(map[string]any); len(left) > 0 {
			t.Errorf("left in %s: %v", section, left)
		}
	}
	if len(p.pods)+len(p.budgets) > 0 {
		t.Errorf("%d and %d namespaces are left", len(p.pods), len(p.budgets))
	}
}

// TestTooMany checks that budgets beyond the limit are reported as unseen.
func TestTooMany(t *testing.T) {
	p, doc := newPart()
	for i := range maxBudgets + 1 {
		p.KeepBudget(budgetOf(fmt.Sprint("b", i), nil))
	}
	list, _ := doc["unseen"].([]any)
	if len(list) != 1 || facts.Lookup(list[0].(map[string]any), "namespace") != "shop" {
		t.Errorf("unseen: %v", list)
	}
	if got := len(p.budgets["shop"]); got != maxBudgets {
		t.Errorf("%d budgets kept, want %d", got, maxBudgets)
	}
}

// BenchmarkBudgets puts 5,000 pods of 100 nodes under 500 budgets of one namespace.
func BenchmarkBudgets(b *testing.B) {
	for b.Loop() {
		p, _ := newPart()
		for i := range maxBudgets {
			app := fmt.Sprint(i)
			p.KeepBudget(budgetOf(app, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = app }))
		}
		for i := range 5000 {
			p.KeepPod(podOf(fmt.Sprint(i), func(p *corev1.Pod) {
				p.Labels["app"], p.Spec.NodeName = fmt.Sprint(i%maxBudgets), fmt.Sprint(i%100)
			}))
		}
	}
}
