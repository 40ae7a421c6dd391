package cluster

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// scaled are the pods that a workload is to have.
type scaled struct {
	namespace, name string
	labels          labels.Set
	replicas        int64
}

// disrupt writes into a budget what the disruption controller would of the workloads whose
// pods it selects (pkg/controller/disruption, getExpectedPodCount): nothing, where
// something else may scale them.
func (m *manifests) disrupt(obj *unstructured.Unstructured) {
	if m.resources[obj.GroupVersionKind()].String() != "poddisruptionbudgets.policy" {
		return
	}
	unstructured.RemoveNestedField(obj.Object, "status")
	var budget policyv1.PodDisruptionBudget
	if decode(obj, &budget) != nil {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return
	}
	expected := int64(0)
	for _, w := range m.scaled {
		if w.namespace != obj.GetNamespace() || !selector.Matches(w.labels) {
			continue
		}
		if m.autoscaled[w.namespace+"/"+w.name] || m.autoscaled[w.namespace+"/"] {
			return
		}
		expected += w.replicas
	}
	if expected == 0 {
		return
	}
	needed := expected
	switch spec := budget.Spec; {
	case spec.MinAvailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
		if err != nil {
			return
		}
		needed = int64(n)
	case spec.MaxUnavailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		if err != nil {
			return
		}
		needed = max(expected-int64(n), 0)
	}
	set(obj, expected, "status", "expectedPods")
	set(obj, needed, "status", "desiredHealthy")
	set(obj, expected, "status", "currentHealthy")
	set(obj, max(expected-needed, 0), "status", "disruptionsAllowed")
}
