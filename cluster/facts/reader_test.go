package facts

import (
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// section returns a section that makes its map while it is read, as a part does.
func section(of map[string]any) Section {
	return Section{Keys: func() iter.Seq[string] { return maps.Keys(of) }, Below: func(key string) any { return of[key] }}
}

// TestReader checks that a reader returns the same for a cluster, whose sections are made while
// they are read and whose numbers are ints, and for a file, with maps and float64.
func TestReader(t *testing.T) {
	web := map[string]any{"node": "n1", "phase": "Running", "workload": "ReplicaSet/web", "owner": map[string]any{"kind": "ReplicaSet"}, "missingDrivers": []any{"d"}}
	rest := func(number func(int) any) map[string]any {
		return map[string]any{
			"now":    "2026-11-21T09:00:00Z",
			"counts": map[string]any{"demo": map[string]any{"pods": number(3)}},
			"stops":  map[string]any{"demo": map[string]any{"ReplicaSet/web": map[string]any{"count": number(4), "usualSeconds": number(2), "longestSeconds": number(9)}}},
			"finalized": map[string]any{"demo": map[string]any{"x.io/f": map[string]any{"gadgets.x.io": map[string]any{"s": map[string]any{
				"count": number(2), "names": []any{"a", "b"}, "ownership": map[string]any{"state": "alive", "owner": "op", "evidence": []any{"it runs"}},
			}}}}},
		}
	}
	live := rest(func(n int) any { return n })
	live["pods"] = section(map[string]any{"demo": section(map[string]any{"web": web})})
	live["podsByGrace"] = section(map[string]any{"demo": map[string]any{"30": nil, "90": map[string]any{}}})
	file := rest(func(n int) any { return float64(n) })
	file["pods"] = map[string]any{"demo": map[string]any{"web": web}}
	file["podsByGrace"] = map[string]any{"demo": map[string]any{"30": nil, "90": map[string]any{}}}
	type seen struct {
		Now     string
		Pods    []Pod
		Pod     Pod
		Count   int
		Stops   Durations
		Grace   int
		Groups  [][]string
		Held    int
		Verdict Verdict
	}
	want := seen{
		Now:  "2026-11-21 09:00:00 +0000 UTC",
		Pods: []Pod{{Namespace: "demo", Name: "web", Node: "n1", Phase: "Running", Kind: "ReplicaSet", Workload: "ReplicaSet/web"}},
		Pod:  Pod{Namespace: "demo", Name: "none"}, Count: 3, Stops: Durations{4, 2, 9}, Grace: 90, Groups: [][]string{{"a", "b"}}, Held: 2,
		Verdict: Verdict{State: "alive", Owner: "op", Evidence: []string{"it runs"}},
	}
	for reason, doc := range map[string]map[string]any{"a cluster": live, "a file": file} {
		r := Read(doc)
		got := seen{Now: r.Now().String(), Pods: slices.Collect(r.AllPods()), Pod: r.Pod("demo", "none"), Count: r.Count("demo", "pods"), Stops: r.Stops("demo", "ReplicaSet/web"), Grace: r.LongestGrace("demo")}
		for h := range r.Held("demo", "gadgets.x.io") {
			got.Groups, got.Held, got.Verdict = append(got.Groups, h.Names), got.Held+h.Count, h.Owner()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", reason, diff)
		}
	}
}
