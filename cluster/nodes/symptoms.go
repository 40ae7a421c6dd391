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
// kubelets only the ones that tell of trouble with stopping and cleaning up are
// kept, and of those only so many; what others tell of webhooks, package refusals
// reads.

const (
	// MaxSymptoms bounds the events that are kept of all nodes, and
	// MaxNodeSymptoms those of one node: the newest.
	MaxSymptoms     = 2000
	MaxNodeSymptoms = 16
	// oftenKilled is how often a kubelet must have told that it kills the same
	// container before that counts as trouble: it tells once for each attempt, and
	// needs three where a shim was killed, after which the container does go.
	oftenKilled = 5
)

// troubleReasons are the reasons that kubelets give for what keeps a pod from
// going (pkg/kubelet/events/event.go), and those of releases before.
var troubleReasons = map[string]bool{
	"FailedKillPod": true, "KillContainerError": true, "FailedSync": true, "ExceededGracePeriod": true,
	"FailedUnmount": true, "FailedUnMount": true, "FailedUnmountDevice": true, "FailedUnmapDevice": true, "FailedDetachVolume": true,
	"FreeDiskSpaceFailed": true, "ImageGCFailed": true, "ContainerGCFailed": true,
}

// symptom is one event that tells of trouble.
type symptom struct {
	key  types.NamespacedName // of the event
	node string
	last time.Time
}

// symptoms are the events that are kept.
type symptoms struct {
	byKey  map[types.NamespacedName]symptom
	byNode map[string]map[types.NamespacedName]symptom
}

func newSymptoms() symptoms {
	return symptoms{byKey: map[types.NamespacedName]symptom{}, byNode: map[string]map[types.NamespacedName]symptom{}}
}

// KeepEvent takes in an event that tells of trouble, and tells whether it is one.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	p.ForgetEvent(key)
	node := cmp.Or(e.Source.Host, e.ReportingInstance)
	if node == "" || cmp.Or(e.Source.Component, e.ReportingController) != "kubelet" || !tellsOfTrouble(e) {
		return false
	}
	s := symptom{key: key, node: node, last: facts.LastSeen(e)}
	p.symptoms.byKey[key] = s
	if p.symptoms.byNode[node] == nil {
		p.symptoms.byNode[node] = map[types.NamespacedName]symptom{}
	}
	p.symptoms.byNode[node][key] = s
	p.doc.Child("symptoms", node)[key.String()] = map[string]any{
		"kind": p.strings.Box(e.InvolvedObject.Kind), "namespace": p.strings.Box(e.InvolvedObject.Namespace), "name": e.InvolvedObject.Name,
		"reason": p.strings.Box(e.Reason), "message": facts.Shorten(e.Message, facts.MaxText),
		"count": facts.TimesSeen(e), "last": s.last.UTC().Format(time.RFC3339),
	}
	if len(p.symptoms.byNode[node]) > MaxNodeSymptoms {
		p.dropOldest(p.symptoms.byNode[node])
	}
	if len(p.symptoms.byKey) > MaxSymptoms {
		p.dropOldest(p.symptoms.byKey)
	}
	_, kept := p.symptoms.byKey[key]
	return kept
}

func (p *Part) dropOldest(among map[types.NamespacedName]symptom) {
	var oldest symptom
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
	s, kept := p.symptoms.byKey[key]
	if !kept {
		return
	}
	delete(p.symptoms.byKey, key)
	if delete(p.symptoms.byNode[s.node], key); len(p.symptoms.byNode[s.node]) == 0 {
		delete(p.symptoms.byNode, s.node)
	}
	p.doc.Prune("symptoms", s.node, key.String())
}

// tellsOfTrouble tells whether an event is about what keeps pods from going: by
// its reason, by a full disk whatever failed for it, or by a container that is
// killed again and again.
func tellsOfTrouble(e *corev1.Event) bool {
	return troubleReasons[e.Reason] ||
		strings.Contains(e.Message, "no space left on device") ||
		e.Reason == "Killing" && facts.TimesSeen(e) >= oftenKilled && !strings.Contains(e.Message, " probe")
}
