package question

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
)

func TestRequests(t *testing.T) {
	object := map[string]any{"metadata": map[string]any{"name": "a"}}
	options := map[string]any{"propagationPolicy": "Foreground"}
	namespace := Target{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "a", Object: object}
	deployment := Target{
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "n", Name: "a", Object: object, User: map[string]any{"username": "u"},
	}
	cases := map[string]struct {
		reason string
		got    map[string]any
		want   map[string]any
	}{
		"Delete": {"What goes is the old object.", deployment.Delete(options), map[string]any{"operation": "DELETE", "namespace": "n", "oldObject": object, "object": nil, "options": options, "userInfo": map[string]any{"username": "u"}}},
		"Create": {"What comes is the object.", deployment.Create(), map[string]any{"operation": "CREATE", "namespace": "n", "oldObject": nil, "object": object, "options": createOptions}},
		"Namespace": {
			"Its request carries its own name as namespace (k8s.io/apiserver, pkg/endpoints/request/requestinfo.go).",
			namespace.Delete(options), map[string]any{"namespace": "a", "name": "a", "resource": map[string]any{"group": "", "version": "v1", "resource": "namespaces"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for key, want := range tc.want {
				if diff := cmp.Diff(want, tc.got[key]); diff != "" {
					t.Errorf("%s\n%s: -want, +got:\n%s", tc.reason, key, diff)
				}
			}
		})
	}
	if _, told := namespace.Delete(options)["userInfo"]; told {
		t.Error("a user is told of who is unknown")
	}
}

func TestSet(t *testing.T) {
	var s Set
	s.By = "helm uninstall"
	facts := policies.Document{"apiservices": map[string]any{}}
	if !s.Empty() {
		t.Error("a new set is not empty")
	}
	for i, o := range []policies.Object{{Resource: "pods", Namespace: "n", Name: "a"}, {Resource: "pods", Namespace: "n", Name: "b"}, {Resource: "namespaces", Name: "n"}} {
		s.Add(o, i)
	}
	s.Over(facts).View(func(doc map[string]any) {
		want := map[string]any{
			"apiservices": map[string]any{},
			"set":         map[string]any{"pods": map[string]any{"n": map[string]any{"a": 0, "b": 1}}, "namespaces": map[string]any{"": map[string]any{"n": 2}}},
			"setOrder":    map[string]any{"by": "helm uninstall", "waits": false},
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
	if _, changed := facts["set"]; changed {
		t.Error("the facts themselves were changed")
	}
}
