package check

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Along tells what becomes of the volumes behind claims that are targets, or in a namespace
// that is one: a line for each. The error is for volumes that may not be listed.
func (h *Hands) Along(ctx context.Context, targets []Subject) ([]string, error) {
	list := func(group, resource string) ([]unstructured.Unstructured, error) {
		found, err := h.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, explain(err))
		}
		return found.Items, nil
	}
	volumes, err := list("", "persistentvolumes")
	if err != nil {
		return nil, err
	}
	attachments, err := list("storage.k8s.io", "volumeattachments")
	return along(volumes, attachments, targets), err
}

func along(volumes, attachments []unstructured.Unstructured, targets []Subject) (told []string) {
	for _, v := range volumes {
		at := func(fields ...string) string {
			text, _, _ := unstructured.NestedString(v.Object, append([]string{"spec"}, fields...)...)
			return text
		}
		namespace, claim := at("claimRef", "namespace"), at("claimRef", "name")
		if claim == "" || !slices.ContainsFunc(targets, func(t Subject) bool {
			return t.Type.GroupResource() == namespaces && t.Name == namespace ||
				t.Type.GroupResource().String() == "persistentvolumeclaims" && t.Namespace == namespace && t.Name == claim
		}) {
			continue
		}
		what := fmt.Sprintf("volume %s (%s) of claim %s/%s", v.GetName(), at("capacity", "storage"), namespace, claim)
		if at("persistentVolumeReclaimPolicy") == "Delete" {
			told = append(told, what+" goes along, with its data: its reclaimPolicy is Delete")
			continue
		}
		line := what + " stays, Released: its reclaimPolicy is " + at("persistentVolumeReclaimPolicy")
		for _, a := range attachments {
			if name, _, _ := unstructured.NestedString(a.Object, "spec", "source", "persistentVolumeName"); name == v.GetName() {
				node, _, _ := unstructured.NestedString(a.Object, "spec", "nodeName")
				line += "; it is attached to node " + node
			}
		}
		told = append(told, line)
	}
	return told
}
