package nodes

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Events are evidence, not inventory: they come by the thousand, so of those of
// kubelets only the ones that tell of failures with stopping and cleaning up are
// kept, and of those only so many; what others tell of webhooks, package refusals
// reads.

const (
	// MaxKubeletEvents bounds the events that are kept of all nodes, and
	// MaxNodeEvents those of one node: the newest.
	MaxKubeletEvents = 2000
	MaxNodeEvents    = 16
	// oftenKilled is how often a kubelet must have told that it kills the same
	// container before that counts as trouble: it tells once for each attempt, and
	// needs three where a shim was killed, after which the container does go.
	oftenKilled = 5
)

// failureReasons are the reasons that kubelets give for what keeps a pod from
// going (pkg/kubelet/events/event.go), and those of releases before.
var failureReasons = map[string]bool{
	"FailedKillPod": true, "KillContainerError": true, "FailedSync": true, "ExceededGracePeriod": true,
	"FailedUnmount": true, "FailedUnMount": true, "FailedUnmountDevice": true, "FailedUnmapDevice": true, "FailedDetachVolume": true,
	"FreeDiskSpaceFailed": true, "ImageGCFailed": true, "ContainerGCFailed": true,
}

// kubeletEvent is one event that tells of a failure.
type kubeletEvent struct {
	key  types.NamespacedName // of the event
	node string
	last time.Time
}

// kubeletEvents are the events that are kept.
type kubeletEvents struct {
	byKey  map[types.NamespacedName]kubeletEvent
	byNode map[string]map[types.NamespacedName]kubeletEvent
}

func newKubeletEvents() kubeletEvents {
	return kubeletEvents{byKey: map[types.NamespacedName]kubeletEvent{}, byNode: map[string]map[types.NamespacedName]kubeletEvent{}}
}

// KeepEvent takes in an event that tells of a failure, and tells whether it is one.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	p.ForgetEvent(key)
	node := cmp.Or(e.Source.Host, e.ReportingInstance)
	// Kubelets tell of pods and of their node; anything else somebody made up.
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

// tellsOfFailure tells whether an event is about what keeps pods from going: by
// its reason, by a full disk whatever failed for it, or by a container that is
// killed again and again.
func tellsOfFailure(e *corev1.Event) bool {
	return failureReasons[e.Reason] ||
		strings.Contains(e.Message, "no space left on device") ||
		e.Reason == "Killing" && facts.TimesSeen(e) >= oftenKilled && !strings.Contains(e.Message, " probe")
}
