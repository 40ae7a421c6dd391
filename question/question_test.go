package question

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"
)

var (
	object     = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a", "namespace": "n", "uid": "u", "finalizers": []any{"x.io/f"}}}
	deployment = Target{
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "n", Name: "a", Object: object, User: authenticationv1.UserInfo{Username: "u"},
	}
	namespace = Target{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "a",
		Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a", "finalizers": []any{"x.io/f"}}, "spec": map[string]any{"finalizers": []any{"kubernetes", "y.io/f"}}},
	}
	pod  = Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "n", Name: "a", Object: object}
	node = Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, Name: "a", Object: object}
)

func TestRequests(t *testing.T) {
	cases := map[string]struct {
		reason          string
		request         *Request
		trigger         Trigger
		within          string
		sent, old, next map[string]any
		objects         int
	}{
		"Delete":    {"A delete has the old object.", deployment.Delete(nil), OnDelete, "n", nil, object, nil, 1},
		"Create":    {"What comes is the object.", deployment.Create(), OnApply, "n", nil, nil, object, 1},
		"Edit":      {"There are both.", deployment.Edit(object), OnFinalizerEdit, "n", nil, object, object, 2},
		"Namespace": {"Its request carries its own name as namespace (k8s.io/apiserver, pkg/endpoints/request/requestinfo.go).", namespace.Delete(nil), OnDelete, "a", map[string]any{"namespace": "a", "name": "a"}, namespace.Object, nil, 1},
		"Finalize":  {"Through a subresource of its own.", namespace.Finalize(object), OnFinalize, "a", map[string]any{"subResource": "finalize"}, namespace.Object, object, 2},
		"Evict":     {"It carries an Eviction, and is about the pod.", pod.Evict(nil), OnEviction, "n", map[string]any{"subResource": "eviction", "operation": "CREATE"}, nil, pod.Evict(nil).New(), 1},
		"Drain":     {"It is about the node.", node.Drain(), OnDrain, "", map[string]any{"subResource": "drain", "operation": "CONNECT"}, nil, nil, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := tc.request
			if got := r.Trigger(); got != tc.trigger || r.Within() != tc.within {
				t.Errorf("%s\non %s within %q, want %s within %q", tc.reason, got, r.Within(), tc.trigger, tc.within)
			}
			if diff := cmp.Diff([]map[string]any{tc.old, tc.next}, []map[string]any{r.Old(), r.New()}); diff != "" {
				t.Errorf("%s\nold and new: -want, +got:\n%s", tc.reason, diff)
			}
			if got := len(r.Objects()); got != tc.objects {
				t.Errorf("%s\nit is about %d objects, want %d", tc.reason, got, tc.objects)
			}
			sent, _ := r.Input(nil, nil)["request"].(map[string]any)
			for key, want := range tc.sent {
				if diff := cmp.Diff(want, sent[key]); diff != "" {
					t.Errorf("%s\n%s: -want, +got:\n%s", tc.reason, key, diff)
				}
			}
			asSent(t, r)
		})
	}
	if got := namespace.Delete(nil).Finalizers(namespace.Object); !cmp.Equal(got, []string{"x.io/f", "kubernetes", "y.io/f"}) {
		t.Errorf("the finalizers of a namespace are %q", got)
	}
	if got := deployment.Delete(nil).Finalizers(namespace.Object); !cmp.Equal(got, []string{"x.io/f"}) {
		t.Errorf("spec.finalizers count for more than namespaces: %q", got)
	}
}

// asSent checks that policies read the request as an API server sends it.
func asSent(t *testing.T, r *Request) {
	t.Helper()
	text, err := json.Marshal(r.AdmissionRequest)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.Input(nil, nil)["request"]); diff != "" {
		t.Errorf("policies read another request than an API server sends: -sent, +read:\n%s", diff)
	}
}

// TestAsSent checks requests with every field set.
func TestAsSent(t *testing.T) {
	full := admissionv1.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, Resource: metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "ks"},
		SubResource: "status", RequestKind: &metav1.GroupVersionKind{Group: "g", Version: "v2", Kind: "K"}, RequestResource: &metav1.GroupVersionResource{Group: "g", Version: "v2", Resource: "ks"},
		RequestSubResource: "status", Name: "a", Namespace: "n", Operation: admissionv1.Update, DryRun: new(bool),
		UserInfo:  authenticationv1.UserInfo{Username: "u", UID: "i", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b", "c"}}},
		Object:    runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"a","generation":3},"spec":{"share":0.5,"none":null}}`)},
		OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"a"}}`)}, Options: runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions"}`)},
	}
	value := full
	empty := admissionv1.AdmissionRequest{}
	for name, request := range map[string]admissionv1.AdmissionRequest{"full": value, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			r, _ := Review(admission.Request{AdmissionRequest: request})
			asSent(t, r)
		})
	}
}

func TestReview(t *testing.T) {
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	good := func() admissionv1.AdmissionRequest {
		r := deployment.Edit(object).AdmissionRequest
		return r
	}
	cases := map[string]struct {
		reason string
		change func(*admissionv1.AdmissionRequest)
		want   error
		key    types.NamespacedName
	}{
		"Good":           {"Nothing is missing.", func(*admissionv1.AdmissionRequest) {}, nil, types.NamespacedName{Namespace: "n", Name: "a"}},
		"NoResource":     {"Its object is unknown.", func(r *admissionv1.AdmissionRequest) { r.Resource = metav1.GroupVersionResource{} }, errNoResource, types.NamespacedName{Namespace: "n", Name: "a"}},
		"NoOld":          {"null is no object.", func(r *admissionv1.AdmissionRequest) { r.OldObject = raw(`null`) }, errNoOld, types.NamespacedName{Namespace: "n", Name: "a"}},
		"OldIsNoObject":  {"Neither is a body that is no object.", func(r *admissionv1.AdmissionRequest) { r.OldObject = raw(`["x"]`) }, errNoOld, types.NamespacedName{Namespace: "n", Name: "a"}},
		"NoNew":          {"An edit has both.", func(r *admissionv1.AdmissionRequest) { r.Object = runtime.RawExtension{} }, errNoNew, types.NamespacedName{Namespace: "n", Name: "a"}},
		"ItemOfMany":     {"The items of a deletecollection come without a name.", func(r *admissionv1.AdmissionRequest) { r.Name = "" }, nil, types.NamespacedName{Namespace: "n", Name: "a"}},
		"NoName":         {"Not even the object has one.", func(r *admissionv1.AdmissionRequest) { r.Name, r.OldObject, r.Object = "", raw(`{}`), raw(`{}`) }, errNoName, types.NamespacedName{Namespace: "n"}},
		"UnexpectedSkip": {"A request of another kind is not decoded.", func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Connect, raw(`{`) }, nil, types.NamespacedName{Namespace: "n", Name: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sent := good()
			tc.change(&sent)
			r, err := Review(admission.Request{AdmissionRequest: sent})
			if err != tc.want || r.Key() != tc.key || !r.UnderWay {
				t.Errorf("%s\ngot %v of %v, want %v of %v", tc.reason, err, r.Key(), tc.want, tc.key)
			}
		})
	}
}

func TestSet(t *testing.T) {
	var s Set
	s.By = "helm uninstall"
	facts := map[string]any{"apiservices": map[string]any{}}
	s.Add("pods", "n", "a", 0)
	s.Add("pods", "n", "b", 1)
	s.Add("namespaces", "", "n", 2)
	want := map[string]any{
		"apiservices": map[string]any{},
		"set":         map[string]any{"pods": map[string]any{"n": map[string]any{"a": 0, "b": 1}}, "namespaces": map[string]any{"": map[string]any{"n": 2}}},
		"setOrder":    map[string]any{"by": "helm uninstall", "waits": false},
	}
	if diff := cmp.Diff(want, s.In(facts)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, changed := facts["set"]; changed {
		t.Error("the facts themselves were changed")
	}
}
