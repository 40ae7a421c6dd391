package answer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/question"
)

// TestAlong checks which volumes are deleted with a namespace, and which stay attached.
func TestAlong(t *testing.T) {
	object := func(text string) (o unstructured.Unstructured) {
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	volumes := []unstructured.Unstructured{
		object("{metadata: {name: pv-1}, spec: {capacity: {storage: 20Gi}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: shop, name: data}}}"),
		object("{metadata: {name: pv-2}, spec: {capacity: {storage: 5Gi}, persistentVolumeReclaimPolicy: Retain, claimRef: {namespace: shop, name: logs}}}"),
		object("{metadata: {name: pv-3}, spec: {capacity: {storage: 1Gi}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: cart, name: data}}}"),
		object("{metadata: {name: pv-4}, spec: {capacity: {storage: 1Gi}, persistentVolumeReclaimPolicy: Delete}}"),
	}
	attachments := []unstructured.Unstructured{object("{metadata: {name: va}, spec: {nodeName: n1, source: {persistentVolumeName: pv-2}}}")}
	shop := Subject{Type: Type{GroupVersionResource: question.Namespaces.WithVersion("v1")}, Name: "shop"}
	claim := Subject{Type: Type{GroupVersionResource: question.Namespaces.WithVersion("v1").GroupVersion().WithResource("persistentvolumeclaims")}, Namespace: "cart", Name: "data"}
	want := []string{
		"volume pv-1 (20Gi) of claim shop/data is deleted with it, and its data: its reclaimPolicy is Delete",
		"volume pv-2 (5Gi) of claim shop/logs stays, Released: its reclaimPolicy is Retain; it is attached to node n1",
	}
	if diff := cmp.Diff(want, along(volumes, attachments, []Subject{shop})); diff != "" {
		t.Errorf("a namespace: -want, +got:\n%s", diff)
	}
	want = []string{"volume pv-3 (1Gi) of claim cart/data is deleted with it, and its data: its reclaimPolicy is Delete"}
	if diff := cmp.Diff(want, along(volumes, attachments, []Subject{claim})); diff != "" {
		t.Errorf("a claim: -want, +got:\n%s", diff)
	}
}
