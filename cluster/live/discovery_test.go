package live

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/termguard/termguard/cluster"
)

// TestDiscoveryOfMany reads the discovery of ten thousand API groups; aggregated discovery calls
// the three that the API server could not reach stale.
func TestDiscoveryOfMany(t *testing.T) {
	const groups = 10_000
	failing := []string{"g17.example.com", "g4711.example.com", "g9999.example.com"}
	list := apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}}
	for i := range groups {
		name := fmt.Sprintf("g%d.example.com", i)
		version := apidiscovery.APIVersionDiscovery{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessStale}
		if !slices.Contains(failing, name) {
			version.Freshness = apidiscovery.DiscoveryFreshnessCurrent
			version.Resources = []apidiscovery.APIResourceDiscovery{{
				Resource: "things", ResponseKind: &metav1.GroupVersionKind{Group: name, Version: "v1", Kind: "Thing"},
				Scope: apidiscovery.ScopeNamespace, Verbs: []string{"delete", "list", "watch"},
			}}
		}
		list.Items = append(list.Items, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}, Versions: []apidiscovery.APIVersionDiscovery{version}})
	}
	answer, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		switch {
		case r.URL.Path == "/version":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
		case r.URL.Path == "/apis":
			_, _ = w.Write(answer)
		default:
			fmt.Fprint(w, `{"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList"}`)
		}
	}))
	defer server.Close()

	world := cluster.NewWorld(cluster.Options{})
	c, err := New(&rest.Config{Host: server.URL}, world, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	feeds, lost, err := c.serves(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(failing, slices.Sorted(maps.Keys(lost))); diff != "" {
		t.Errorf("groups that did not answer: -want +got\n%s", diff)
	}
	if len(feeds) != groups-len(failing) {
		t.Errorf("%d resources are wanted, want %d", len(feeds), groups-len(failing))
	}
	services := whole("apiservices.apiregistration.k8s.io")
	world.Begin(services)
	for _, group := range failing {
		apply(t, world, services, &aggregation.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}, Spec: aggregation.APIServiceSpec{Service: &aggregation.ServiceReference{}}})
		if at(world, "apiservices", "v1."+group, "stale") != true { // which holds every namespace
			t.Errorf("APIService v1.%s is not known to be stale", group)
		}
	}
}

// TestDiscoveryOfOlderCluster checks that resources that an older API server lacks are not waited
// for, and that resources with only an older version are unseen.
func TestDiscoveryOfOlderCluster(t *testing.T) {
	served := `{"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "items": [
		{"metadata": {"name": "resource.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Current", "resources": [
			{"resource": "resourceclaims", "responseKind": {"group": "resource.k8s.io", "version": "v1beta1", "kind": "ResourceClaim"}, "scope": "Namespaced", "verbs": ["delete", "list", "watch"]}]}]}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		switch {
		case r.URL.Path == "/version":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"gitVersion": "v1.32.0"}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, served)
		default:
			fmt.Fprint(w, `{"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList"}`)
		}
	}))
	defer server.Close()
	world := cluster.NewWorld(cluster.Options{})
	c, err := New(&rest.Config{Host: server.URL}, world, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	policies := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}
	claims := schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	hidden := func(res schema.GroupResource) bool {
		unseen, _ := at(world, "unseen").([]any)
		return slices.ContainsFunc(unseen, func(u any) bool { return u.(map[string]any)["resource"] == res.String() })
	}
	if !hidden(policies) {
		t.Error("before discovery, nothing is known to be seen")
	}
	if _, _, err := c.serves(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hidden(policies) {
		t.Errorf("%s are not served, and yet waited for", policies)
	}
	if !hidden(claims) {
		t.Errorf("%s are served as v1beta1 alone, and counted as seen", claims)
	}
}
