package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/termguard/termguard/cluster"
)

func TestBuiltin(t *testing.T) {
	t.Parallel()
	l, err := Start(t.Context(), Options{Progress: t.Output(), APIServer: []string{"--runtime-config=api/all=true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	client, err := discovery.NewDiscoveryClientForConfig(l.Config())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]metav1.APIResource{}
	for _, k := range cluster.Builtin() {
		if !k.Past {
			table[k.String()] = metav1.APIResource{Kind: k.Kind, Namespaced: k.Namespaced, ShortNames: k.Short}
		}
	}
	seen := 0
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, api := range list.APIResources {
			seen++
			name := gv.WithResource(api.Name).GroupResource().String()
			served := metav1.APIResource{Kind: api.Kind, Namespaced: api.Namespaced, ShortNames: api.ShortNames}
			if diff := cmp.Diff(served, table[name]); diff != "" {
				t.Errorf("%s of %s: -served, +in cluster/facts/builtin.txt:\n%s", api.Name, list.GroupVersion, diff)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d kinds were served: that proves little", seen)
	}
}
