package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Events are evidence, not inventory: they come by the thousand, so of those of
// kubelets only the ones that tell of trouble with stopping and cleaning up are
// kept, and of those only so many; of other events see troubles.go.

const (
	// maxSymptoms bounds the events that are kept of all nodes, and
	// maxNodeSymptoms those of one node: the newest.
	maxSymptoms     = 2000
	maxNodeSymptoms = 16
	// maxSymptomText bounds the message of an event, in bytes; the API allows
	// 1024 (pkg/apis/core/validation/events.go, NoteLengthLimit).
	maxSymptomText = 512
	// oftenKilled is how often a kubelet must have told that it kills the same
	// container before that counts as trouble: it tells once for each attempt, and
	// needs three where a shim was killed, after which the container does go.
	oftenKilled = 5
)

// eventSelector leaves out, at the API server, what every pod that comes up
// tells (pkg/kubelet/events/event.go), and controllers that do their work.
var eventSelector = func() string {
	var not []fields.Selector
	for _, reason := range []string{
		"Pulled", "Pulling", "Created", "Started", "BackOff", "Unhealthy", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
		"Scheduled", "FailedScheduling", "SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet", "SuccessfulRescale", "Completed", "SawCompletedJob", "LeaderElection",
	} {
		not = append(not, fields.OneTermNotEqualSelector("reason", reason))
	}
	return fields.AndSelectors(not...).String()
}()

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

// keepEvent records an event that tells of trouble, and tells whether it is one.
func (w *World) keepEvent(e *corev1.Event) bool {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	w.forgetEvent(key)
	if w.keepEventTrouble(key, e) {
		return true
	}
	node := cmp.Or(e.Source.Host, e.ReportingInstance)
	if node == "" || cmp.Or(e.Source.Component, e.ReportingController) != "kubelet" || !tellsOfTrouble(e) {
		return false
	}
	s := symptom{key: key, node: node, last: lastSeen(e)}
	w.symptoms.byKey[key] = s
	if w.symptoms.byNode[node] == nil {
		w.symptoms.byNode[node] = map[types.NamespacedName]symptom{}
	}
	w.symptoms.byNode[node][key] = s
	child(w.doc, "symptoms", node)[key.String()] = map[string]any{
		"kind": w.intern(e.InvolvedObject.Kind), "namespace": w.intern(e.InvolvedObject.Namespace), "name": e.InvolvedObject.Name,
		"reason": w.intern(e.Reason), "message": shorten(e.Message, maxSymptomText),
		"count": timesSeen(e), "last": s.last.UTC().Format(time.RFC3339),
	}
	if len(w.symptoms.byNode[node]) > maxNodeSymptoms {
		w.dropOldest(w.symptoms.byNode[node])
	}
	if len(w.symptoms.byKey) > maxSymptoms {
		w.dropOldest(w.symptoms.byKey)
	}
	_, kept := w.symptoms.byKey[key]
	return kept
}

func (w *World) dropOldest(among map[types.NamespacedName]symptom) {
	var oldest symptom
	for _, s := range among {
		if oldest.node == "" || s.last.Before(oldest.last) || s.last.Equal(oldest.last) && s.key.String() < oldest.key.String() {
			oldest = s
		}
	}
	w.forgetEvent(oldest.key)
	if r := w.resources[eventsResource.String()]; r != nil {
		delete(r.kept, oldest.key)
	}
}

func (w *World) forgetEvent(key types.NamespacedName) {
	w.setTrouble(key, trouble{}, false)
	s, kept := w.symptoms.byKey[key]
	if !kept {
		return
	}
	delete(w.symptoms.byKey, key)
	if delete(w.symptoms.byNode[s.node], key); len(w.symptoms.byNode[s.node]) == 0 {
		delete(w.symptoms.byNode, s.node)
	}
	prune(w.doc, "symptoms", s.node, key.String())
}

// tellsOfTrouble tells whether an event is about what keeps pods from going: by
// its reason, by a full disk whatever failed for it, or by a container that is
// killed again and again.
func tellsOfTrouble(e *corev1.Event) bool {
	return troubleReasons[e.Reason] ||
		strings.Contains(e.Message, "no space left on device") ||
		e.Reason == "Killing" && timesSeen(e) >= oftenKilled && !strings.Contains(e.Message, " probe")
}

// timesSeen is how often an event was seen: core/v1 counts, events.k8s.io/v1
// has a series.
func timesSeen(e *corev1.Event) int {
	n := int(e.Count)
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	return max(n, 1)
}

// lastSeen is when an event was seen for the last time.
func lastSeen(e *corev1.Event) time.Time {
	last := []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		last = append(last, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(last, time.Time.Compare)
}

// shorten cuts a text to at most limit bytes, between characters.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
