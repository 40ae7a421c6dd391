package nodes

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStopSeconds(t *testing.T) {
	hook := func(h corev1.LifecycleHandler) []corev1.Container {
		return []corev1.Container{{Name: "web", Lifecycle: &corev1.Lifecycle{PreStop: &h}}, {Name: "log"}}
	}
	plain, always := []corev1.Container{{Name: "web"}}, corev1.ContainerRestartPolicyAlways
	sleep := func(s int64) corev1.LifecycleHandler {
		return corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: s}}
	}
	tests := map[string]struct {
		reason string
		grace  *int64
		pod    corev1.Pod
		want   int64
	}{
		"default":            {reason: "30 s", pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain}}, want: 30},
		"none":               {reason: "the API server removes it at once", grace: new(int64), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain}}, want: 0},
		"negative":           {reason: "the API server reads 1, and the kubelet gives no less than 2", grace: seconds(-5), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain}}, want: 2},
		"huge":               {reason: "bounded, and not overflown", grace: seconds(math.MaxInt64), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: hook(corev1.LifecycleHandler{})}}, want: maxGrace + 2},
		"hook":               {reason: "a hook may use all of it, and 2 s are left", grace: seconds(10), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: hook(corev1.LifecycleHandler{})}}, want: 12},
		"sleep":              {reason: "a short sleep is part of it", grace: seconds(10), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: hook(sleep(3))}}, want: 10},
		"long sleep":         {reason: "a long one is cut at the grace period", grace: seconds(10), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: hook(sleep(300))}}, want: 12},
		"sidecar":            {reason: "it waits for the others and then has 2 s", grace: seconds(10), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain, InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always}}}}, want: 12},
		"ordinary init":      {reason: "it has ended long ago", grace: seconds(10), pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain, InitContainers: []corev1.Container{{Name: "setup"}}}}, want: 10},
		"mirror of a static": {reason: "its kubelet removes it as soon as it sees it", pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}, Spec: corev1.PodSpec{Containers: plain}}, want: 0},
		"crash loop": {
			reason: "nothing runs",
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: plain}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			}}},
			want: 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.pod.Spec.TerminationGracePeriodSeconds = tc.grace
			if got := stopSeconds(&tc.pod); got != tc.want {
				t.Errorf("%s\ngot %d s, want %d s", tc.reason, got, tc.want)
			}
		})
	}
}

func seconds(s int64) *int64 { return &s }
