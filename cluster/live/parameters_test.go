package live

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/refusals"
)

// TestReadForPolicies reads the parameters of admission policies from a cluster with two ConfigMaps
// in a namespace, a Secret, and a cluster-scoped Rule.
func TestReadForPolicies(t *testing.T) {
	kind := func(apiVersion, kind string) schema.GroupVersionKind {
		return schema.FromAPIVersionAndKind(apiVersion, kind)
	}
	config, rules := kind("v1", "ConfigMap"), kind("y.io/v1", "Rule")
	configs := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	var objects []runtime.Object
	for _, text := range []string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ops, labels: {for: p}}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ops}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: ops}}",
		"{apiVersion: y.io/v1, kind: Rule, metadata: {name: r}}",
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	lists := map[schema.GroupVersionResource]string{configs: "ConfigMapList", {Version: "v1", Resource: "secrets"}: "SecretList", {Group: "y.io", Version: "v1", Resource: "rules"}: "RuleList"}
	served := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"list"}},
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: []string{"list"}},
		}},
		{GroupVersion: "y.io/v1", APIResources: []metav1.APIResource{{Name: "rules", Kind: "Rule", Verbs: []string{"list"}}, {Name: "verdicts", Kind: "Verdict", Verbs: []string{"create"}}}},
	}
	tests := map[string]struct {
		reason string
		lookup refusals.Lookup
		limit  int
		want   []string
		err    error // of the parameters
		unread bool
	}{
		"by labels":               {"one has the label", refusals.Lookup{Kind: config, Namespace: "ops", Selector: "for=p"}, 9, []string{"a"}, nil, false},
		"all":                     {"an empty selector selects all", refusals.Lookup{Kind: config, Namespace: "ops"}, 9, []string{"a", "b"}, nil, false},
		"elsewhere":               {"there are none", refusals.Lookup{Kind: config, Namespace: "demo", Own: true}, 9, nil, nil, false},
		"without a namespace":     {"the namespace of a reference counts only for namespaced kinds", refusals.Lookup{Kind: rules, Namespace: "demo", Own: true}, 9, []string{"r"}, nil, false},
		"too many":                {"a part of them says nothing", refusals.Lookup{Kind: config, Namespace: "ops"}, 1, nil, nil, true},
		"secrets":                 {"their contents are not read", refusals.Lookup{Kind: kind("v1", "Secret"), Namespace: "ops"}, 9, nil, nil, true},
		"not served":              {"no such group", refusals.Lookup{Kind: kind("z.io/v1", "Rule")}, 9, nil, refusals.ErrNotServed, false},
		"kind not served":         {"no such kind in the group", refusals.Lookup{Kind: kind("y.io/v1", "Law")}, 9, nil, refusals.ErrNotServed, false},
		"not listed":              {"a kind that cannot be listed has no parameters", refusals.Lookup{Kind: kind("y.io/v1", "Verdict")}, 9, nil, refusals.ErrNotServed, false},
		"namespace in vain":       {"the binding names one, and the kind has none", refusals.Lookup{Kind: rules, Namespace: "ops"}, 9, nil, refusals.ErrClusterScope, false},
		"namespace of no request": {"the kind has one, and the request none", refusals.Lookup{Kind: config, Own: true}, 9, nil, refusals.ErrNoNamespace, false},
		"objects":                 {"the objects that a policy would see", refusals.Lookup{Resource: configs, Namespace: "ops"}, 9, []string{"a", "b"}, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Cluster{
				world: cluster.NewWorld(cluster.Options{}), log: slog.New(slog.DiscardHandler),
				discovery: &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: served}},
				dynamic:   fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...),
			}
			answer, err := c.read(t.Context(), tc.lookup, tc.limit)
			if !errors.Is(err, errUnread) && tc.unread || err != nil && !tc.unread || !errors.Is(answer.Err, tc.err) {
				t.Fatalf("%s: got %v and %v", tc.reason, answer.Err, err)
			}
			var got []string
			for _, obj := range answer.Objects {
				got = append(got, obj.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
