package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

func TestRemoval(t *testing.T) {
	const edit = `{
		"operation": "UPDATE", "namespace": "a", "name": "it", "resource": {"group": "x.io", "version": "v1", "resource": "gadgets"},
		"userInfo": {"username": "system:serviceaccount:ops:op", "groups": ["system:serviceaccounts"]},
		"options": {"fieldManager": "op"},
		"oldObject": {"metadata": {"uid": "u", "name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/a", "x.io/b"]}},
		"object": {"metadata": {"uid": "u", "name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/b"]}}}`
	const finalize = `{
		"operation": "UPDATE", "subResource": "finalize", "name": "a", "namespace": "a", "resource": {"version": "v1", "resource": "namespaces"},
		"userInfo": {"username": "u"},
		"oldObject": {"metadata": {"uid": "u", "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"finalizers": ["kubernetes", "x.io/a"]}},
		"object": {"metadata": {"uid": "u", "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"finalizers": ["kubernetes"]}}}`
	gadget := cluster.Removal{
		Resource: schema.GroupResource{Group: "x.io", Resource: "gadgets"}, Namespace: "a", Name: "it", UID: "u", Finalizers: []string{"x.io/a"},
		User: "system:serviceaccount:ops:op", Groups: []string{"system:serviceaccounts"}, Manager: "op", Deleted: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	bound := gadget
	bound.Pod = true
	stopping := gadget
	stopping.Deleted = stopping.Deleted.Add(-30 * time.Second)
	tests := map[string]struct {
		reason, request string
		want            *cluster.Removal
	}{
		"a controller":      {"one of two finalizers is removed", edit, &gadget},
		"in a pod":          {"the token is bound to a pod", strings.Replace(edit, `"groups"`, `"extra": {"authentication.kubernetes.io/pod-name": ["op-1"]}, "groups"`, 1), &bound},
		"with grace":        {"the time until which it may stop is no time of its deletion", strings.Replace(edit, `"uid"`, `"deletionGracePeriodSeconds": 30, "uid"`, 1), &stopping},
		"dry run":           {"nothing happens", strings.Replace(edit, `"operation"`, `"dryRun": true, "operation"`, 1), nil},
		"not being deleted": {"the controller changed its mind, or was uninstalled", strings.Replace(edit, `"uid": "u", "name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z"`, `"uid": "u", "name": "it"`, 1), nil},
		"added":             {"any account may add one", strings.Replace(edit, `["x.io/a", "x.io/b"]`, `[]`, 1), nil},
		"finalize": {"a finalizer of a namespace's spec", finalize, &cluster.Removal{
			Resource: schema.GroupResource{Resource: "namespaces"}, Name: "a", UID: "u", Finalizers: []string{"x.io/a"}, User: "u",
			Deleted: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rv, err := decodeReview(body(t, v1, `{"uid": "r", `+tc.request[1:]))
			if err != nil {
				t.Fatal(err)
			}
			r, err := question.Review(rv.request)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := removalOf(r)
			var removal *cluster.Removal
			if ok {
				removal = &got
			}
			if diff := cmp.Diff(tc.want, removal); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
