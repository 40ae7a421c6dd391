package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOddNodes checks that odd or missing fields of one node do not affect the facts about others.
func TestOddNodes(t *testing.T) {
	tests := map[string]struct {
		reason, node string
		ready        any
		bugs         []string
	}{
		"without status":        {"it was just registered", `{}`, "Unknown", nil},
		"without conditions":    {"as above", `{status: {nodeInfo: {kubeletVersion: v1.36.3}}}`, "Unknown", nil},
		"unknown runtime":       {"its bugs are unknown", `{status: {nodeInfo: {containerRuntimeVersion: "podman://1.0.0"}}}`, "Unknown", nil},
		"runtime without name":  {"as above", `{status: {nodeInfo: {containerRuntimeVersion: "://1.0.0"}}}`, "Unknown", nil},
		"runtime without colon": {"as above", `{status: {nodeInfo: {containerRuntimeVersion: "docker 17.3.2"}}}`, "Unknown", nil},
		"runtime of no version": {"a version that is none is in no range", `{status: {nodeInfo: {containerRuntimeVersion: "docker://Unknown"}}}`, "Unknown", nil},
		"kubelet of no version": {"as above", `{status: {nodeInfo: {kubeletVersion: "\uFFFD"}, conditions: [{type: Ready, status: "True"}]}}`, "True", nil},
		"runtime with a bug":    {"the range applies whatever else is missing", `{status: {nodeInfo: {containerRuntimeVersion: "docker://17.3.2"}}}`, "Unknown", []string{"docker-device-busy"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, "{apiVersion: v1, kind: Node, metadata: {name: n1}, "+tc.node[1:])
			if got := at(w, "nodes", "n1", "ready"); got != tc.ready {
				t.Errorf("%s\nready: got %v, want %v", tc.reason, got, tc.ready)
			}
			var bugs []string
			entries, _ := at(w, "nodes", "n1", "bugs").(map[string]any)
			for id := range entries {
				bugs = append(bugs, id)
			}
			if diff := cmp.Diff(tc.bugs, bugs); diff != "" {
				t.Errorf("%s\nbugs: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestGoneNodes checks that a node counts as deleted only while a pod needs it and other nodes are
// seen.
func TestGoneNodes(t *testing.T) {
	const pod = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {nodeName: n9}, status: {phase: Running}}"
	const node = "\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}"
	tests := map[string]struct {
		reason, cluster string
		want            map[string]any
	}{
		"gone":            {"pod garbage collection takes the pod", node + pod, map[string]any{"n9": map[string]any{}}},
		"there":           {"its kubelet does", node + "\n---\n{apiVersion: v1, kind: Node, metadata: {name: n9}}" + pod, map[string]any{}},
		"no node is seen": {"manifests, or no right to see them", pod, map[string]any{}},
		"no pod":          {"no pod waits for it", node, map[string]any{}},
		"finished":        {"the API server removes it at once", node + "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {nodeName: n9}, status: {phase: Failed}}", map[string]any{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster[len("\n---\n"):])
			if diff := cmp.Diff(tc.want, at(w, "gone")); diff != "" {
				t.Errorf("%s\n-want +got\n%s", tc.reason, diff)
			}
		})
	}
}
