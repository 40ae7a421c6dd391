package answer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// ordered returns the answer about objects, TYPE/NAME or TYPE/NAMESPACE/NAME, that are deleted
// together; all about each is known, as in a cluster.
func ordered(t *testing.T, world string, named ...string) Answer {
	t.Helper()
	objects := decodeAll(t, world)
	w, err := cluster.FromObjects(cluster.Options{MaxNames: 500}, objects)
	if err != nil {
		t.Fatal(err)
	}
	var names []Name
	for _, name := range named {
		parts := strings.Split(name, "/")
		n := Name{Object: policies.Object{Resource: parts[0], Name: parts[len(parts)-1]}}
		if len(parts) > 2 {
			n.Namespace = parts[1]
		}
		names = append(names, n)
	}
	subjects, missing, err := AllFromFacts(w, names)
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	for i, s := range subjects {
		subjects[i].Unseen = nil
		for _, object := range objects {
			if object.GetKind() == s.Type.Kind && object.GetName() == s.Name && object.GetNamespace() == s.Namespace {
				subjects[i].Object = object.Object
			}
		}
	}
	set, err := Ask(t.Context(), newEngine(t), w, Question{Targets: subjects, Missing: missing, Together: true})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// wavesIn returns the names of objects, a line for each wave.
func wavesIn(set Answer) (lines []string) {
	for _, wave := range set.Order {
		lines = append(lines, names(wave.Objects, "", whole))
	}
	return lines
}

// TestOrder checks each reason to delete one object before another, in a world that has the reason
// and in one that differs by one fact.
func TestOrder(t *testing.T) {
	text, err := os.ReadFile("testdata/operators.yaml")
	if err != nil {
		t.Fatal(err)
	}
	world := strings.Replace(string(text), ", external-provisioner.volume.kubernetes.io/finalizer", "", 1)
	for name, tc := range map[string]struct {
		named   []string
		want    []string
		why     string
		was, is string   // what differs in the near miss
		then    []string // its order
	}{
		"the remover of a finalizer": {
			[]string{"namespaces/kiali-operator", "kialis.kiali.io/shop/kiali"}, []string{"kialis.kiali.io/kiali -n shop", "namespaces/kiali-operator"}, "removes kiali.io/finalizer",
			"namespace: shop, finalizers: [kiali.io/finalizer]", "namespace: shop", []string{"namespaces/kiali-operator, kialis.kiali.io/kiali -n shop"},
		},
		"with its namespace": {
			[]string{"deployments.apps/kiali-operator/kiali-operator", "namespaces/shop", "configmaps/gadgets/settings"}, []string{"namespaces/shop", "deployments.apps/kiali-operator -n kiali-operator, configmaps/settings -n gadgets"}, "and this deletes its controller: delete those first",
			"namespace: shop, finalizers: [kiali.io/finalizer]", "namespace: shop", []string{"deployments.apps/kiali-operator -n kiali-operator, namespaces/shop, configmaps/settings -n gadgets"},
		},
		"of a definition's objects": {
			[]string{"customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io", "namespaces/kiali-operator"}, []string{"customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io", "namespaces/kiali-operator"}, "removes kiali.io/finalizer",
			"namespace: shop, finalizers: [kiali.io/finalizer]", "namespace: shop", []string{"customresourcedefinitions.apiextensions.k8s.io/kialis.kiali.io, namespaces/kiali-operator"},
		},
		"an APIService and its backend": {
			[]string{"namespaces/monitoring", "apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io"}, []string{"apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io", "namespaces/monitoring"}, "served from namespace monitoring",
			"service: {namespace: monitoring, name: adapter}", "service: {namespace: kube-system, name: adapter}", []string{"namespaces/monitoring, apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io"},
		},
		"a webhook and its backend": {
			[]string{"deployments.apps/gadgets/op", "validatingwebhookconfigurations.admissionregistration.k8s.io/guard"}, []string{"validatingwebhookconfigurations.admissionregistration.k8s.io/guard", "deployments.apps/op -n gadgets"}, "served from there",
			"service: {namespace: gadgets, name: guard}", "url: 'https://192.0.2.9/'", []string{"deployments.apps/op -n gadgets, validatingwebhookconfigurations.admissionregistration.k8s.io/guard"},
		},
		"what controls another": {
			[]string{"gadgets.alive.test/shop/made", "kialis.kiali.io/shop/kiali"}, []string{"kialis.kiali.io/kiali -n shop", "gadgets.alive.test/made -n shop"}, "its dependents are deleted with it",
			"uid: k1, controller: true", "uid: k1", []string{"gadgets.alive.test/made -n shop, kialis.kiali.io/kiali -n shop"},
		},
		"a webhook that fails": {
			[]string{"gadgets.alive.test/shop/one", "validatingwebhookconfigurations.admissionregistration.k8s.io/dead"}, []string{"validatingwebhookconfigurations.admissionregistration.k8s.io/dead", "gadgets.alive.test/one -n shop"}, "it matches DELETE",
			"resources: [gadgets]}], failurePolicy: Fail", "resources: [gadgets]}], failurePolicy: Ignore", []string{"gadgets.alive.test/one -n shop, validatingwebhookconfigurations.admissionregistration.k8s.io/dead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := ordered(t, world, tc.named...)
			var text bytes.Buffer
			if err := set.Text(&text); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, wavesIn(set)); diff != "" || !strings.Contains(text.String(), tc.why) {
				t.Errorf("for %q: -want, +got:\n%s\n%s", tc.why, diff, &text)
			}
			if n := strings.Count(world, tc.was); n != 1 {
				t.Fatalf("%q is in the world %d times, want once", tc.was, n)
			}
			if diff := cmp.Diff(tc.then, wavesIn(ordered(t, strings.Replace(world, tc.was, tc.is, 1), tc.named...))); diff != "" {
				t.Errorf("with %q: -want, +got:\n%s", tc.is, diff)
			}
		})
	}
}

// answersOf returns answers about n objects; an edge says that the first must be deleted before the
// second.
func answersOf(n int, edges [][2]int) (items []Item) {
	for i := range n {
		items = append(items, Item{Target: policies.Object{Resource: "configmaps", Namespace: "x", Name: fmt.Sprint(i)}})
	}
	for _, e := range edges {
		items[e[1]].Findings = append(items[e[1]].Findings, policies.Finding{
			Message: "why", Severity: policies.High, Steps: []policies.Step{{Kind: policies.Mend, Action: &policies.Action{Verb: policies.VerbDelete, Objects: []string{fmt.Sprintf("configmaps/%d", e[0])}, Namespace: "x"}}},
		})
	}
	return items
}

// TestOrderCircle checks that objects that wait for each other are in no wave and are reported; the
// rest has its place.
func TestOrderCircle(t *testing.T) {
	world := worldOf(t, "cluster.yaml")
	waves, circle := order(world, answersOf(4, [][2]int{{0, 1}, {1, 0}, {2, 3}}))
	if diff := cmp.Diff([]string{"configmaps/2 -n x", "configmaps/3 -n x"}, wavesIn(Answer{Order: waves})); diff != "" {
		t.Errorf("waves: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"configmaps/0 -n x before configmaps/1 -n x: why", "configmaps/1 -n x before configmaps/0 -n x: why"}, circle); diff != "" {
		t.Errorf("circle: -want, +got:\n%s", diff)
	}
	if waves, circle := order(world, answersOf(2, [][2]int{{0, 1}, {1, 0}})); len(waves) > 0 || len(circle) != 2 {
		t.Errorf("waves %v, circle %v; want all in the circle", waves, circle)
	}
	var text bytes.Buffer
	if err := (Answer{Order: waves, Circle: circle}).Text(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "  in no order: configmaps/0 -n x before configmaps/1 -n x: why\n") {
		t.Errorf("the text does not name the circle:\n%s", &text)
	}
}

// TestOrderRandom checks that each object has one place, after all objects that must be deleted
// before it.
func TestOrderRandom(t *testing.T) {
	world := worldOf(t, "cluster.yaml")
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 53))
		n := 1 + random.IntN(12)
		var edges [][2]int
		for range random.IntN(2 * n) {
			if a, b := random.IntN(n), random.IntN(n); a < b {
				edges = append(edges, [2]int{a, b})
			}
		}
		waves, circle := order(world, answersOf(n, edges))
		place := map[string]int{}
		for w, wave := range waves {
			for _, o := range wave.Objects {
				if _, twice := place[o.Name]; twice {
					t.Errorf("seed %d: %v is ordered twice", seed, o)
				}
				place[o.Name] = w
			}
		}
		if len(place) != n || len(circle) > 0 {
			t.Errorf("seed %d: %d of %d objects are ordered; circle %q", seed, len(place), n, circle)
		}
		for _, e := range edges {
			if place[fmt.Sprint(e[0])] >= place[fmt.Sprint(e[1])] {
				t.Errorf("seed %d: %d is in wave %d, and %d in %d", seed, e[0], place[fmt.Sprint(e[0])], e[1], place[fmt.Sprint(e[1])])
			}
		}
	}
}
