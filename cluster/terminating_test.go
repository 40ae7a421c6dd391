package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster/facts"
)

// heldObject returns a ConfigMap with a finalizer and further metadata.
func heldObject(namespace, name, further string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: %s, name: %s, finalizers: [y.io/g, x.io/f], %s}}", namespace, name, further)
}

const deletedAt = "deletionTimestamp: '1970-01-01T00:00:%02dZ', deletionGracePeriodSeconds: %d"

// TestTerminating checks the facts about objects that wait for a finalizer: the oldest, in their
// group and in all namespaces, and none that waits for something else.
func TestTerminating(t *testing.T) {
	text := ""
	for _, object := range []string{
		heldObject("a", "stays", ""),
		heldObject("a", "second", fmt.Sprintf(deletedAt, 2, 0)),
		heldObject("a", "first", fmt.Sprintf(deletedAt, 1, 0)),
		heldObject("b", "third", fmt.Sprintf(deletedAt, 3, 0)),
		"{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: its-kubelet-waits, finalizers: [x.io/f], " + fmt.Sprintf(deletedAt, 1, 30) + "}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: a, name: in-use, finalizers: [kubernetes.io/pvc-protection], " + fmt.Sprintf(deletedAt, 1, 0) + "}}",
	} {
		text += object + "\n---\n"
	}
	held := func(namespace, name string, second int) any {
		return map[string]any{"namespace": namespace, "name": name, "at": 1, "since": fmt.Sprintf("1970-01-01T00:00:%02dZ", second)}
	}
	first, second, third := held("a", "first", 1), held("a", "second", 2), held("b", "third", 3)
	w := world(t, text)
	all, _ := at(w, "terminating", "x.io/f").(map[string]any)
	want := map[string]any{"configmaps": map[string]any{"count": 3, "objects": []any{first, second, third}}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("in all namespaces: -want, +got:\n%s", diff)
	}
	if entry := at(w, "terminating", "kubernetes.io/pvc-protection"); entry != nil {
		t.Errorf("finalizers of Kubernetes belong to another policy: %v", entry)
	}
	groups, _ := at(w, "finalized", "a", "x.io/f", "configmaps").(map[string]any)
	for _, group := range groups {
		got := facts.Lookup(map[string]any{"group": group}, "group", "terminating")
		if diff := cmp.Diff(map[string]any{"count": 2, "objects": []any{first, second}}, got); diff != "" {
			t.Errorf("in its group: -want, +got:\n%s", diff)
		}
	}

	// It is deleted, or is no longer Terminating.
	for _, gone := range []string{"first", "second"} {
		object := objects(t, heldObject("a", gone, ""))[0]
		if err := w.Remove(namespaced(object.GroupVersionKind().GroupVersion(), "configmaps"), object); err != nil {
			t.Fatal(err)
		}
	}
	w.Settle()
	groups, _ = at(w, "finalized", "a", "x.io/f", "configmaps").(map[string]any)
	for _, group := range groups {
		if got := group.(map[string]any)["terminating"]; got != nil {
			t.Errorf("want none: %v", got)
		}
	}
	if diff := cmp.Diff(map[string]any{"count": 1, "objects": []any{third}}, at(w, "terminating", "x.io/f", "configmaps")); diff != "" {
		t.Errorf("after that: -want, +got:\n%s", diff)
	}
}

// TestTerminatingIsBounded checks that only the objects that have waited longest are named if many
// wait.
func TestTerminatingIsBounded(t *testing.T) {
	text := ""
	for i := range 59 {
		text += heldObject(fmt.Sprint("ns", i%7), fmt.Sprint("it-", i), fmt.Sprintf(deletedAt, 59-i, 0)) + "\n---\n"
	}
	all, _ := at(world(t, text), "terminating", "x.io/f", "configmaps").(map[string]any)
	objects, _ := all["objects"].([]any)
	if all["count"] != 59 || len(objects) != 5 {
		t.Fatalf("got %v of %v, want 5 of 59", len(objects), all["count"])
	}
	for i, object := range objects {
		if got, want := facts.Lookup(map[string]any{"o": object}, "o", "name"), fmt.Sprint("it-", 58-i); got != want {
			t.Errorf("object %d is %v, want %s", i, got, want)
		}
	}
}
