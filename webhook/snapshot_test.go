package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/termguard/termguard/policies"
)

// TestOldCluster reviews with the policies in the binary over a snapshot of clusters too old to run
// termguard: 1.11.2, whose DaemonSet controller loops on node affinity with values out of order,
// and 1.11.3, which fixes that.
func TestOldCluster(t *testing.T) {
	const snapshot = `{"apiVersion": "termguard.dev/v1", "kind": "Facts", "unseen": [], "version": {"git": "VERSION", "bugs": BUGS},
		"namespaces": {"demo": {"phase": "Active", "finalizers": [], "specFinalizers": ["kubernetes"]}},
		"daemonsets": {"demo": {"agent": {"nodeAffinity": [{"field": "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values", "key": "pool", "operator": "In", "values": VALUES}]}}}}`
	const bug = `{"daemonset-node-affinity": {"affected": ">=1.8.0 <1.11.3", "fixedIn": "1.11.3", "symptom": "loop", "source": "https://github.com/kubernetes/kubernetes/issues/66298"}}`
	const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "DELETE",
		"kind": {"group": "", "version": "v1", "kind": "Namespace"}, "resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo", "namespace": "demo", "userInfo": {"username": "ann"}, "oldObject": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}}}}`
	tests := map[string]struct {
		reason, version, bugs, values string
		warns                         bool
	}{
		"affected": {"values out of order in a version with the bug", "v1.11.2", bug, `["b", "a"]`, true},
		"sorted":   {"the same version, values in order", "v1.11.2", bug, `["a", "b"]`, false},
		"fixed":    {"the same values, one version later", "v1.11.3", "{}", `["b", "a"]`, false},
	}
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute}) // a slow machine is no failure
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var doc map[string]any
			if err := json.Unmarshal([]byte(strings.NewReplacer("VERSION", tc.version, "BUGS", tc.bugs, "VALUES", tc.values).Replace(snapshot)), &doc); err != nil {
				t.Fatal(err)
			}
			world := snapshotOf(t, doc)
			answer := httptest.NewRecorder()
			NewHandler(Options{Evaluator: engine, Facts: world}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(review)))
			var got admissionv1.AdmissionReview
			if err := json.NewDecoder(bytes.NewReader(answer.Body.Bytes())).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(strings.Join(got.Response.Warnings, "\n"), "[daemonset-node-affinity]"); warned != tc.warns || !got.Response.Allowed {
				t.Errorf("%s: warned %v, want %v: %v", tc.reason, warned, tc.warns, answer.Body)
			}
		})
	}
}
