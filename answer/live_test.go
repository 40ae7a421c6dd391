package answer

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/policies"
)

// apiServer serves answers by path, and forbids the rest.
func apiServer(t *testing.T, answers map[string]any) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, exists := answers[r.URL.Path]
		if !exists {
			answer = refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		if handler, of := answer.(func(*http.Request) any); of {
			answer = handler(r)
		}
		w.Header().Set("Content-Type", "application/json")
		if status, ok := answer.(metav1.Status); ok {
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func refusal(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}
}

// serving returns a cluster that has namespaces and pods, and the answers in more.
func serving(more map[string]any) map[string]any {
	verbs := metav1.Verbs{"get", "list", "delete"}
	answers := map[string]any{
		"/version": map[string]any{"gitVersion": "v1.36.3"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":    metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}},
		"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: verbs},
			{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: verbs},
			{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, Verbs: verbs},
			{Name: "bindings", SingularName: "binding", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}},
	}
	for path, answer := range more {
		answers[path] = answer
	}
	return answers
}

func TestFromCluster(t *testing.T) {
	demo := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{"finalizers": []any{"kubernetes"}}}
	named := func(kind, name string) any {
		return map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": map[string]any{},
			"items": []any{map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}},
		}
	}
	hooks := admissionregistrationv1.SchemeGroupVersion
	for _, tt := range []struct {
		reason  string
		answers map[string]any
		target  Name
		verdict policies.Verdict
		err     string // a part of it
	}{
		{
			reason:  "the object can be read, the objects in it cannot",
			answers: serving(map[string]any{"/api/v1/namespaces/demo": demo}),
			target:  Name{Object: policies.Object{Resource: "ns", Name: "demo"}}, verdict: policies.Unknown,
		},
		{
			reason:  "the object cannot be read",
			answers: serving(nil),
			target:  Name{Object: policies.Object{Resource: "ns", Name: "demo"}}, verdict: policies.Unknown,
		},
		{
			reason: "rights in one namespace do not show what may refuse the request",
			answers: serving(map[string]any{
				"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{
					{Name: hooks.Group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: hooks.String(), Version: hooks.Version}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: hooks.String(), Version: hooks.Version}},
				}},
				"/apis/" + hooks.String(): metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: hooks.String(), APIResources: []metav1.APIResource{
					{Name: "validatingwebhookconfigurations", SingularName: "validatingwebhookconfiguration", Kind: "ValidatingWebhookConfiguration", Verbs: metav1.Verbs{"get", "list", "watch", "delete"}},
				}},
				"/api/v1/namespaces/demo/services/web": map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web", "namespace": "demo"}},
				"/api/v1/namespaces/demo/services":     map[string]any{"apiVersion": "v1", "kind": "ServiceList", "metadata": map[string]any{}, "items": []any{}},
			}),
			target: Name{Object: policies.Object{Resource: "service", Namespace: "demo", Name: "web"}}, verdict: policies.Unknown,
		},
		{
			reason: "no such object",
			answers: serving(map[string]any{
				"/api/v1/namespaces/dmo": refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces":     named("Namespace", "demo"),
			}),
			target: Name{Object: policies.Object{Resource: "ns", Name: "dmo"}}, err: `namespaces/dmo not found; did you mean "demo"?`,
		},
		{
			reason: "no such object, nor namespace",
			answers: serving(map[string]any{
				"/api/v1/namespaces/dmo/pods/web": refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces/dmo":          refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces":              named("Namespace", "demo"),
			}),
			target: Name{Object: policies.Object{Resource: "pod", Namespace: "dmo", Name: "web"}}, err: `pods/web -n dmo not found: namespace "dmo" not found; did you mean "demo"?`,
		},
		{
			reason:  "no such type",
			answers: serving(nil),
			target:  Name{Object: policies.Object{Resource: "pud", Namespace: "demo", Name: "web"}}, err: `type "pud" not found; did you mean "pod"?`,
		},
		{
			reason:  "nothing that can be deleted",
			answers: serving(nil),
			target:  Name{Object: policies.Object{Resource: "binding", Namespace: "demo", Name: "web"}}, err: "bindings cannot be deleted",
		},
		{
			reason:  "expired credentials",
			answers: map[string]any{"/api": refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), "/apis": refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
			target:  Name{Object: policies.Object{Resource: "ns", Name: "demo"}}, err: "the cluster does not accept the credentials",
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			subject, world, err := fromCluster(t, apiServer(t, tt.answers), cluster.Options{}, tt.target)
			if err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got error %v, want %q", err, tt.err)
				}
				return
			}
			report, err := ask(t.Context(), newEngine(t), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.verdict, report.Verdict); diff != "" || (len(report.Unseen) == 0) != (tt.verdict == policies.Completes) {
				t.Errorf("unseen %q, -want, +got:\n%s", report.Unseen, diff)
			}
		})
	}
}

// TestOperatorElsewhere checks the Deployment and the namespace of an operator whose custom
// resource is in another namespace: the resource is reported, or is said to be unseen.
func TestOperatorElsewhere(t *testing.T) {
	object := func(apiVersion, kind, namespace, name string, more map[string]any) map[string]any {
		metadata := map[string]any{"name": name, "uid": kind + namespace + name}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
		for key, value := range more {
			o[key] = value
		}
		return o
	}
	list := func(apiVersion, kind string, items ...any) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "metadata": map[string]any{}, "items": items}
	}
	template := map[string]any{"spec": map[string]any{"serviceAccountName": "op", "containers": []any{map[string]any{"name": "c", "image": "corp/op"}}}}
	deployment := object("apps/v1", "Deployment", "ops", "op", map[string]any{"spec": map[string]any{"replicas": 1, "selector": map[string]any{}, "template": template}, "status": map[string]any{"readyReplicas": 1}})
	pod := object("v1", "Pod", "ops", "op-1", map[string]any{"spec": template["spec"], "status": map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
	namespace := object("v1", "Namespace", "", "ops", map[string]any{"spec": map[string]any{"finalizers": []any{"kubernetes"}}})
	gadget := object("x.io/v1", "Gadget", "team", "it", nil)
	gadget["metadata"].(map[string]any)["finalizers"] = []any{"x.io/cleanup"}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.x.io", map[string]any{"spec": map[string]any{
		"group": "x.io", "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}})
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "op", map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"x.io"}, "resources": []any{"*"}, "verbs": []any{"*"}}}})
	binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "op", map[string]any{
		"roleRef": map[string]any{"kind": "ClusterRole", "name": "op"}, "subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "op", "namespace": "ops"}},
	})
	verbs := metav1.Verbs{"get", "list", "watch", "delete"}
	answers := serving(map[string]any{
		"/api/v1/namespaces":     list("v1", "Namespace", namespace),
		"/api/v1/namespaces/ops": namespace,
		"/api/v1/pods":           list("v1", "Pod", pod),
		"/api/v1/services":       list("v1", "Service"),
	})
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for gv, resources := range map[string][]metav1.APIResource{
		"apps/v1":                      {{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, Verbs: verbs}},
		"rbac.authorization.k8s.io/v1": {{Name: "clusterroles", Kind: "ClusterRole", Verbs: verbs}, {Name: "clusterrolebindings", SingularName: "clusterrolebinding", Kind: "ClusterRoleBinding", Verbs: verbs}},
		"apiextensions.k8s.io/v1":      {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition", Verbs: verbs}},
		"x.io/v1":                      {{Name: "gadgets", Kind: "Gadget", Namespaced: true, Verbs: verbs}},
	} {
		group, version, _ := strings.Cut(gv, "/")
		is := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{is}, PreferredVersion: is})
		answers["/apis/"+gv] = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv, APIResources: resources}
	}
	answers["/apis"] = groups
	answers["/apis/apps/v1/deployments"] = list("apps/v1", "Deployment", deployment)
	answers["/apis/apps/v1/namespaces/ops/deployments/op"] = deployment
	answers["/apis/rbac.authorization.k8s.io/v1/clusterroles"] = list("rbac.authorization.k8s.io/v1", "ClusterRole", role)
	answers["/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"] = list("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", binding)
	answers["/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/op"] = binding
	answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = list("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition)
	const everywhere, here = "/apis/x.io/v1/gadgets", "/apis/x.io/v1/namespaces/ops/gadgets"
	answers[here] = list("meta.k8s.io/v1", "PartialObjectMetadata")
	for _, tt := range []struct {
		reason  string
		target  Name
		read    bool // gadgets of all namespaces may be read
		verdict policies.Verdict
		unseen  string
	}{
		{"the operator goes, the gadget stays", Name{Object: policies.Object{Resource: "deployment", Namespace: "ops", Name: "op"}}, true, policies.AtRisk, ""},
		{"with its namespace", Name{Object: policies.Object{Resource: "ns", Name: "ops"}}, true, policies.AtRisk, ""},
		{"or without its rights", Name{Object: policies.Object{Resource: "clusterrolebinding", Name: "op"}}, true, policies.AtRisk, ""},
		{"gadgets elsewhere may not be read", Name{Object: policies.Object{Resource: "deployment", Namespace: "ops", Name: "op"}}, false, policies.Unknown, "gadgets.x.io: elsewhere"},
		{"nor with the namespace", Name{Object: policies.Object{Resource: "ns", Name: "ops"}}, false, policies.Unknown, "gadgets.x.io: elsewhere"},
		{"nor at all", Name{Object: policies.Object{Resource: "clusterrolebinding", Name: "op"}}, false, policies.Unknown, "gadgets.x.io: forbidden"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			answers := maps.Clone(answers)
			if tt.read {
				answers[everywhere] = list("meta.k8s.io/v1", "PartialObjectMetadata", gadget)
			}
			subject, world, err := fromCluster(t, apiServer(t, answers), cluster.Options{}, tt.target)
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), newEngine(t), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != tt.verdict || !strings.Contains(strings.Join(policies.UnseenTexts(report.Unseen), "\n"), tt.unseen) {
				t.Errorf("got %s, unseen %q, want %s with %q: %+v", report.Verdict, report.Unseen, tt.verdict, tt.unseen, report.Findings)
			}
		})
	}
}

// TestManyInstances checks that all instances of a definition are read, however many there are.
func TestManyInstances(t *testing.T) {
	const pages, each = 50, 500
	verbs := metav1.Verbs{"get", "list", "watch", "delete"}
	is := metav1.GroupVersionForDiscovery{GroupVersion: "x.io/v1", Version: "v1"}
	crds := metav1.GroupVersionForDiscovery{GroupVersion: "apiextensions.k8s.io/v1", Version: "v1"}
	definition := map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.x.io", "uid": "1"}, "spec": map[string]any{
		"group": "x.io", "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	answers := serving(map[string]any{
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{
			{Name: "x.io", Versions: []metav1.GroupVersionForDiscovery{is}, PreferredVersion: is}, {Name: "apiextensions.k8s.io", Versions: []metav1.GroupVersionForDiscovery{crds}, PreferredVersion: crds},
		}},
		"/apis/x.io/v1":                 metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "x.io/v1", APIResources: []metav1.APIResource{{Name: "gadgets", Kind: "Gadget", Namespaced: true, Verbs: verbs}}},
		"/apis/apiextensions.k8s.io/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "apiextensions.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", SingularName: "customresourcedefinition", Kind: "CustomResourceDefinition", Verbs: verbs}}},
		definitions:                     map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList", "metadata": map[string]any{}, "items": []any{definition}},
		definitions + "/gadgets.x.io":   definition,
		"/apis/x.io/v1/gadgets": func(r *http.Request) any {
			page, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			items := make([]any, each)
			for i := range items {
				items[i] = map[string]any{"apiVersion": "x.io/v1", "kind": "Gadget", "metadata": map[string]any{"namespace": "team", "name": strconv.Itoa(page*each + i), "finalizers": []any{"x.io/cleanup"}}}
			}
			metadata := map[string]any{}
			if page+1 < pages {
				metadata["continue"] = strconv.Itoa(page + 1)
			}
			return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items}
		},
	})
	subject, world, err := fromCluster(t, apiServer(t, answers), cluster.Options{}, Name{Object: policies.Object{Resource: "customresourcedefinition", Name: "gadgets.x.io"}})
	if err != nil {
		t.Fatal(err)
	}
	var count any
	world.View(func(doc map[string]any) {
		count = facts.Lookup(doc, "finalized", "team", "x.io/cleanup", "gadgets.x.io", "", "count")
	})
	report, err := ask(t.Context(), newEngine(t), world, subject, nil)
	if err != nil || count != pages*each || report.Verdict != policies.AtRisk || strings.Contains(strings.Join(policies.UnseenTexts(report.Unseen), "\n"), "gadgets") {
		t.Errorf("%v instances, verdict %s, unseen %q, error %v; want %d instances, none unseen", count, report.Verdict, report.Unseen, err, pages*each)
	}
}

func TestFromClusterThatIsNotThere(t *testing.T) {
	_, _, err := fromCluster(t, &rest.Config{Host: "http://127.0.0.1:1"}, cluster.Options{}, Name{Object: policies.Object{Resource: "ns", Name: "demo"}})
	if err == nil || !strings.Contains(err.Error(), "the cluster does not answer: check the network and --context") {
		t.Errorf("got error %v", err)
	}
}

// TestUnread checks the count of objects whose status was not read.
func TestUnread(t *testing.T) {
	wait := Wait{Finalizer: "x.io/f", Resource: "gadgets.x.io", Namespace: "demo", Names: []string{"a", "b"}, Count: 5}
	object := func(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: fields}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	gadget := func(name string) *unstructured.Unstructured {
		o := object("x.io/v1", "Gadget", "demo", name, map[string]any{"status": map[string]any{"conditions": []any{}}})
		o.SetFinalizers([]string{"x.io/f"})
		return o
	}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.x.io", map[string]any{"spec": map[string]any{
		"group": "x.io", "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}})
	hidden := object("termguard.dev/v1", "Cluster", "", "", map[string]any{"unseen": []any{map[string]any{"resource": "pods", "namespaced": true, "reason": "forbidden"}}})
	first := func(o cluster.Conditioned) *unstructured.Unstructured {
		if o.Name == "a" {
			return gadget("a")
		}
		return nil
	}
	for _, tt := range []struct {
		reason  string
		defined bool
		read    func(cluster.Conditioned) *unstructured.Unstructured
		want    int
	}{
		{"one was read", true, first, 4},
		{"none could be read", true, func(cluster.Conditioned) *unstructured.Unstructured { return nil }, 5},
		{"nobody reads conditions, as over a snapshot", true, nil, 0},
		{"what built-in kinds say is not about their finalizers", false, first, 0},
	} {
		objects := []*unstructured.Unstructured{hidden, gadget("a"), gadget("other")}
		if tt.defined {
			objects = append(objects, definition)
		}
		world, err := cluster.FromObjects(cluster.Options{}, objects)
		if err != nil {
			t.Fatal(err)
		}
		if tt.read != nil {
			world.TakeConditions("demo", tt.read)
		}
		world.Read(func(f cluster.Facts) {
			if got := unread(f, wait); got != tt.want {
				t.Errorf("%s: got %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}
