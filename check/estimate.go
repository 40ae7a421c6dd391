package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Took is how long owners took to remove a finalizer after the deletion of other objects.
type Took struct {
	Objects int `json:"objects"` // how many
	// UsualSeconds is the median, and LongestSeconds the maximum, rounded up.
	UsualSeconds   int `json:"usualSeconds"`
	LongestSeconds int `json:"longestSeconds"`
}

// enough is the least number of objects for an estimate.
const enough = 3

// String returns it with the number of objects.
func (t Took) String() string {
	if t.Objects == 1 {
		return fmt.Sprintf("it did so for 1 object before, within %s", seconds(t.LongestSeconds))
	}
	return fmt.Sprintf("it did so for the last %d objects, usually within %s, within %s at most", t.Objects, seconds(t.UsualSeconds), seconds(t.LongestSeconds))
}

// seconds returns a duration in words.
func seconds(n int) string {
	switch {
	case n < 120:
		return fmt.Sprintf("%d s", n)
	case n < 7200:
		return fmt.Sprintf("%d min", n/60)
	}
	return fmt.Sprintf("%d h", n/3600)
}

// estimate adds observed durations to the policies' estimate: of the pods, and of the owners of finalizers
// that the deletion waits for. It needs all of them.
func (r *Item) estimate(stops int) {
	if r.Verdict != policies.Completes {
		return
	}
	usual, longest := 0, 0
	for _, w := range r.WaitsFor {
		if w.Took == nil || w.Took.Objects < enough {
			return
		}
		usual, longest = max(usual, w.Took.UsualSeconds), max(longest, w.Took.LongestSeconds)
	}
	if r.Target.Resource == namespaces.Resource && len(r.WaitsFor) > 0 {
		usual, longest = passes(usual), passes(longest)
	}
	if bound := r.EstimateSeconds; bound != nil { // pods are deleted first
		if stops == 0 && len(r.WaitsFor) == 0 {
			return
		}
		usual, longest = usual+min(cmp.Or(stops, *bound), *bound), longest+*bound
	}
	if longest > 0 {
		r.UsualSeconds, r.EstimateSeconds = &usual, &longest
	}
}

// stopsOf returns how long the pods that the deletion of s waits for usually take to stop, in seconds; 0
// unless observed for all their workloads.
func stopsOf(f cluster.Facts, s Subject) int {
	var waiting []cluster.Pod
	switch s.Type.GroupResource() {
	case pods:
		waiting = []cluster.Pod{f.Pod(s.Namespace, s.Name)}
	case namespaces:
		waiting = slices.Collect(f.Pods(s.Name))
	}
	usual := 0
	for _, pod := range waiting {
		if pod.Node == "" || pod.Phase == "Succeeded" || pod.Phase == "Failed" {
			continue // the API server removes it at once
		}
		seen := f.Stops(pod.Namespace, pod.Workload)
		if seen.Count < enough {
			return 0
		}
		usual = max(usual, seen.UsualSeconds)
	}
	if usual > 0 && s.Type.GroupResource() == namespaces {
		// The namespace controller begins after 5 s, and checks again after half the longest grace period and
		// a second (pkg/controller/namespace/namespace_controller.go).
		return looked(usual, f.LongestGrace(s.Name)/2+1)
	}
	return usual
}

// passes returns when the namespace controller notices, in seconds, that finalizers in a namespace were
// removed: it begins after 5 s, and checks again every 8 s (pkg/controller/namespace/namespace_controller.go,
// namespaceDeletionGracePeriod, and deletion/namespaced_resources_deleter.go, finalizerEstimateSeconds / 2 +
// 1).
func passes(seconds int) int { return looked(seconds, 8) }

// looked returns when the namespace controller, with a period of again seconds, notices a change after some
// seconds.
func looked(seconds, again int) int {
	const begins = 5
	return begins + (seconds+again-1)/again*again
}
