package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
)

// eventOf is the Event that a recorder was asked for.
type eventOf struct {
	record.EventRecorder
	About           corev1.ObjectReference
	Reason, Message string
}

func (e *eventOf) Event(about runtime.Object, _, reason, message string) {
	e.About, e.Reason, e.Message = *about.(*corev1.ObjectReference), reason, message
}

func TestEvents(t *testing.T) {
	kiali := LetThrough{
		Resource: schema.GroupResource{Group: "kiali.io", Resource: "kialis"}, APIVersion: "kiali.io/v1alpha1", Kind: "Kiali",
		Namespace: "demo", Name: "kiali", By: "annotation termguard.dev/allow-hang: moving", Policy: "p", Why: "it waits",
	}
	ending := kiali
	ending.Terminating = true
	const message = "kialis.kiali.io/kiali: let through by annotation termguard.dev/allow-hang: moving; refused by policy p: it waits"
	cases := map[string]struct {
		reason string
		what   LetThrough
		want   corev1.ObjectReference
	}{
		"Object":      {"The event is where people look for it.", kiali, corev1.ObjectReference{APIVersion: "kiali.io/v1alpha1", Kind: "Kiali", Namespace: "demo", Name: "kiali"}},
		"Terminating": {"Nothing can be created in a namespace that is being deleted.", ending, corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "demo"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got eventOf
			Events{&got}.LetThrough(tc.what)
			if diff := cmp.Diff(tc.want, got.About); diff != "" {
				t.Errorf("%s\nabout: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(message, got.Message); diff != "" || got.Reason != "DeletionLetThrough" {
				t.Errorf("%s\nmessage: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
