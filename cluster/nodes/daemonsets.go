package nodes

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

func (p *Part) keepDaemonSet(o *appsv1.DaemonSet) bool {
	affinity := requiredNodeAffinity(o.Spec.Template.Spec.Affinity)
	p.set(len(affinity) > 0, map[string]any{"nodeAffinity": affinity}, "daemonsets", o.Namespace, o.Name)
	return len(affinity) > 0
}

func (p *Part) forgetDaemonSet(key types.NamespacedName) {
	p.doc.Prune("daemonsets", key.Namespace, key.Name)
}

// requiredNodeAffinity lists each expression with its path in a DaemonSet.
func requiredNodeAffinity(affinity *corev1.Affinity) []any {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	const path = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].%s[%d].values"
	var all []any
	for i, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for field, requirements := range map[string][]corev1.NodeSelectorRequirement{"matchExpressions": term.MatchExpressions, "matchFields": term.MatchFields} {
			for j, r := range requirements {
				all = append(all, map[string]any{"field": fmt.Sprintf(path, i, field, j), "key": r.Key, "operator": string(r.Operator), "values": facts.List(r.Values)})
			}
		}
	}
	return all
}
