package answer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
)

// learnedFacts holds a namespace with two groups of finalized objects, whose owner took as long as
// DURATIONS says.
const learnedFacts = `{
	"apiVersion": "termguard.dev/v1", "kind": "Facts",
	"namespaces": {"demo": {"phase": "Active", "specFinalizers": ["kubernetes"]}},
	"counts": {"demo": {"buckets.s3.test": 3, "users.s3.test": 1}},
	"finalized": {"demo": {
		"s3.test/f": {"buckets.s3.test": {"": {"count": 3, "names": ["a"], "at": [0], "ownership": {"state": "alive", "certainty": "will", "owner": "provider-aws", "evidence": ["it runs"]}}}},
		"s3.test/g": {"users.s3.test": {"": {"count": 1, "names": ["b"], "at": [0], "ownership": {"state": "alive", "certainty": "will", "owner": "provider-aws", "evidence": ["it runs"]}}}}}},
	"durations": DURATIONS}`

func TestEstimate(t *testing.T) {
	const (
		buckets = `"s3.test/f": {"buckets.s3.test": {"": {"count": 12, "usualSeconds": 2, "longestSeconds": 40, "last": "2026-01-01T00:00:00Z"}, "demo": {"count": 20, "usualSeconds": 3, "longestSeconds": 9, "last": "2026-01-01T00:00:00Z"}}}`
		users   = `"s3.test/g": {"users.s3.test": {"": {"count": 7, "usualSeconds": 1, "longestSeconds": 20, "last": "2026-01-01T00:00:00Z"}}}`
		once    = `"s3.test/g": {"users.s3.test": {"": {"count": 1, "usualSeconds": 20, "longestSeconds": 20, "last": "2026-01-01T00:00:00Z"}}}`
	)
	seconds := func(n int) *int { return &n }
	pods := policies.Finding{Certainty: policies.May, Severity: policies.Info, Message: "slow", EstimateSeconds: seconds(32)}
	tests := map[string]struct {
		reason    string
		durations string
		findings  []policies.Finding
		usual     *int
		estimate  *int
		says      string
	}{
		"of each": {
			"the slowest counts, and that the namespace controller looks every 8 s; what was seen in the namespace comes first",
			"{" + buckets + "," + users + "}", nil, seconds(5 + 8), seconds(5 + 3*8), "removes 4 finalizers, usually within 13 s, within 29 s at most",
		},
		"beside pods": {
			"they go first", "{" + buckets + "," + users + "}", []policies.Finding{pods},
			seconds(32 + 13), seconds(32 + 29), "usually within 45 s, within 61 s at most",
		},
		"of one of them": {
			"nobody can tell", "{" + buckets + "}", nil, nil, nil, "removes 4 finalizers\n",
		},
		"once": {
			"one object is no measure, but is told", "{" + buckets + "," + once + "}", nil, nil, nil, "it did so for 1 object before, within 20 s",
		},
		"evidence": {
			"what it rests on", "{" + buckets + "," + users + "}", nil, seconds(13), seconds(29), "it did so for the last 20 objects, usually within 3 s, within 9 s at most",
		},
		"hang": {
			"a deletion that hangs has no estimate", "{" + buckets + "," + users + "}", []policies.Finding{{Certainty: policies.Will, Severity: policies.High, Message: "stuck"}}, nil, nil, "hangs: ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			world, err := factsFrom(strings.Replace(learnedFacts, "DURATIONS", tc.durations, 1))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "demo"}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), evaluated(answer{Result: policies.Result{Findings: tc.findings}}), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*int{tc.usual, tc.estimate}, []*int{report.UsualSeconds, report.EstimateSeconds}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			var text bytes.Buffer
			if err := report.all.Text(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), tc.says) {
				t.Errorf("%s: %q is missing from\n%s", tc.reason, tc.says, &text)
			}
		})
	}
}

// podFacts holds a namespace with two pods, and how long pods of their workloads took.
const podFacts = `{
	"apiVersion": "termguard.dev/v1", "kind": "Facts",
	"namespaces": {"demo": {"phase": "Active", "specFinalizers": ["kubernetes"]}},
	"counts": {"demo": {"pods": 3}},
	"pods": {"demo": {
		"web-1": {"node": "n", "phase": "Running", "workload": "Deployment/web"},
		"db-0": {"node": "n", "phase": "Running", "workload": "StatefulSet/db"},
		"done": {"node": "n", "phase": "Succeeded", "workload": "Job/once"}}},
	"podsByGrace": {"demo": {"30": {"count": 2, "names": ["db-0", "web-1"]}}},
	"stops": {"demo": STOPS}}`

// TestUsualStops checks that the usual duration of a pod comes from how long pods of its workload
// took.
func TestUsualStops(t *testing.T) {
	const (
		web  = `"Deployment/web": {"count": 9, "usualSeconds": 2, "longestSeconds": 4, "last": "2026-01-01T00:00:00Z"}`
		db   = `"StatefulSet/db": {"count": 3, "usualSeconds": 20, "longestSeconds": 25, "last": "2026-01-01T00:00:00Z"}`
		once = `"StatefulSet/db": {"count": 1, "usualSeconds": 20, "longestSeconds": 25, "last": "2026-01-01T00:00:00Z"}`
	)
	seconds := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		reason, stops, kind, name string
		bound                     int
		usual                     *int
		says                      string
	}{
		"a pod":                   {"as long as other pods of its workload", "{" + web + "}", "pods", "web-1", 31, seconds(2), "usually within 2 s, within 31 s at most"},
		"a pod with less time":    {"the grace period bounds it", "{" + web + "}", "pods", "web-1", 1, seconds(1), "within 1 s"},
		"a pod of another":        {"no duration was seen", "{" + db + "}", "pods", "web-1", 31, nil, "within 31 s"},
		"a namespace":             {"its slowest pod, and the 16 s between retries of its controller", "{" + web + "," + db + "}", "ns", "demo", 41, seconds(5 + 2*16), "usually within 37 s, within 41 s at most"},
		"a namespace, seen once":  {"one pod is not enough", "{" + web + "," + once + "}", "ns", "demo", 41, nil, "within 41 s"},
		"a namespace, seen never": {"no duration was seen", "{}", "ns", "demo", 41, nil, "within 41 s"},
	} {
		t.Run(name, func(t *testing.T) {
			world, err := factsFrom(strings.Replace(podFacts, "STOPS", tc.stops, 1))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: tc.kind, Namespace: "demo", Name: tc.name}})
			if err != nil {
				t.Fatal(err)
			}
			slow := policies.Finding{Certainty: policies.May, Severity: policies.Info, Message: "slow", EstimateSeconds: seconds(tc.bound)}
			report, err := ask(t.Context(), evaluated(answer{Result: policies.Result{Findings: []policies.Finding{slow}}}), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*int{tc.usual, seconds(tc.bound)}, []*int{report.UsualSeconds, report.EstimateSeconds}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			var text bytes.Buffer
			if err := report.all.Text(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), tc.says) {
				t.Errorf("%s: %q is missing from\n%s", tc.reason, tc.says, &text)
			}
		})
	}
}
