package check

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// TestForegroundOfSnapshot deletes the Deployment of the fixtures in the foreground, as a snapshot
// has it. A snapshot has no UIDs: check says "unknown" if a dependent may block it, and "completes"
// if none in its namespace can.
func TestForegroundOfSnapshot(t *testing.T) {
	const folder = "../policies/foreground_deletion_blocked/testdata/"
	engine := newEngine(t)
	elsewhere := strings.NewReplacer("namespace: demo", "namespace: elsewhere")
	for _, tt := range []struct {
		reason, file, cascade string
		another               bool // as if all of the fixture stood in another namespace
		want                  policies.Verdict
	}{
		{"a pod two links down has a finalizer that nobody removes", "hang_finalizer.yaml", "foreground", false, policies.Unknown},
		{"a pod two links down is on a node that is not ready", "hang_node.yaml", "foreground", false, policies.Unknown},
		{"in the background it waits for nobody", "hang_finalizer.yaml", "background", false, policies.Completes},
		{"what may hold an owner is in another namespace", "hang_finalizer.yaml", "foreground", true, policies.Completes},
		{"the node is ready", "ok_node_ready.yaml", "foreground", false, policies.Completes},
		{"Kubernetes removes the finalizer", "ok_built_in.yaml", "foreground", false, policies.Completes},
		{"the reference does not block", "ok_not_blocking.yaml", "foreground", false, policies.Completes},
	} {
		text, err := os.ReadFile(folder + tt.file)
		if err != nil {
			t.Fatal(err)
		}
		whole := string(text)
		if tt.another {
			whole = elsewhere.Replace(whole) + "\n---\n" + "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: demo, uid: other}}\n"
		}
		var snapshot bytes.Buffer
		if err := snapshots.Write(worldFrom(t, whole), &snapshot); err != nil {
			t.Fatal(err)
		}
		read, err := snapshots.Read(&snapshot)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FromFacts(read, Name{Type: "deployments.apps", Namespace: "demo", Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		options, err := question.FromFlags(tt.cascade, -1, false)
		if err != nil {
			t.Fatal(err)
		}
		report, err := ask(t.Context(), engine, read, s, options)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != tt.want {
			t.Errorf("%s (%s): got %s, want %s: %q", tt.reason, tt.file, report.Verdict, tt.want, report.Unseen)
		}
	}
}
