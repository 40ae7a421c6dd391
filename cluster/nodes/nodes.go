package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Additional time per pod, in ms, when many pods of a node stop at once.
const (
	// stopWork is the processor time of the kubelet, the runtime and their helpers: 220 to 300 ms with one
	// container (test/results/node.md).
	stopWork = 250
	// stopRequests is the time of the kubelet's four requests (get, status update, get, delete:
	// pkg/kubelet/status/status_manager.go) at its limit of 50 per second (kubeAPIQPS).
	stopRequests = 4 * 1000 / 50
)

type node struct {
	ready    bool
	record   map[string]any
	problems []any
}

func readinessOf(o *corev1.Node) (n node, kept bool) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated"}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c
		}
	}
	taints := make([]any, len(o.Spec.Taints))
	outOfService := false
	for i, taint := range o.Spec.Taints {
		taints[i] = taint.Key
		outOfService = outOfService || taint.Key == corev1.TaintNodeOutOfService
	}
	entry := map[string]any{
		"ready":        string(ready.Status),
		"reason":       ready.Reason,
		"message":      ready.Message,
		"since":        facts.Timestamp(ready.LastTransitionTime),
		"outOfService": outOfService,
		"taints":       taints,
		"kubelet":      o.Status.NodeInfo.KubeletVersion,
		"runtime":      o.Status.NodeInfo.ContainerRuntimeVersion,
	}
	cpu, full := o.Status.Capacity.Cpu().MilliValue(), pressure(o, corev1.NodeDiskPressure)
	facts.Set(entry, "stopMillis", int(max(stopWork*1000/max(cpu, 1), stopRequests)), cpu > 0)
	facts.Set(entry, "diskPressure", full, full != nil)
	bugs := nodeBugs(o)
	facts.Set(entry, "bugs", bugs, len(bugs) > 0)
	return node{ready.Status == corev1.ConditionTrue, entry, problemsOf(o)}, true
}

func (p *Part) nodeChanged(key types.NamespacedName, _, now node) {
	p.set(now.record != nil, now.record, "nodes", key.Name)
	p.set(p.notReady(key.Name), now.record, "notReady", key.Name)
	p.set(now.record["bugs"] != nil, now.record, "buggy", key.Name)
	p.set(len(now.problems) > 0, now.problems, "nodeProblems", key.Name)
	p.goneDirty = true
	p.restrand(key.Name)
}

func (p *Part) set(has bool, value any, path ...string) {
	if has {
		p.doc.Put(value, path...)
	} else {
		p.doc.Prune(path...)
	}
}

// detectable are node-problem-detector's conditions that keep pods from terminating:
// config/kernel-monitor.json, readonly-monitor.json and health-checker-*.json of
// kubernetes/node-problem-detector.
var detectable = []corev1.NodeConditionType{"KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "ContainerRuntimeUnhealthy"}

func problemsOf(node *corev1.Node) (problems []any) {
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(detectable, c.Type) {
			problems = append(problems, map[string]any{
				"type": string(c.Type), "reason": c.Reason, "message": c.Message, "since": facts.Timestamp(c.LastTransitionTime),
			})
		}
	}
	return problems
}

func (p *Part) notReady(node string) bool {
	n, exists := p.nodes[named(node)]
	return exists && !n.ready
}

func (p *Part) restrand(node string) {
	for o := range p.hosts[node].pods() {
		if p.notReady(node) {
			p.strand(o)
		} else {
			p.unstrand(o)
		}
	}
}

// settleGone writes the missing nodes that pods wait for: pod garbage collection removes their pods. If no
// nodes are seen, or among manifests, a missing node proves nothing.
func (p *Part) settleGone() {
	if !p.goneDirty || p.options.Manifests {
		return
	}
	p.goneDirty = false
	gone := map[string]any{}
	for node, on := range p.hosts {
		if _, there := p.nodes[named(node)]; len(p.nodes) > 0 && !there && on.waits > 0 {
			gone[node] = map[string]any{}
		}
	}
	p.doc["gone"] = gone
}
