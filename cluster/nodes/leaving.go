package nodes

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// leaving is a pod that its kubelet has to finish with.
type leaving struct {
	key      types.NamespacedName
	node     string
	asked    time.Time // when it was deleted
	deadline time.Time // when its grace period is over
	ended    bool      // its containers have ended: its node has only to clean up
}

// leavingOf tells whether a pod waits for its kubelet alone. With a grace
// period of 0 the kubelet has finished with it, and finalizers hold it
// (pkg/kubelet/status/status_manager.go); mirror pods come and go with a file
// on the node, not with their grace period.
func leavingOf(pod *corev1.Pod) (leaving, bool) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || isMirror(pod) || facts.Or(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return leaving{}, false
	}
	return leaving{
		key:      types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		node:     pod.Spec.NodeName,
		asked:    pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second),
		deadline: pod.DeletionTimestamp.Time,
		ended:    ended(pod),
	}, true
}

// ended tells whether all containers of a pod have ended.
func ended(pod *corev1.Pod) bool {
	if facts.Finished(pod) {
		return true
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated == nil {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// isMirror tells whether a pod only shows a static pod of its node.
func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// leave puts a pod among those that leave its node and its namespace, and stay
// takes it out. The facts follow with the next Settle: a namespace may lose
// thousands of pods at once.
func (p *Part) leave(l *leaving) {
	if l == nil {
		return
	}
	for _, group := range l.groups() {
		if p.leaving[group] == nil {
			p.leaving[group] = map[types.NamespacedName]leaving{}
		}
		p.leaving[group][l.key] = *l
		p.leavingDirty[group] = true
	}
}

func (p *Part) stay(l *leaving) {
	if l == nil {
		return
	}
	for _, group := range l.groups() {
		delete(p.leaving[group], l.key)
		p.leavingDirty[group] = true
	}
}

// leavingGroup is a node or a namespace.
type leavingGroup struct{ section, name string }

func (l leaving) groups() []leavingGroup {
	return []leavingGroup{{"nodes", l.node}, {"namespaces", l.key.Namespace}}
}

// settleLeaving writes how many pods leave each node and namespace, and those
// whose deadline comes first.
func (p *Part) settleLeaving(yield func()) {
	for group := range p.leavingDirty {
		yield()
		delete(p.leavingDirty, group)
		members := p.leaving[group]
		if len(members) == 0 {
			delete(p.leaving, group)
			p.doc.Prune("leaving", group.section, group.name)
			continue
		}
		pods := []any{}
		for _, l := range facts.Least(maps.Values(members), p.options.MaxNames, sooner) {
			pods = append(pods, map[string]any{
				"namespace": l.key.Namespace, "name": l.key.Name, "node": p.strings.Box(l.node),
				"deadline": l.deadline.UTC().Format(time.RFC3339), "ended": l.ended,
			})
		}
		p.doc.Child("leaving", group.section)[group.name] = map[string]any{"count": len(members), "pods": pods}
	}
}

func sooner(a, b leaving) int {
	return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
}
