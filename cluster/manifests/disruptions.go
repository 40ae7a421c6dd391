package manifests

import (
	"maps"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/budgets"
)

type workload struct {
	namespace, name string
	labels          labels.Set
	replicas        int64
}

type fleet struct {
	workloads  []workload
	autoscaled map[string]int64 // fewest pods by NAMESPACE/NAME, 0 if unknown; without a name: of all workloads there
}

// expects counts the selected pods of a namespace, an autoscaled workload's fewest; 0 if some are unknown.
func (f fleet) expects(namespace string, selector labels.Selector) (expected int64, autoscaled, selects bool) {
	for _, w := range f.workloads {
		if w.namespace != namespace || !selector.Matches(w.labels) {
			continue
		}
		replicas := w.replicas
		if _, any := f.autoscaled[w.namespace+"/"]; any {
			return 0, false, true
		}
		if least, scales := f.autoscaled[w.namespace+"/"+w.name]; scales {
			if least == 0 {
				return 0, false, true
			}
			replicas, autoscaled = least, true
		}
		expected, selects = expected+replicas, true
	}
	return expected, autoscaled, selects
}

// elsewhere returns a namespace's workloads in other sets. The pods of one with several sizes are unknown.
func (p *player) elsewhere(namespace string) fleet {
	if others, ok := p.others[namespace]; ok || p.in == nil {
		return others
	}
	f := fleet{autoscaled: maps.Clone(p.autoscaled)}
	workloads := map[string]workload{}
	for _, obj := range p.in(namespace) {
		if isScaler(obj) {
			target := targetOf(obj, namespace)
			fewest := least(obj)
			if other, again := f.autoscaled[target]; again && other != fewest {
				fewest = 0
			}
			f.autoscaled[target] = fewest
			continue
		}
		labels, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "labels")
		w := workload{namespace, obj.GetName(), labels, replicas(obj)}
		id := obj.GetKind() + "/" + w.name
		other, again := workloads[id]
		if again && (other.replicas != w.replicas || !maps.Equal(other.labels, w.labels)) {
			f.autoscaled[namespace+"/"+w.name] = 0
		}
		if workloads[id] = w; !again {
			f.workloads = append(f.workloads, w)
		}
	}
	p.others[namespace] = f
	return f
}

// disrupt writes a budget's status as the disruption controller would (pkg/controller/disruption,
// getExpectedPodCount), from the workloads of its set that it selects, else, except in the default namespace,
// from other sets.
func (p *player) disrupt(obj *unstructured.Unstructured) {
	if p.resources[obj.GroupVersionKind()].String() != "poddisruptionbudgets.policy" {
		return
	}
	unstructured.RemoveNestedField(obj.Object, "status")
	var budget policyv1.PodDisruptionBudget
	if cluster.Decode(obj, &budget) != nil {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return
	}
	namespace := obj.GetNamespace()
	expected, autoscaled, selects := p.expects(namespace, selector)
	if !selects && namespace != DefaultNamespace {
		expected, autoscaled, _ = p.elsewhere(namespace).expects(namespace, selector)
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

func isScaler(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "HorizontalPodAutoscaler" || obj.GetKind() == "ScaledObject"
}

func targetOf(scaler *unstructured.Unstructured, namespace string) string {
	target, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "name")
	return namespace + "/" + target
}

// replicas defaults to 1, as in the API server.
func replicas(workload *unstructured.Unstructured) int64 {
	if n, set, err := unstructured.NestedInt64(workload.Object, "spec", "replicas"); set && err == nil {
		return n
	}
	return 1
}

// least returns the fewest pods that an autoscaler leaves, 0 if unknown or if a ScaledObject scales to none.
// KEDA's own autoscaler keeps minReplicaCount (apis/keda/v1alpha1/scaledobject_types.go, GetHPAMinReplicas).
func least(scaler *unstructured.Unstructured) int64 {
	field, otherwise := "minReplicaCount", int64(0)
	if scaler.GetKind() == "HorizontalPodAutoscaler" {
		field, otherwise = "minReplicas", 1 // as the API server defaults it
	}
	n, set, err := unstructured.NestedInt64(scaler.Object, "spec", field)
	switch {
	case err != nil:
		return 0
	case !set:
		return otherwise
	}
	return n
}
