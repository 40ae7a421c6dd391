package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// TestProbeEvidence checks who sees the findings of a node probe: a user who can read its report
// sees the file, the process or the mount by name and what to run; others see only the cause, from
// the webhook.
func TestProbeEvidence(t *testing.T) {
	race.Skip(t)
	const volumes = "/var/lib/kubelet/pods/6f1c/volumes/"
	for cause, tc := range map[string]struct{ policy, certainty, evidence, remedy string }{
		"immutable": {"immutable-files", "will", volumes + "kubernetes.io~empty-dir/v/f is immutable (lsattr): it cannot be removed", "chattr -i '" + volumes + "kubernetes.io~empty-dir/v/f'"},
		"busy":      {"busy-mount", "may", "process 4711 (secretive), which is not the pod's, works in its volume " + volumes + "kubernetes.io~empty-dir/v", "kill 4711"},
		"stuck":     {"node-already-stuck", "may", "process 4711 (secretive) is in state D, in rpc_wait_bit_killable: no signal reaches it", ""},
	} {
		t.Run(cause, func(t *testing.T) {
			c := newFakeCluster(t, `{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: "True", reason: KubeletReady, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: demo}, spec: {nodeName: n1, containers: [{name: web, image: web}]}, status: {phase: Running}}
`)
			uid := c.objects["/api/v1/namespaces/demo/pods/web-0"]["metadata"].(map[string]any)["uid"].(string)
			c.apply(fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: termguard-probe-n1, namespace: termguard-system, labels: {termguard.dev/probe: "true"}}
data:
  report.json: |
    {"apiVersion": "termguard.dev/v1", "kind": "Probe", "node": "n1", "time": %[2]q, "pods": 1, "files": 1, "unseen": [], "findings":
      [{"cause": %[3]q, "certainty": %[4]q, "pod": {"namespace": "demo", "name": "web-0", "uid": %[1]q}, "evidence": %[5]q, "remedy": %[6]q}]}
`, uid, time.Now().UTC().Format(time.RFC3339), cause, tc.certainty, tc.evidence, tc.remedy))
			command := func(args ...string) string {
				t.Helper()
				var out, errs bytes.Buffer
				if code := run(t.Context(), append([]string{"termguard", "--kubeconfig", c.kubeconfig}, args...), nil, &out, &errs); code == exitFailed {
					t.Fatalf("%v: %s", args, &errs)
				}
				return out.String()
			}
			if got := command("check", "pod/web-0", "-o", "json"); !strings.Contains(got, tc.policy) || !strings.Contains(got, tc.evidence) || !strings.Contains(got, tc.remedy) {
				t.Errorf("with the right to read the report:\n%s", got)
			}

			file := filepath.Join(t.TempDir(), "facts.json")
			if err := os.WriteFile(file, []byte(command("snapshot")), 0o600); err != nil {
				t.Fatal(err)
			}
			c.hidden = []string{"configmaps"}
			if got := command("check", "pod/web-0", "-o", "json"); strings.Contains(got, "6f1c") || strings.Contains(got, "4711") {
				t.Errorf("without the right to read the report:\n%s", got)
			}
			if got := warnings(t, file, uid); !strings.Contains(got, "["+tc.policy+"]") || strings.Contains(got, "6f1c") || strings.Contains(got, "4711") {
				t.Errorf("warnings about the deletion of the pod:\n%s", got)
			}
		})
	}
}

// warnings returns the webhook's warnings about the deletion of the pod, by the facts in a file.
func warnings(t *testing.T, file, uid string) string {
	t.Helper()
	a, err := snapshots.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	world, err := a.World(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute}) // a slow machine is no failure
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	webhook.NewHandler(webhook.Options{Evaluator: engine, Facts: world}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, webhook.Path, strings.NewReader(
		`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "DELETE",
			"kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
			"name": "web-0", "namespace": "demo", "userInfo": {"username": "ann"}, "oldObject": {"apiVersion": "v1", "kind": "Pod",
			"metadata": {"name": "web-0", "namespace": "demo", "uid": "`+uid+`"}, "spec": {"nodeName": "n1", "containers": [{"name": "web"}]}, "status": {"phase": "Running"}}}}`)))
	return answer.Body.String()
}
