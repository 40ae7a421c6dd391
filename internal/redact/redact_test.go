package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
)

const objects = `
{apiVersion: v1, kind: Namespace, metadata: {name: payroll}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Node, metadata: {name: machine-7.corp}, status: {conditions: [{type: Ready, status: "False", message: machine-7.corp is not healthy}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ledger-0, namespace: payroll}, spec: {nodeName: machine-7.corp, containers: [{name: c, image: ledger}]}, status: {phase: Running}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.acme.example.com}
spec:
  group: acme.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions: [{name: v1, served: true, storage: true}]
status: {storedVersions: [v1]}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: bonuses, namespace: payroll, finalizers: [acme.example.com/cleanup], annotations: {termguard.dev/finalizer-owner: Deployment/payroll/clerk}}}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: treasure, finalizers: [kubernetes.io/vac-protection]}, driverName: csi.example.com}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: vault, namespace: cellar}, spec: {volumeAttributesClassName: treasure}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: clerk, namespace: payroll}, spec: {replicas: 0, selector: {}, template: {metadata: {labels: {app: clerk}}, spec: {containers: [{name: c, image: x}]}}}}
`

// snapshot returns a snapshot of a cluster with the objects above.
func snapshot(t testing.TB) []byte {
	t.Helper()
	var list []*unstructured.Unstructured
	for text := range strings.SplitSeq(objects, "\n---\n") {
		object := &unstructured.Unstructured{}
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = object.UnmarshalJSON(asJSON)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, object)
	}
	world, err := cluster.FromObjects(cluster.Options{}, list)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := snapshots.Write(world, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshot(t *testing.T) {
	schema, err := policies.FactsSchema()
	if err != nil {
		t.Fatal(err)
	}
	plain := snapshot(t)
	names := []string{"payroll", "machine-7", "ledger-0", "bonuses", "clerk", "treasure", "cellar/vault"}
	for _, name := range names {
		if !strings.Contains(string(plain), name) {
			t.Errorf("the snapshot does not hold %q: nothing is proven", name)
		}
	}
	got, err := Snapshot(plain, schema, []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "cellar", "vault") {
		if strings.Contains(string(got), name) {
			t.Errorf("%q is still in it:\n%s", name, got)
		}
	}
	for _, word := range []string{"widgets.acme.example.com", "acme.example.com/cleanup", `"pods"`, `"notReady"`} {
		if !strings.Contains(string(got), word) {
			t.Errorf("%q is missing:\n%s", word, got)
		}
	}
	again, err := Snapshot(plain, schema, []byte("one"))
	if err != nil || !bytes.Equal(got, again) {
		t.Errorf("the same names do not have the same hashes (%v)", err)
	}
	if other, err := Snapshot(plain, schema, []byte("another")); err != nil || bytes.Equal(got, other) {
		t.Errorf("two snapshots can be laid side by side (%v)", err)
	}
	// The snapshot still works: names that belong together still match.
	if _, err := snapshots.Read(bytes.NewReader(got)); err != nil {
		t.Error(err)
	}
	var doc struct {
		Namespaces map[string]any
		Finalized  map[string]any
		Pods       map[string]map[string]struct{ Node string }
		Nodes      map[string]any
	}
	if err := json.Unmarshal(got, &doc); err != nil {
		t.Fatal(err)
	}
	for namespace := range doc.Namespaces {
		if doc.Finalized[namespace] == nil || len(doc.Pods[namespace]) != 1 {
			t.Errorf("namespace %s has lost its objects", namespace)
		}
		for _, pod := range doc.Pods[namespace] {
			if doc.Nodes[pod.Node] == nil {
				t.Errorf("node %s of a pod is not there", pod.Node)
			}
		}
	}
	for _, bad := range []string{"", "[]", string(plain) + "{}"} {
		if _, err := Snapshot([]byte(bad), schema, nil); err == nil {
			t.Errorf("%.10q is taken for a snapshot", bad)
		}
	}
}

// TestWritten checks that strings written by users are replaced: lease holders, reasons, messages of
// policies, file paths, and taint keys outside Kubernetes.
func TestWritten(t *testing.T) {
	schema, err := policies.FactsSchema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Snapshot([]byte(`{
		"probes": {"m": {"at": "", "all": [], "unseen": ["files in /var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/salaries: no"], "pods": {"a": {"b": [{"cause": "immutable", "certainty": "will", "evidence": "/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/data/salaries_2026.db is immutable (lsattr): nobody can remove it", "remedy": "chattr -i '/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/data/salaries_2026.db'"}]}}}},
		"nodes": {"m": {"taints": ["salaries.example.com/only", "node.kubernetes.io/unreachable"]}},
		"namespaces": {"n": {"annotations": {"termguard.dev/allow-hang": "Jane owns the salaries"}}},
		"finalized": {"n": {"x.io/f": {"pods": {"s": {"count": 1, "names": [], "ownership": {"state": "unknown", "certainty": "may", "evidence": ["lease ops/op, named after API group x.io, is held by salaries-7d9_1234, which is no pod here"]}}}}}},
		"admissionpolicies": {"validating/p": {"validations": ["salaries stay"]}}
	}`), schema, []byte("one"))
	if err != nil || strings.Contains(string(got), "salaries") || strings.Contains(string(got), "Jane") {
		t.Errorf("%v: %s", err, got)
	}
	for _, stays := range []string{"node.kubernetes.io/unreachable", "/var/lib/kubelet/pods/", "is immutable (lsattr): nobody can remove it", "chattr -i", "which is no pod"} {
		if !strings.Contains(string(got), stays) {
			t.Errorf("%q is missing: %s", stays, got)
		}
	}
}

// filler builds a document with a value in every field of a schema: names contain mark, other strings contain
// word.
type filler struct {
	definitions map[string]any
	count       int
}

func (f *filler) one(what any) string {
	f.count++
	name, stays := fmt.Sprintf("mark-%d", f.count), fmt.Sprintf("word-%d", f.count)
	switch what {
	case nil, "name":
		return name
	case "word":
		return stays
	case "key":
		return name
	case "text":
		return "DaemonSet mark-0/" + name + " waits for mark-elsewhere"
	case "expression":
		return `request.userInfo.username != "` + name + `" && x in ['` + name + `']`
	}
	return strings.NewReplacer("name", name, "word", stays).Replace(what.(string))
}

func (f *filler) fill(schema map[string]any, keys []any) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema = f.definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	if of, ok := schema["keys"].([]any); ok {
		keys = of
	}
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	kind := schema["type"]
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch kind {
	case "object":
		filled := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, of := range properties {
			filled[name] = f.fill(of.(map[string]any), nil)
		}
		if others, ok := schema["additionalProperties"].(map[string]any); ok {
			key, below := any(nil), []any(nil)
			if len(keys) > 0 {
				key, below = keys[0], keys[1:]
			}
			filled[f.one(key)] = f.fill(others, below)
		} else if schema["additionalProperties"] == true {
			filled["other"] = map[string]any{"list": []any{f.one(schema["holds"])}}
		}
		return filled
	case "array":
		return []any{f.fill(schema["items"].(map[string]any), nil)}
	case "string":
		return f.one(schema["holds"])
	case "integer":
		return 1
	case "boolean":
		return true
	}
	panic(fmt.Sprintf("a schema of type %v", schema["type"]))
}

// TestEveryField checks that no field of the facts keeps a name and every field keeps its words.
func TestEveryField(t *testing.T) {
	schema, err := policies.FactsSchema()
	if err != nil {
		t.Fatal(err)
	}
	var shape map[string]any
	if err := json.Unmarshal(schema, &shape); err != nil {
		t.Fatal(err)
	}
	f := filler{definitions: shape["definitions"].(map[string]any)}
	doc := f.fill(shape, nil).(map[string]any)
	doc["namespaces"].(map[string]any)["mark-elsewhere"] = map[string]any{} // appears in texts
	plain, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Snapshot(plain, schema, []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`.*mark-.*`).FindAllString(string(got), -1) {
		t.Errorf("still there:%s", name)
	}
	words := regexp.MustCompile(`word-\d+`)
	for _, word := range words.FindAllString(string(plain), -1) {
		if !strings.Contains(string(got), word) {
			t.Errorf("%s is missing", word)
		}
	}
	if marks := len(regexp.MustCompile(`mark-\d+`).FindAll(plain, -1)); marks < 100 {
		t.Errorf("%d names in all fields: that proves little", marks)
	}
}

func FuzzSnapshot(f *testing.F) {
	schema, err := policies.FactsSchema()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot(f))
	f.Add([]byte(`{"namespaces":{"a":1},"pods":{"a":[]},"counts":{"a":{"b":{}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := Snapshot(text, schema, nil); err == nil && !json.Valid(got) {
			t.Errorf("no JSON: %s", got)
		}
	})
}
