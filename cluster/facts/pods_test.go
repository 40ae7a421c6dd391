package facts

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFailing(t *testing.T) {
	now := time.Unix(1e9, 0)
	ended := func(after time.Duration, code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(now.Add(-after)), FinishedAt: metav1.NewTime(now), ExitCode: code,
		}}
	}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	const short, long = 2 * time.Second, SteadyAfter + time.Second
	tests := map[string]struct {
		reason        string
		restarts      int32
		state, before corev1.ContainerState // now, and how the run before ended
		init          bool
		want          string
	}{
		"waits":                      {"the kubelet says so", 3, waits("CrashLoopBackOff"), ended(short, 1), false, "CrashLoopBackOff"},
		"waits, crashed once":        {"one crash passes", 1, waits("CrashLoopBackOff"), ended(short, 1), false, ""},
		"ended":                      {"the kubelet waits, and says so 10 s later", 3, ended(short, 1), ended(short, 1), false, "CrashLoopBackOff"},
		"ended without an error":     {"its pod starts it again all the same", 3, ended(short, 0), ended(short, 0), false, "CrashLoopBackOff"},
		"ended, crashed twice":       {"near miss: not often enough", 2, ended(short, 1), ended(short, 1), false, ""},
		"ended after hours":          {"near miss: it has lost its lease, and is started again at once", 3, ended(long, 1), ended(short, 1), false, ""},
		"ended, after hours of work": {"near miss: it has crashed once, after a run that was long", 3, ended(short, 1), ended(long, 1), false, ""},
		"ended, no trace":            {"near miss: its earlier state is forgotten", 3, ended(short, 1), corev1.ContainerState{}, false, ""},
		"runs again":                 {"it may have mended itself", 3, runs, ended(short, 1), false, ""},
		"init ended":                 {"the pod cannot start", 3, ended(short, 1), ended(short, 1), true, "CrashLoopBackOff"},
		"init done":                  {"near miss: it was done at last", 3, ended(short, 0), ended(short, 1), true, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			status := []corev1.ContainerStatus{{RestartCount: tc.restarts, State: tc.state, LastTerminationState: tc.before}}
			if tc.init {
				pod.Status.InitContainerStatuses = status
			} else {
				pod.Status.ContainerStatuses = status
			}
			if got := Failing(pod); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
