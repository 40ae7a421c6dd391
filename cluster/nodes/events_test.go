package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

func TestTellsOfFailure(t *testing.T) {
	tests := map[string]struct {
		reason string
		event  corev1.Event
		want   bool
	}{
		"a container that cannot be killed": {
			reason: "the reason says it",
			event:  corev1.Event{Reason: "FailedKillPod"},
			want:   true,
		},
		"killed once": {
			reason: "every deletion sends this once",
			event:  corev1.Event{Reason: "Killing", Count: 1},
		},
		"killed three times": {
			reason: "as after a shim was killed, when the container is then removed",
			event:  corev1.Event{Reason: "Killing", Count: 3},
		},
		"killed again and again": {
			reason: "Killing x735 over 15h: the kubelet sends one event for each attempt",
			event:  corev1.Event{Reason: "Killing", Count: 735},
			want:   true,
		},
		"killed again and again, as a series": {
			reason: "events.k8s.io/v1 counts in a series",
			event:  corev1.Event{Reason: "Killing", Series: &corev1.EventSeries{Count: 735}},
			want:   true,
		},
		"full disk": {
			reason: "whatever failed for it",
			event:  corev1.Event{Reason: "FailedCreatePodSandBox", Message: "mkdir /run/x: no space left on device"},
			want:   true,
		},
		"a program's own failure": {
			reason: "a container that may not do something says nothing about its deletion",
			event:  corev1.Event{Reason: "Failed", Message: "exec /bin/x: operation not permitted"},
		},
		"nothing at all": {reason: "an empty event is no evidence"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tellsOfFailure(&tc.event); got != tc.want {
				t.Errorf("%s\ngot %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// failureEvent returns the i-th event of a flood.
func failureEvent(i int, node string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("e%05d", i)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "web-0"},
		Reason:         "FailedKillPod", Message: strings.Repeat("é", 600),
		LastTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		Source:        corev1.EventSource{Component: "kubelet", Host: node},
	}
}

// TestKubeletEventsAreBounded checks that of 10,000 events only the newest few per node are kept, that the
// caller learns of the dropped ones, and that nothing remains after they are all forgotten.
func TestKubeletEventsAreBounded(t *testing.T) {
	for name, nodes := range map[string]int{"one node": 1, "many nodes": 1000} {
		t.Run(name, func(t *testing.T) {
			listed := map[types.NamespacedName]bool{}
			doc := facts.Document{}
			p := New(doc, Options{MaxNames: 5, Dropped: func(event types.NamespacedName) { delete(listed, event) }, Dependents: dependents.New(doc, 5)})
			for i := range 10_000 {
				e := failureEvent(i, fmt.Sprint("n", i%nodes))
				if p.KeepEvent(e) {
					listed[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}] = true
				}
			}
			want := min(MaxKubeletEvents, nodes*MaxNodeEvents)
			if diff := cmp.Diff([]int{want, want}, []int{len(p.kubeletEvents), len(listed)}); diff != "" {
				t.Errorf("kept, listed: -want +got\n%s", diff)
			}
			for event := range listed {
				p.ForgetEvent(event)
			}
			if diff := cmp.Diff(0, len(p.kubeletEvents)); diff != "" {
				t.Errorf("left behind: -want +got\n%s", diff)
			}
		})
	}
}

func TestHazards(t *testing.T) {
	pod := func(text string) *corev1.Pod {
		var parsed corev1.Pod
		if err := yaml.UnmarshalStrict([]byte("{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a}, spec: "+text+", status: {phase: Running}}"), &parsed); err != nil {
			t.Fatal(err)
		}
		return &parsed
	}
	tests := map[string]struct{ reason, spec, want string }{
		"chattr": {
			reason: "it may set the attribute, and does so in a directory that the kubelet removes",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, command: [sh, -c, 'chattr +i /v/f; exec serve'], securityContext: {capabilities: {add: [LINUX_IMMUTABLE]}}, volumeMounts: [{name: v, mountPath: /v}]}]}",
			want:   "immutable",
		},
		"chattr without the capability": {
			reason: "the kernel refuses it",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, command: [sh, -c, 'chattr +i /v/f; exec serve'], volumeMounts: [{name: v, mountPath: /v}]}]}",
		},
		"chattr in memory": {
			reason: "a tmpfs is unmounted, not removed file by file",
			spec:   "{volumes: [{name: v, emptyDir: {medium: Memory}}], containers: [{name: c, command: [sh, -c, 'chattr -R +ai /v'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}]}",
		},
		"append-only, recursively": {
			reason: "append-only files cannot be removed either",
			spec:   "{volumes: [{name: v, emptyDir: {}}], initContainers: [{name: c, args: ['chattr -R +a /v'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}]}",
			want:   "immutable",
		},
		"taken back": {
			reason: "chattr -i is the cure",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, args: ['chattr -i /v/f'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}]}",
		},
		"chattr of a directory of the node": {
			reason: "a hostPath is not removed",
			spec:   "{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /etc}}], containers: [{name: c, command: [sh, -c, 'chattr +i /host/etc/resolv.conf; date >/v/done'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}, {name: h, mountPath: /host/etc}]}]}",
		},
		"chattr of a mount below it": {
			reason: "the last mount covers the path",
			spec:   "{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /etc}}], containers: [{name: c, args: ['chattr +i /v/etc/a'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}, {name: h, mountPath: /v/etc}]}]}",
		},
		"chattr of one of several": {
			reason: "one of them is in it",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, args: ['chattr +i /etc/a /v/a && true'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}]}",
			want:   "immutable",
		},
		"chattr of what only the shell knows": {
			reason: "it may be in it",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, args: ['chattr +i $FILE'], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}]}",
			want:   "immutable",
		},
		"mounts that reach the node": {
			reason: "Bidirectional propagation into a directory that the kubelet removes",
			spec:   "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]}",
			want:   "mounts",
		},
		"mounts elsewhere on the node": {
			reason: "a hostPath is not removed",
			spec:   "{volumes: [{name: v, hostPath: {path: /mnt}}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]}",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(hazards(pod(tc.spec)), " "); got != tc.want {
				t.Errorf("%s\ngot %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestMadeUpEvents checks that events that no kubelet would send are ignored, because any tenant may write
// events with a kubelet as their source.
func TestMadeUpEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		about corev1.ObjectReference
		want  bool
	}{
		"a pod":          {corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "x"}, true},
		"its node":       {corev1.ObjectReference{Kind: "Node", Name: "n"}, true},
		"another node":   {corev1.ObjectReference{Kind: "Node", Name: "m"}, false},
		"a ConfigMap":    {corev1.ObjectReference{Kind: "ConfigMap", Namespace: "demo", Name: "x"}, false},
		"nothing at all": {corev1.ObjectReference{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(facts.Document{}, Options{})
			got := p.KeepEvent(&corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "e"}, InvolvedObject: tc.about,
				Reason: "FailedKillPod", Source: corev1.EventSource{Component: "kubelet", Host: "n"},
			})
			if got != tc.want {
				t.Errorf("it is evidence: %v, want %v", got, tc.want)
			}
		})
	}
}
