package nodes

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Kubelet events come by the thousand: only failures to stop or clean up are kept, up to a bound.

const (
	// MaxKubeletEvents bounds the events kept in all, and MaxNodeEvents by node; the newest stay.
	MaxKubeletEvents = 2000
	MaxNodeEvents    = 16
	// oftenKilled is how many reports of killing a container count as a failure. A kubelet reports each attempt,
	// and needs three after a shim was killed.
	oftenKilled = 5
)

// failureReasons are the reasons of kubelet events about pods that do not terminate
// (pkg/kubelet/events/event.go, and earlier releases).
var failureReasons = map[string]bool{
	"FailedKillPod": true, "KillContainerError": true, "FailedSync": true, "ExceededGracePeriod": true,
	"FailedUnmount": true, "FailedUnMount": true, "FailedUnmountDevice": true, "FailedUnmapDevice": true, "FailedDetachVolume": true,
	"FreeDiskSpaceFailed": true, "ImageGCFailed": true, "ContainerGCFailed": true,
}

type kubeletEvent struct {
	node string
	last time.Time
}

// KeepEvent records an event about a failure, and reports whether it is one.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	p.ForgetEvent(key)
	node, ok := facts.FromKubelet(e)
	// Kubelets only send events about pods and their own node; others are forged.
	if kind := e.InvolvedObject.Kind; kind != "Pod" && (kind != "Node" || e.InvolvedObject.Name != node) {
		return false
	}
	if node == "" || !ok || !tellsOfFailure(e) {
		return false
	}
	last, ofNode := facts.LastSeen(e), p.doc.Child("kubeletEvents", node)
	p.kubeletEvents[key] = kubeletEvent{node, last}
	ofNode[key.String()] = map[string]any{
		"kind": e.InvolvedObject.Kind, "namespace": e.InvolvedObject.Namespace, "name": e.InvolvedObject.Name,
		"reason": e.Reason, "message": facts.Shorten(e.Message, facts.MaxText),
		"count": facts.TimesSeen(e), "last": last.UTC().Format(time.RFC3339),
	}
	if len(ofNode) > MaxNodeEvents {
		p.dropOldest(node)
	}
	if len(p.kubeletEvents) > MaxKubeletEvents {
		p.dropOldest("")
	}
	_, kept := p.kubeletEvents[key]
	return kept
}

func (p *Part) dropOldest(node string) {
	var oldest types.NamespacedName
	for key, s := range p.kubeletEvents {
		if node != "" && s.node != node {
			continue
		}
		if earlier := s.last.Compare(p.kubeletEvents[oldest].last); oldest.Name == "" || earlier < 0 || earlier == 0 && key.String() < oldest.String() {
			oldest = key
		}
	}
	p.ForgetEvent(oldest)
	p.options.Dropped(oldest)
}

func (p *Part) ForgetEvent(key types.NamespacedName) {
	if s, kept := p.kubeletEvents[key]; kept {
		delete(p.kubeletEvents, key)
		p.doc.Prune("kubeletEvents", s.node, key.String())
	}
}

func tellsOfFailure(e *corev1.Event) bool {
	return failureReasons[e.Reason] ||
		strings.Contains(e.Message, "no space left on device") ||
		e.Reason == "Killing" && facts.TimesSeen(e) >= oftenKilled && !strings.Contains(e.Message, " probe")
}
