package check

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
)

// TestSnapshotNames asks a snapshot for types by all names that the cluster knows them by.
func TestSnapshotNames(t *testing.T) {
	definition := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gateways.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gateway, plural: gateways, singular: gw, shortNames: [gwy]}, versions: [{name: v1, served: true, storage: true}]}}"))
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
	if err := world.WriteSnapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	read, err := cluster.ReadSnapshot(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"clusterrolebinding", "ClusterRole", "role", "rolebindings", "validatingwebhookconfiguration", "mutatingwebhookconfiguration", "sc", "pdb", "hpa", "endpointslice",
		"resourcequota", "quota", "limits", "volumeattachment", "resourceclaim", "servicecidr", "lease", "pc", "gateway", "gateways", "gateways.x.io", "gw", "gwy",
	} {
		if _, err := FromFacts(read, Name{Type: name, Namespace: "a", Name: "x"}); err == nil || !strings.Contains(err.Error(), "the snapshot has no") {
			t.Errorf("type %s: %v", name, err)
		}
	}
}
