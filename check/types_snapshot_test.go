package check

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
)

// TestSnapshotNames checks that a snapshot knows a type by all names that the cluster has for it.
func TestSnapshotNames(t *testing.T) {
	definition := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gateways.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gateway, plural: gateways, singular: gw, shortNames: [gwy]}, versions: [{name: v1beta1, served: true}, {name: v1, served: true, storage: true}, {name: v2, served: false}]}}"))
	if err == nil {
		err = definition.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	world, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{definition})
	if err != nil {
		t.Fatal(err)
	}
	var snapshot bytes.Buffer
	if err := snapshots.Write(world, &snapshot); err != nil {
		t.Fatal(err)
	}
	read, err := snapshots.Read(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"clusterrolebinding", "ClusterRole", "role", "rolebindings", "validatingwebhookconfiguration", "mutatingwebhookconfiguration", "sc", "pdb", "hpa", "endpointslice",
		"resourcequota", "quota", "limits", "volumeattachment", "resourceclaim", "servicecidr", "lease", "pc", "gateway", "gateways", "gateways.x.io", "gateways.v1beta1.x.io", "gateways.v1.x.io", "gw", "gwy",
	} {
		if _, err := FromFacts(read, Name{Type: name, Namespace: "a", Name: "x"}); err == nil || !strings.Contains(err.Error(), "the snapshot has no") {
			t.Errorf("type %s: %v", name, err)
		}
	}
	if _, err := FromFacts(read, Name{Type: "gateways.v2.x.io", Namespace: "a", Name: "x"}); err == nil || !strings.Contains(err.Error(), "there is no type") {
		t.Errorf("for a version that is not served: %v", err)
	}
}

// TestSnapshotOfAnotherVersion removes a section from a snapshot, as if written before the section
// existed: its facts are unknown. An empty section says that there are none.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	engine := newEngine(t)
	world, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "plain", "uid": "1"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if err := snapshots.Write(world, &whole); err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]policies.Verdict{"": policies.Completes, "budgets": policies.Unknown, "apiservices": policies.Unknown} {
		var doc map[string]any
		if err := json.Unmarshal(whole.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if _, written := doc[section]; section != "" && !written {
			t.Fatalf("no section %s", section)
		}
		delete(doc, section)
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		read, err := snapshots.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := FromFacts(read, Name{Type: "ns", Name: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		report, err := ask(t.Context(), engine, read, subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		says := strings.Join(report.Unseen, "; ")
		if report.Verdict != want || strings.Contains(says, "another version of termguard") != (section != "") {
			t.Errorf("without section %q: %s, want %s: %s", section, report.Verdict, want, says)
		}
	}
}
