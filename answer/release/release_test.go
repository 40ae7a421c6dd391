package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packed returns text as Helm stores it.
func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.AppendEncode(nil, buf.Bytes())
}

func record(t testing.TB, fields map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, text)
}

// objects lists the deleted objects, each as PLACE KIND/NAME.
func objects(u Uninstall) (lines []string) {
	for place, together := range u.Deletes {
		for _, object := range together {
			lines = append(lines, fmt.Sprintf("%d %s", place, called(object.GetKind(), object.GetName())))
		}
	}
	return lines
}

func TestUninstall(t *testing.T) {
	r, err := Decode(record(t, map[string]any{
		"name": "demo", "namespace": "ops", "version": 3, "info": map[string]any{"status": "deployed", "first_deployed": ""},
		"manifest": `---
# Source: demo/templates/crs.yaml
apiVersion: x.io/v1
kind: Widget
metadata: {name: w}
---
apiVersion: x.io/v1
kind: Gadget
metadata: {name: g}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: op}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}
---apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, annotations: {helm.sh/resource-policy: " Keep"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: odd, annotations: {helm.sh/resource-policy: other}}}
---
{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}
`,
		"hooks": []any{
			map[string]any{"name": "clean", "kind": "Job", "events": []any{"pre-delete"}, "delete_policies": []any{"hook-succeeded"}},
			map[string]any{"name": "last", "kind": "Job", "events": []any{"post-delete"}},
		},
		"chart": map[string]any{"files": []any{
			map[string]any{"name": "crds/w.yaml", "data": []byte("kind: CustomResourceDefinition\nmetadata: {name: widgets.x.io}\n---\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.x.io}\n")},
			map[string]any{"name": "crds/README", "data": []byte(": [")},
			map[string]any{"name": "README.md", "data": []byte("x")},
		}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	u, err := r.Uninstall()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0 deployment/b", "0 deployment/a", "1 serviceaccount/op", "2 gadget/g", "3 secret/s", "4 widget/w"}
	if diff := cmp.Diff(want, objects(u)); diff != "" {
		t.Errorf("deleted objects: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"hooks run before anything is deleted: job/clean. If one fails, nothing is deleted. The objects that hooks delete are unknown",
		"hooks run after everything else: job/last",
		"it leaves objects that hooks created: job/last",
		"it leaves objects that helm.sh/resource-policy keeps: persistentvolumeclaim/data",
		"it leaves the CustomResourceDefinitions of the chart's folder crds, and all objects of them: widgets.x.io, gadgets.x.io",
	}, u.Sentences()); diff != "" {
		t.Errorf("notes: -want, +got:\n%s", diff)
	}
}

// helm template prints hooks among the other objects.
func TestOrderOfTemplate(t *testing.T) {
	u, err := Order("{apiVersion: v1, kind: Pod, metadata: {name: test, annotations: {helm.sh/hook: 'test, Pre-Delete', helm.sh/hook-delete-policy: hook-succeeded}}}\n---\n# none\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p}}\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Hook{{Name: "test", Kind: "Pod", Events: []string{"test", "pre-delete"}, DeletePolicies: []string{"hook-succeeded"}}}, u.Hooks); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0 pod/p"}, objects(u)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, err := Order("a: [\n", false); err == nil || !strings.Contains(err.Error(), "document 0 of the manifest") {
		t.Errorf("broken YAML: error %v", err)
	}
}

// Only Helm 4 deletes webhook configurations before their Services, and the record shows it by its
// method of applying objects.
func TestOrderByVersion(t *testing.T) {
	manifest := "{apiVersion: v1, kind: Service, metadata: {name: s}}\n---\n{apiVersion: x.io/v1, kind: Widget, metadata: {name: w}}\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: v}}\n"
	for method, want := range map[string][]string{
		"ssa": {"0 validatingwebhookconfiguration/v", "1 service/s", "2 widget/w"},
		"":    {"0 service/s", "1 validatingwebhookconfiguration/v", "2 widget/w"},
	} {
		r, err := Decode(record(t, map[string]any{"name": "demo", "version": 1, "manifest": manifest, "apply_method": method}))
		if err != nil {
			t.Fatal(err)
		}
		u, err := r.Uninstall()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, objects(u)); diff != "" {
			t.Errorf("applied by %q: -want, +got:\n%s", method, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := record(t, map[string]any{"name": "demo", "version": 1, "manifest": strings.Repeat("a: b\n", 1000)})
	bomb := packed(t, make([]byte, maxRecord+1))
	for reason, tt := range map[string]struct {
		value []byte
		err   string
	}{
		"cut off":                       {good[:len(good)/2/4*4], "damaged or cut off"},
		"cut off within a character":    {good[:len(good)/2/4*4+1], "damaged or cut off"},
		"no base64":                     {[]byte("}{"), "damaged or cut off"},
		"a header alone":                {base64.StdEncoding.AppendEncode(nil, []byte{0x1f, 0x8b, 0x08}), "damaged"},
		"Helm 2, which stores protobuf": {packed(t, []byte{0x0a, 0x04, 'd', 'e', 'm', 'o'}), "of a Helm that is neither 3 nor 4"},
		"something else":                {packed(t, []byte(`{"kind": "Release"}`)), "has no name or revision"},
		"nothing":                       {nil, "damaged"},
		"a bomb":                        {bomb, "larger than 64 MiB"},
	} {
		if _, err := Decode(tt.value); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q in it", reason, err, tt.err)
		}
	}
	if r, err := Decode(good); err != nil || r.Name != "demo" {
		t.Errorf("the whole record: %v", err)
	}
	plain := base64.StdEncoding.AppendEncode(nil, []byte(`{"name": "old", "version": 1}`))
	if r, err := Decode(plain); err != nil || r.Name != "old" {
		t.Errorf("a record that is not packed: %v", err)
	}
}

// A manifest of more than a megabyte is read like any other.
func TestLarge(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}, data: {a: %q}}\n", i, strings.Repeat("x", 200))
	}
	r, err := Decode(record(t, map[string]any{"name": "demo", "version": 1, "manifest": text.String()}))
	if err != nil {
		t.Fatal(err)
	}
	u, err := r.Uninstall()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(objects(u)); got != 5000 {
		t.Errorf("%d objects, want 5000", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name": "old", "version": 1, "manifest": "kind: List\nitems: [{}, 1]"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(packed(t, text))
		if err != nil {
			return
		}
		if u, err := r.Uninstall(); err == nil {
			u.Sentences()
		}
	})
}
