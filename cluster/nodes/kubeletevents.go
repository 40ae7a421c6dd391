package nodes

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Kubelet events are evidence and come by the thousand: only a bounded number of failures to stop or clean up
// is kept. Package refusals reads events about webhooks.

const (
	// MaxKubeletEvents bounds the events kept in all, and MaxNodeEvents those of one node; the newest stay.
	MaxKubeletEvents = 2000
	MaxNodeEvents    = 16
	// oftenKilled is how many times a kubelet must report killing the same container for that to count as a
	// failure. It reports each attempt, and needs three after a shim was killed.
	oftenKilled = 5
)

// failureReasons are the reasons of kubelet events about pods that do not terminate
// (pkg/kubelet/events/event.go, and earlier releases).
var failureReasons = map[string]bool{
	"FailedKillPod": true, "KillContainerError": true, "FailedSync": true, "ExceededGracePeriod": true,
	"FailedUnmount": true, "FailedUnMount": true, "FailedUnmountDevice": true, "FailedUnmapDevice": true, "FailedDetachVolume": true,
	"FreeDiskSpaceFailed": true, "ImageGCFailed": true, "ContainerGCFailed": true,
}

// kubeletEvent is one event about a failure.
type kubeletEvent struct {
	key  types.NamespacedName // of the event
	node string
	last time.Time
}

type kubeletEvents struct {
	byKey  map[types.NamespacedName]kubeletEvent
	byNode map[string]map[types.NamespacedName]kubeletEvent
}

func newKubeletEvents() kubeletEvents {
	return kubeletEvents{byKey: map[types.NamespacedName]kubeletEvent{}, byNode: map[string]map[types.NamespacedName]kubeletEvent{}}
}

// KeepEvent records an event about a failure, and reports whether it is one.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	p.ForgetEvent(key)
	node := cmp.Or(e.Source.Host, e.ReportingInstance)
	// Kubelets only send events about pods and their own node; others are forged.
	if kind := e.InvolvedObject.Kind; kind != "Pod" && (kind != "Node" || e.InvolvedObject.Name != node) {
		return false
	}
	if node == "" || cmp.Or(e.Source.Component, e.ReportingController) != "kubelet" || !tellsOfFailure(e) {
		return false
	}
	s := kubeletEvent{key: key, node: node, last: facts.LastSeen(e)}
	p.kubeletEvents.byKey[key] = s
	if p.kubeletEvents.byNode[node] == nil {
		p.kubeletEvents.byNode[node] = map[types.NamespacedName]kubeletEvent{}
	}
	p.kubeletEvents.byNode[node][key] = s
	p.doc.Child("kubeletEvents", node)[key.String()] = map[string]any{
		"kind": p.strings.Box(e.InvolvedObject.Kind), "namespace": p.strings.Box(e.InvolvedObject.Namespace), "name": e.InvolvedObject.Name,
		"reason": p.strings.Box(e.Reason), "message": facts.Shorten(e.Message, facts.MaxText),
		"count": facts.TimesSeen(e), "last": s.last.UTC().Format(time.RFC3339),
	}
	if len(p.kubeletEvents.byNode[node]) > MaxNodeEvents {
		p.dropOldest(p.kubeletEvents.byNode[node])
	}
	if len(p.kubeletEvents.byKey) > MaxKubeletEvents {
		p.dropOldest(p.kubeletEvents.byKey)
	}
	_, kept := p.kubeletEvents.byKey[key]
	return kept
}

func (p *Part) dropOldest(among map[types.NamespacedName]kubeletEvent) {
	var oldest kubeletEvent
	for _, s := range among {
		if oldest.node == "" || s.last.Before(oldest.last) || s.last.Equal(oldest.last) && s.key.String() < oldest.key.String() {
			oldest = s
		}
	}
	p.ForgetEvent(oldest.key)
	p.options.Dropped(oldest.key)
}

// ForgetEvent undoes KeepEvent.
func (p *Part) ForgetEvent(key types.NamespacedName) {
	s, kept := p.kubeletEvents.byKey[key]
	if !kept {
		return
	}
	delete(p.kubeletEvents.byKey, key)
	if delete(p.kubeletEvents.byNode[s.node], key); len(p.kubeletEvents.byNode[s.node]) == 0 {
		delete(p.kubeletEvents.byNode, s.node)
	}
	p.doc.Prune("kubeletEvents", s.node, key.String())
}

// tellsOfFailure reports whether an event is about pods that do not terminate: by its reason, a full disk, or
// repeated kills of a container.
func tellsOfFailure(e *corev1.Event) bool {
	return failureReasons[e.Reason] ||
		strings.Contains(e.Message, "no space left on device") ||
		e.Reason == "Killing" && facts.TimesSeen(e) >= oftenKilled && !strings.Contains(e.Message, " probe")
}
