package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// recordOf records a refusal of a request, or what allowed it.
func recordOf(to record.EventRecorder, r *question.Request, terminating bool, by string) {
	h := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(), Authentic: true, Recorder: to})
	h.record(&outcome{request: r, assessment: assessment{inFacts: true, terminating: terminating}}, override{[]policies.Finding{hang("p", "it waits"), hang("q", "it waits, too")}, by})
}

func TestEvents(t *testing.T) {
	target := question.Target{
		Kind: schema.FromAPIVersionAndKind("kiali.io/v1alpha1", "Kiali"), Resource: schema.GroupVersionResource{Group: "kiali.io", Version: "v1alpha1", Resource: "kialis"},
		Namespace: "demo", Name: "kiali", User: authenticationv1.UserInfo{Username: "anna"},
	}
	const allowed = "annotation termguard.dev/allow-hang: moving"
	const letThrough = "kialis.kiali.io/kiali: let through by annotation termguard.dev/allow-hang: moving; refused by policy p, q: it waits"
	const refusal = "kialis.kiali.io/kiali: refused to anna by policy p, q: it waits"
	cases := map[string]struct {
		reason      string
		request     *question.Request
		terminating bool
		by          string
		want        eventOf
	}{
		"LetThrough":  {"The event is where people look for it.", target.Delete(nil), false, allowed, eventOf{kialiReference, "DeletionLetThrough", letThrough}},
		"Refused":     {"Who wonders why an object is still there reads it from the object.", target.Delete(nil), false, "", eventOf{kialiReference, "DeletionRefused", refusal}},
		"Edit":        {"What is refused is not always a deletion.", target.Edit(map[string]any{}), false, "", eventOf{kialiReference, "FinalizerEditRefused", refusal}},
		"Terminating": {"Nothing can be created in a Terminating namespace.", target.Delete(nil), true, allowed, eventOf{corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "demo"}, "DeletionLetThrough", letThrough}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got recorder
			recordOf(&got, tc.request, tc.terminating, tc.by)
			if diff := cmp.Diff([]eventOf{tc.want}, got.got); diff != "" {
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
	events := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "termguard"})
	deletes := func(namespace, name string) {
		recordOf(events, question.Target{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name}.Delete(nil), false, "")
	}
	for n := range 500 {
		deletes("tenant", fmt.Sprintf("m%d", n))
	}
	deletes("another", "it")
	<-got.last
	if diff := cmp.Diff(map[string]int{"tenant": eventBurst, "another": 1}, got.by); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
