package cluster

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/termguard/termguard/cluster/budgets"
)

// scaled are the pods that a workload is to have.
type scaled struct {
	namespace, name string
	labels          labels.Set
	replicas        int64
}

// disrupt writes into a budget what the disruption controller would of the workloads whose
// pods it selects (pkg/controller/disruption, getExpectedPodCount). Of those that an
// autoscaler scales, it counts the fewest that may be; nothing, where nobody knows.
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
	expected, autoscaled := int64(0), false
	for _, w := range m.scaled {
		if w.namespace != obj.GetNamespace() || !selector.Matches(w.labels) {
			continue
		}
		replicas := w.replicas
		if _, any := m.autoscaled[w.namespace+"/"]; any {
			return
		}
		if least, scales := m.autoscaled[w.namespace+"/"+w.name]; scales {
			if least == 0 {
				return
			}
			replicas, autoscaled = least, true
		}
		expected += replicas
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
	if autoscaled {
		set(obj, "true", "metadata", "annotations", budgets.Autoscaled)
	}
	set(obj, expected, "status", "expectedPods")
	set(obj, needed, "status", "desiredHealthy")
	set(obj, expected, "status", "currentHealthy")
	set(obj, max(expected-needed, 0), "status", "disruptionsAllowed")
}

// least is the fewest pods that an autoscaler leaves of what it scales: of a ScaledObject,
// which may scale to none, nobody knows.
func least(scaler *unstructured.Unstructured) int64 {
	if scaler.GetKind() != "HorizontalPodAutoscaler" {
		return 0
	}
	if n, set, err := unstructured.NestedInt64(scaler.Object, "spec", "minReplicas"); set {
		if err != nil {
			return 0
		}
		return n
	}
	return 1 // as the API server defaults it
}
