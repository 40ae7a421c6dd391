package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

const mostAlong = 10

// volumes says what happens to the volumes of claims that are targets, or in a target namespace.
func volumes(ctx context.Context, client dynamic.Interface, targets []Subject) []string {
	if !slices.ContainsFunc(targets, func(s Subject) bool {
		return s.Type.GroupResource() == question.Namespaces || s.Type.GroupResource().String() == "persistentvolumeclaims"
	}) {
		return nil
	}
	var failed error
	list := func(group, resource string) []unstructured.Unstructured {
		list, err := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("list %s: %w", resource, Explain(err)))
			return nil
		}
		return list.Items
	}
	lines := along(list("", "persistentvolumes"), list("storage.k8s.io", "volumeattachments"), targets)
	lines = page.Fold(lines, mostAlong, "volume")
	if failed != nil {
		lines = append(lines, "unseen: volumes of the claims: "+failed.Error())
	}
	return lines
}

func along(volumes, attachments []unstructured.Unstructured, targets []Subject) (lines []string) {
	for _, v := range volumes {
		at := func(fields ...string) string {
			text, _, _ := unstructured.NestedString(v.Object, append([]string{"spec"}, fields...)...)
			return text
		}
		namespace, claim := at("claimRef", "namespace"), at("claimRef", "name")
		if claim == "" || !Contain(targets, namespace) && !slices.ContainsFunc(targets, func(t Subject) bool {
			return t.ID() == policies.Object{Resource: "persistentvolumeclaims", Namespace: namespace, Name: claim}
		}) {
			continue
		}
		what := fmt.Sprintf("volume %s (%s) of claim %s/%s", v.GetName(), at("capacity", "storage"), namespace, claim)
		if at("persistentVolumeReclaimPolicy") == "Delete" {
			lines = append(lines, what+" is deleted with it, and its data: its reclaimPolicy is Delete")
			continue
		}
		line := what + " stays, Released: its reclaimPolicy is " + at("persistentVolumeReclaimPolicy")
		for _, a := range attachments {
			if name, _, _ := unstructured.NestedString(a.Object, "spec", "source", "persistentVolumeName"); name == v.GetName() {
				node, _, _ := unstructured.NestedString(a.Object, "spec", "nodeName")
				line += "; it is attached to node " + node
			}
		}
		lines = append(lines, line)
	}
	return lines
}
