package webhook

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/internal/printable"
)

// Decision is a refused request, or one that would have been refused without an annotation or declaration.
type Decision struct {
	Resource         schema.GroupResource
	APIVersion, Kind string
	Namespace, Name  string   // Namespace is "" for cluster-scoped objects
	Terminating      bool     // Namespace is Terminating
	Edit             bool     // of finalizers; otherwise a deletion
	User             string   // who sent the request
	By               string   // the annotation or declaration that allowed it; "" if it is refused
	Policies         []string // that refuse it
	Why              string   // the message of the first
}

// Recorder records decisions. It must not block.
type Recorder interface{ Record(Decision) }

type noRecorder struct{}

func (noRecorder) Record(Decision) {}

// Events records with Events of the API.
type Events struct{ Recorder record.EventRecorder }

// Limits of Events: in each namespace a burst, then one in ten seconds. client-go tracks the last 4096
// namespaces, and queues 1000 Events; further ones are dropped.
const (
	eventBurst = 25
	eventQPS   = 0.1
)

// EventLimits limit Events by namespace: many objects in a namespace cause no more of them than one, and do
// not affect other namespaces. Cluster-scoped objects count individually.
func EventLimits() record.CorrelatorOptions {
	return record.CorrelatorOptions{
		BurstSize: eventBurst,
		QPS:       eventQPS,
		SpamKeyFunc: func(e *corev1.Event) string {
			object := e.InvolvedObject
			if object.Namespace == "" {
				return object.Kind + "/" + object.Name
			}
			return object.Namespace
		},
	}
}

// Record creates an Event about the object, in its namespace, or in "default" for a cluster-scoped one. A
// Terminating namespace accepts no Events: there it is about the namespace.
func (e Events) Record(d Decision) {
	object := &corev1.ObjectReference{APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name}
	if d.Terminating {
		object = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: d.Namespace}
	}
	reason, action := "Deletion", "refused to "+truncate(d.User, 200)
	if d.Edit {
		reason = "FinalizerEdit"
	}
	if d.By == "" {
		reason += "Refused"
	} else {
		reason, action = reason+"LetThrough", "let through by "+truncate(d.By, 500)+"; refused"
	}
	e.Recorder.Event(object, corev1.EventTypeWarning, reason, truncate(printable.Line(fmt.Sprintf("%s/%s: %s by policy %s: %s",
		d.Resource, d.Name, action, strings.Join(d.Policies, ", "), d.Why)), 1000))
}
