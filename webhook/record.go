package webhook

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/internal/printable"
)

// Decision is a change that was refused, or one that was refused but for what
// people wrote.
type Decision struct {
	Resource         schema.GroupResource
	APIVersion, Kind string
	Namespace, Name  string   // Namespace is "" for what is not in one
	Terminating      bool     // Namespace is being deleted
	Edit             bool     // of finalizers; a deletion otherwise
	User             string   // who asked for it
	By               string   // what people wrote, and where, that let it through; "" where it is refused
	Policies         []string // that refuse it
	Why              string   // what the first of them says
}

// Recorder takes note of decisions. It must not block.
type Recorder interface{ Decided(Decision) }

type discard struct{}

func (discard) Decided(Decision) {}

// Events records with Events of the API.
type Events struct{ Recorder record.EventRecorder }

// What Events may cost: in each namespace a burst, and one in ten seconds after
// it. client-go keeps the last 4096 namespaces in mind, and 1000 Events in its
// queue; what exceeds that is dropped.
const (
	eventBurst = 25
	eventQPS   = 0.1
)

// EventLimits bound Events by namespace: who has a namespace full of objects makes
// no more of them than who has one object, and takes none from others. What is in
// no namespace counts by itself.
func EventLimits() record.CorrelatorOptions {
	return record.CorrelatorOptions{
		BurstSize: eventBurst,
		QPS:       eventQPS,
		SpamKeyFunc: func(e *corev1.Event) string {
			about := e.InvolvedObject
			if about.Namespace == "" {
				return about.Kind + "/" + about.Name
			}
			return about.Namespace
		},
	}
}

// Decided makes an Event about the object, in its namespace; for what is in no
// namespace that is "default". In a namespace that is being deleted no Event can
// be created: there it is about the namespace.
func (e Events) Decided(d Decision) {
	about := &corev1.ObjectReference{APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name}
	if d.Terminating {
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: d.Namespace}
	}
	reason, what := "Deletion", "refused to "+cut(d.User, 200)
	if d.Edit {
		reason = "FinalizerEdit"
	}
	if d.By == "" {
		reason += "Refused"
	} else {
		reason, what = reason+"LetThrough", "let through by "+cut(d.By, 500)+"; refused"
	}
	e.Recorder.Event(about, corev1.EventTypeWarning, reason, cut(printable.Line(fmt.Sprintf("%s/%s: %s by policy %s: %s",
		d.Resource, d.Name, what, strings.Join(d.Policies, ", "), d.Why)), 1000))
}
