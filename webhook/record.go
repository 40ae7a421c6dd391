package webhook

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
)

// LetThrough is a deletion that was refused but for what people wrote.
type LetThrough struct {
	Resource         schema.GroupResource
	APIVersion, Kind string
	Namespace, Name  string // Namespace is "" for what is not in one
	Terminating      bool   // Namespace is being deleted
	By               string // what they wrote, and where
	Policy, Why      string // of the refusal
}

// Recorder takes note of deletions that were let through. It must not block.
type Recorder interface{ LetThrough(LetThrough) }

type discard struct{}

func (discard) LetThrough(LetThrough) {}

// Events records with Events of the API.
type Events struct{ Recorder record.EventRecorder }

// LetThrough makes an Event about the object, in its namespace; for what is in
// no namespace that is "default". In a namespace that is being deleted no Event
// can be created: there it is about the namespace.
func (e Events) LetThrough(l LetThrough) {
	about := &corev1.ObjectReference{APIVersion: l.APIVersion, Kind: l.Kind, Namespace: l.Namespace, Name: l.Name}
	if l.Terminating {
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: l.Namespace}
	}
	e.Recorder.Event(about, corev1.EventTypeWarning, "DeletionLetThrough",
		cut(printable.Line(fmt.Sprintf("%s/%s: let through by %s; refused by policy %s: %s",
			l.Resource, l.Name, cut(l.By, 500), l.Policy, l.Why)), 1000))
}

// PolicyWrong makes an Event about the ConfigMap that keeps what was learned: a
// policy raised a false alarm. demoted tells that it refuses nothing for it.
func (e Events) PolicyWrong(namespace, policy string, demoted bool) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: cluster.LearnedConfigMap}
	follows := "Where it is set to deny, it still refuses."
	if demoted {
		follows = "Where it is set to deny it only warns, until its line in falseAlarms is removed or is 30 days old."
	}
	e.Recorder.Eventf(about, corev1.EventTypeWarning, "PolicyWrong",
		"Policy %s said that a deletion would hang, which completed by itself. %s", policy, follows)
}
