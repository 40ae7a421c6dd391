package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
)

// eventOf has the arguments of a recorded Event.
type eventOf struct {
	record.EventRecorder
	About           corev1.ObjectReference
	Reason, Message string
}

func (e *eventOf) Event(about runtime.Object, _, reason, message string) {
	e.About, e.Reason, e.Message = *about.(*corev1.ObjectReference), reason, message
}

func TestEvents(t *testing.T) {
	kiali := Decision{
		Resource: schema.GroupResource{Group: "kiali.io", Resource: "kialis"}, APIVersion: "kiali.io/v1alpha1", Kind: "Kiali",
		Namespace: "demo", Name: "kiali", User: "anna", By: "annotation termguard.dev/allow-hang: moving", Policies: []string{"p", "q"}, Why: "it waits",
	}
	ending, refused, edit := kiali, kiali, kiali
	ending.Terminating, refused.By, edit.By, edit.Edit = true, "", "", true
	itself := corev1.ObjectReference{APIVersion: "kiali.io/v1alpha1", Kind: "Kiali", Namespace: "demo", Name: "kiali"}
	const letThrough = "kialis.kiali.io/kiali: let through by annotation termguard.dev/allow-hang: moving; refused by policy p, q: it waits"
	const refusal = "kialis.kiali.io/kiali: refused to anna by policy p, q: it waits"
	cases := map[string]struct {
		reason string
		what   Decision
		want   eventOf
	}{
		"LetThrough":  {"The event is where people look for it.", kiali, eventOf{About: itself, Reason: "DeletionLetThrough", Message: letThrough}},
		"Refused":     {"Who wonders why an object is still there reads it from the object.", refused, eventOf{About: itself, Reason: "DeletionRefused", Message: refusal}},
		"Edit":        {"What is refused is not always a deletion.", edit, eventOf{About: itself, Reason: "FinalizerEditRefused", Message: refusal}},
		"Terminating": {"Nothing can be created in a namespace that is being deleted.", ending, eventOf{About: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "demo"}, Reason: "DeletionLetThrough", Message: letThrough}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got eventOf
			Events{&got}.Record(tc.what)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// still is a clock that does not move.
type still struct{ now time.Time }

func (s still) Now() time.Time                  { return s.now }
func (s still) Since(t time.Time) time.Duration { return s.now.Sub(t) }

// sink counts Events by the namespace of their objects.
type sink struct {
	record.EventSink
	last chan string
	by   map[string]int
}

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.by[e.InvolvedObject.Namespace]++
	if e.InvolvedObject.Namespace == "another" {
		close(s.last)
	}
	return e, nil
}

// TestEventLimits checks that a tenant with many objects causes few Events, and does not displace
// those of others.
func TestEventLimits(t *testing.T) {
	limits := EventLimits()
	limits.Clock = still{time.Now()}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(limits)
	defer broadcaster.Shutdown()
	got := &sink{last: make(chan string), by: map[string]int{}}
	broadcaster.StartRecordingToSink(got)
	events := Events{broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "termguard"})}
	for n := range 500 {
		events.Record(Decision{APIVersion: "v1", Kind: "ConfigMap", Namespace: "tenant", Name: fmt.Sprintf("m%d", n), Policies: []string{"p"}})
	}
	events.Record(Decision{APIVersion: "v1", Kind: "ConfigMap", Namespace: "another", Name: "it", Policies: []string{"p"}})
	<-got.last
	if diff := cmp.Diff(map[string]int{"tenant": eventBurst, "another": 1}, got.by); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
