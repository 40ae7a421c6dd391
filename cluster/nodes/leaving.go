package nodes

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

type leaving struct {
	key       types.NamespacedName
	node      string
	deletedAt time.Time
	deadline  time.Time
	ended     bool // the node only has to clean up
}

// leavingOf reports whether a pod waits only for its kubelet. With grace period 0 the kubelet has finished
// and finalizers hold the pod (pkg/kubelet/status/status_manager.go); a mirror pod follows a file on the
// node.
func leavingOf(pod *corev1.Pod) (leaving, bool) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || isMirror(pod) || facts.Or(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return leaving{}, false
	}
	return leaving{
		key:       types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		node:      pod.Spec.NodeName,
		deletedAt: pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second),
		deadline:  pod.DeletionTimestamp.Time,
		ended:     ended(pod),
	}, true
}

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

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// leave leaves the facts to Settle: a namespace may lose thousands of pods at once.
func (p *Part) leave(l *leaving, leaves bool) {
	for _, group := range l.groups() {
		p.leaving.Set(group, l, leaves)
		p.leavingDirty[group] = true
	}
}

type leavingGroup struct{ section, name string }

func (l *leaving) groups() []leavingGroup {
	if l == nil {
		return nil
	}
	return []leavingGroup{{"nodes", l.node}, {"namespaces", l.key.Namespace}}
}

func (p *Part) settleLeaving(yield func()) {
	for group := range p.leavingDirty {
		yield()
		delete(p.leavingDirty, group)
		members := p.leaving[group]
		if len(members) == 0 {
			p.doc.Prune("leaving", group.section, group.name)
			continue
		}
		pods := []any{}
		for _, l := range facts.Least(maps.Keys(members), p.options.MaxNames, sooner) {
			pods = append(pods, map[string]any{
				"namespace": l.key.Namespace, "name": l.key.Name, "node": l.node,
				"deadline": l.deadline.UTC().Format(time.RFC3339), "ended": l.ended,
			})
		}
		p.doc.Child("leaving", group.section)[group.name] = map[string]any{"count": len(members), "pods": pods}
	}
}

func sooner(a, b *leaving) int {
	return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
}
