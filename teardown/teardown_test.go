package teardown

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gocmp "github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// engine asks the policies of the binary.
var engine = sync.OnceValue(func() *policies.Engine {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		panic(err)
	}
	e, err := policies.NewEngine(context.Background(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true}) // a slow machine is no failure
	if err != nil {
		panic(err)
	}
	return e
})

// objectsIn are those in YAML documents.
func objectsIn(t testing.TB, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		asJSON, err := yaml.YAMLToJSON([]byte(document))
		if err == nil && strings.TrimSpace(string(asJSON)) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = object.UnmarshalJSON(asJSON)
		}
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		objects = append(objects, object)
	}
	return objects
}

func worldOf(t testing.TB, text string) *cluster.World {
	t.Helper()
	world, err := cluster.FromObjects(cluster.Options{MaxNames: 500}, objectsIn(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// scopeOf is everything in a world, or some namespaces of it. Of each object all is known, as
// in a cluster.
func scopeOf(t testing.TB, text string, namespaces ...string) *Scope {
	t.Helper()
	objects := objectsIn(t, text)
	place, err := scan.FromFacts(worldOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var scope *Scope
	if len(namespaces) == 0 {
		scope, err = Everything(place)
	} else {
		scope, err = Namespaces(place, namespaces)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range scope.subjects {
		scope.subjects[i].Unseen = nil
		for _, object := range objects {
			if object.GetKind() == s.Type.Kind && object.GetName() == s.Name && object.GetNamespace() == s.Namespace {
				scope.subjects[i].Object = object.Object
			}
		}
	}
	return scope
}

func planOf(t testing.TB, scope *Scope, options Options) *Plan {
	t.Helper()
	plan, err := Make(t.Context(), engine(), scope, options)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func contents(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reasons are the edges of a scope, as lines.
func reasons(t testing.TB, scope *Scope) (lines []string) {
	t.Helper()
	m, err := related(t.Context(), engine(), scope, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.edges {
		lines = append(lines, fmt.Sprintf("%s < %s: %s", scan.Shown(m.nodes[e.first].id), scan.Shown(m.nodes[e.then].id), e.why))
	}
	return lines
}

// placeOf is the wave of an object, as kubectl takes it; -1 for none.
func placeOf(p *Plan, object string) int {
	return slices.IndexFunc(p.Waves, func(w Wave) bool {
		return slices.ContainsFunc(w.Things, func(t Thing) bool { return scan.Shown(t.Object) == object })
	})
}

// TestEdges holds each reason for which one thing goes before another: in the world as it
// is, and not in one that differs by one fact.
func TestEdges(t *testing.T) {
	world := contents(t, "testdata/operators.yaml")
	for name, tc := range map[string]struct {
		first, then, why string
		was, is          string // what differs in the near miss
	}{
		"the remover of a finalizer": {
			"kialis.kiali.io/kiali -n shop", "namespaces/kiali-operator", "deployments.apps/kiali-operator -n kiali-operator removes kiali.io/finalizer",
			"namespace: shop, finalizers: [kiali.io/finalizer]", "namespace: shop",
		},
		"what is in a namespace": {
			"flunders.wardle.test/f -n shop", "namespaces/shop", "it is in it",
			"{name: f, namespace: shop,", "{name: f, namespace: cart,",
		},
		"what is of a definition": {
			"gadgets.alive.test/one -n shop", "customresourcedefinitions.apiextensions.k8s.io/gadgets.alive.test", "one of its objects",
			"metadata: {name: gadgets.alive.test}", "metadata: {name: gizmos.alive.test}",
		},
		"what an aggregated API serves": {
			"flunders.wardle.test/f -n shop", "apiservices.apiregistration.k8s.io/v1alpha1.wardle.test", "served by it",
			"finalizers: [wardle.test/keep]", "labels: {}",
		},
		"an APIService and its backend": {
			"apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io", "namespaces/monitoring", "served from namespace monitoring",
			"service: {namespace: monitoring, name: adapter}", "service: {namespace: kube-system, name: adapter}",
		},
		"a webhook and its backend": {
			"validatingwebhookconfigurations.admissionregistration.k8s.io/guard", "namespaces/gadgets", "served from",
			"service: {namespace: gadgets, name: guard}", "url: 'https://192.0.2.9/'",
		},
		"what makes a thing anew": {
			"kialis.kiali.io/kiali -n shop", "gadgets.alive.test/made -n shop", "controls it",
			"kind: Kiali, name: kiali, uid: k1, controller: true", "kind: Kiali, name: kiali, uid: k1",
		},
		"a claim and its volume": {
			"namespaces/shop", "persistentvolumes/pv1", "this volume is bound",
			"status: {phase: Bound, volume: true}", "status: {phase: Released}",
		},
		"a volume and its driver": {
			"persistentvolumes/pv1", "namespaces/disks", "external-provisioner.volume.kubernetes.io/finalizer",
			"kubernetes.io/pv-protection, external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection",
		},
		"what is in use": {
			"applications.argoproj.io/app -n shop", "appprojects.argoproj.io/web -n argocd", "1 object refers to it",
			"spec: {project: web}", "spec: {project: default}",
		},
		"a webhook that fails": {
			"validatingwebhookconfigurations.admissionregistration.k8s.io/dead", "gadgets.alive.test/one -n shop", "it sees DELETE",
			"resources: [gadgets]}], failurePolicy: Fail", "resources: [gadgets]}], failurePolicy: Ignore",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := regexp.MustCompile("^" + regexp.QuoteMeta(tc.first+" < "+tc.then+": ") + ".*" + regexp.QuoteMeta(tc.why))
			if n := strings.Count(world, tc.was); n != 1 {
				t.Fatalf("%q stands in the world %d times", tc.was, n)
			}
			scope := scopeOf(t, world)
			if lines := reasons(t, scope); !slices.ContainsFunc(lines, wanted.MatchString) {
				t.Errorf("want %s, got:\n%s", wanted, strings.Join(lines, "\n"))
			}
			plan := planOf(t, scope, Options{})
			if first, then := placeOf(plan, tc.first), placeOf(plan, tc.then); first < 0 || then <= first {
				t.Errorf("%s has place %d, and %s %d", tc.first, first, tc.then, then)
			}
			if lines := reasons(t, scopeOf(t, strings.Replace(world, tc.was, tc.is, 1))); slices.ContainsFunc(lines, wanted.MatchString) {
				t.Errorf("with %q: want nothing of %s, got:\n%s", tc.is, wanted, strings.Join(lines, "\n"))
			}
		})
	}
}

// without is a world without some of what stands in it once.
func without(t testing.TB, world string, parts ...string) string {
	t.Helper()
	for _, part := range parts {
		if n := strings.Count(world, part); n != 1 {
			t.Fatalf("%q stands in the world %d times", part, n)
		}
		world = strings.Replace(world, part, "", 1)
	}
	return world
}

// sound is the world in which nothing is broken.
func sound(t testing.TB) string {
	return without(t, contents(t, "testdata/operators.yaml"), ", finalizers: [wardle.test/keep]", ", external-provisioner.volume.kubernetes.io/finalizer")
}

// TestEverything holds that everything is in the order once, that the order keeps what was
// said of each deletion, and that nothing stands in its way, though all of it deleted at once
// hangs.
func TestEverything(t *testing.T) {
	scope := scopeOf(t, sound(t))
	plan := planOf(t, scope, Options{})
	if plan.Verdict != policies.Completes || len(plan.First) > 0 || len(plan.Left) > 0 {
		var text strings.Builder
		_ = plan.Text(&text, true)
		t.Errorf("want a plan that completes, got %s:\n%s", plan.Verdict, text.String())
	}
	seen := map[policies.Object]bool{}
	for _, wave := range plan.Waves {
		for _, thing := range wave.Things {
			if seen[thing.Object] {
				t.Errorf("%v is in the order twice", thing.Object)
			}
			seen[thing.Object] = true
		}
	}
	for _, s := range scope.subjects {
		if !seen[idOf(s)] {
			t.Errorf("%s is not in the order", s)
		}
	}
	atOnce, err := check.AskAll(t.Context(), engine(), scope.World, check.Together{}, scope.subjects, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if atOnce.Verdict != policies.Hangs && atOnce.Verdict != policies.Refused {
		t.Errorf("deleted at once it %s: the test shows nothing", atOnce.Verdict)
	}
}

// TestNamed holds that a plan for a namespace holds what is in it, and nothing else: what hangs
// on it is told.
func TestNamed(t *testing.T) {
	world := sound(t)
	for name, tc := range map[string]struct {
		reason     string
		namespaces []string
		things     []string
		also       string
		verdict    policies.Verdict
	}{
		"an operator's":                     {"its objects elsewhere are not named", []string{"kiali-operator"}, []string{"namespaces/kiali-operator"}, "kubectl delete kialis.kiali.io/kiali -n shop", policies.AtRisk},
		"an operator's, and of its objects": {"both are named", []string{"kiali-operator", "cart"}, []string{"gadgets.alive.test/made -n cart", "namespaces/cart", "kialis.kiali.io/kiali -n cart", "namespaces/kiali-operator"}, "", policies.Completes},
		"what serves an API":                {"the APIService is not named", []string{"monitoring"}, []string{"namespaces/monitoring"}, "kubectl delete apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io", policies.AtRisk},
	} {
		t.Run(name, func(t *testing.T) {
			world := world
			if slices.Contains(tc.namespaces, "cart") { // where no webhook is in the way
				world = strings.ReplaceAll(world, "name: kiali, uid: k1, namespace: shop", "name: kiali, uid: k1, namespace: cart")
				world = strings.ReplaceAll(world, "name: made, namespace: shop", "name: made, namespace: cart")
				world = strings.ReplaceAll(world, "resources: [gadgets]}], failurePolicy: Fail", "resources: [gadgets]}], failurePolicy: Ignore")
			}
			plan := planOf(t, scopeOf(t, world, tc.namespaces...), Options{})
			var things []string
			for _, wave := range plan.Waves {
				for _, thing := range wave.Things {
					things = append(things, scan.Shown(thing.Object))
				}
			}
			slices.Sort(things)
			slices.Sort(tc.things)
			if diff := cmp.Diff(tc.things, things); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			var text strings.Builder
			if err := plan.Text(&text, false); err != nil {
				t.Fatal(err)
			}
			if plan.Verdict != tc.verdict || strings.Contains(text.String(), "also needed") != (tc.also != "") || !strings.Contains(text.String(), tc.also) {
				t.Errorf("%s: want %s with %q, got %s:\n%s", tc.reason, tc.verdict, tc.also, plan.Verdict, text.String())
			}
		})
	}
	place, err := scan.FromFacts(worldOf(t, world))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-system", "no-such-thing"} {
		if _, err := Namespaces(place, []string{name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("namespace %s: got %v", name, err)
		}
	}
}

// TestCircles holds that what waits for itself is told, and is in no wave, nor what waits for
// it.
func TestCircles(t *testing.T) {
	world := strings.ReplaceAll(contents(t, "testdata/operators.yaml"), "namespace: disks", "namespace: shop") // the driver runs where its volume is used
	plan := planOf(t, scopeOf(t, world), Options{})
	if plan.Verdict == policies.Completes || len(plan.Circles) != 1 || !strings.Contains(plan.Circles[0], "namespaces/shop has to be gone before persistentvolumes/pv1") ||
		!strings.Contains(plan.Circles[0], "persistentvolumes/pv1 has to be gone before namespaces/shop") {
		t.Errorf("got %s, %q", plan.Verdict, plan.Circles)
	}
	var left []string
	for _, thing := range plan.Left {
		left = append(left, scan.Shown(thing.Object))
	}
	if diff := cmp.Diff([]string{"persistentvolumes/pv1", "namespaces/shop"}, left, gocmp.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("left: -want, +got:\n%s", diff)
	}
	var script strings.Builder
	if err := plan.Script(&script); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(script.String(), "kubectl delete namespaces/shop") {
		t.Errorf("the script deletes what is in a circle:\n%s", script.String())
	}
}

// TestRandomWorlds makes worlds of operators that nobody wrote down: the order has everything
// once, and each thing before what it has to be gone before.
func TestRandomWorlds(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 33))
		m, err := related(t.Context(), engine(), scopeOf(t, randomWorld(random)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var edges [][2]policies.Object
		for _, e := range m.edges {
			edges = append(edges, [2]policies.Object{m.nodes[e.first].id, m.nodes[e.then].id})
		}
		plan, err := m.plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := map[policies.Object]int{}
		for w, wave := range plan.Waves {
			for _, thing := range wave.Things {
				if _, twice := at[thing.Object]; twice {
					t.Errorf("seed %d: %v is in the order twice", seed, thing.Object)
				}
				at[thing.Object] = w
			}
		}
		for _, thing := range plan.Left {
			if _, twice := at[thing.Object]; twice {
				t.Errorf("seed %d: %v has a place, and is left", seed, thing.Object)
			}
			at[thing.Object] = len(plan.Waves) + 1
		}
		if len(at) != len(m.nodes) || len(edges) == 0 {
			t.Errorf("seed %d: %d of %d things have a place; %d edges", seed, len(at), len(m.nodes), len(edges))
		}
		for _, e := range edges {
			if at[e[0]] >= at[e[1]] && at[e[0]] < len(plan.Waves) {
				t.Errorf("seed %d: %v goes in wave %d, and %v in %d", seed, e[0], at[e[0]], e[1], at[e[1]])
			}
		}
	}
}

// randomWorld is one of operators, what they look after, and what is served by them, each in
// any of some namespaces.
func randomWorld(random *rand.Rand) string {
	namespaces := 2 + random.IntN(5)
	somewhere := func() string { return fmt.Sprintf("ns-%d", random.IntN(namespaces)) }
	world := []string{"{apiVersion: termguard.dev/v1, kind: Cluster, version: v1.36.3, groups: [random.test]}"}
	add := func(format string, args ...any) { world = append(world, fmt.Sprintf(format, args...)) }
	for i := range namespaces {
		add("{apiVersion: v1, kind: Namespace, metadata: {name: ns-%d}, spec: {finalizers: [kubernetes]}}", i)
	}
	for i := range 1 + random.IntN(4) {
		home := somewhere()
		add("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: k%ds.random.test}, spec: {group: random.test, scope: Namespaced, names: {kind: K%d, plural: k%ds}, versions: [{name: v1, served: true, storage: true}]}}", i, i, i)
		template := fmt.Sprintf("{metadata: {labels: {app: op%d}}, spec: {serviceAccountName: op%d, containers: [{name: c, image: op%d}]}}", i, i, i)
		add("{apiVersion: apps/v1, kind: Deployment, metadata: {name: op%d, namespace: %s}, spec: {replicas: 1, selector: {matchLabels: {app: op%d}}, template: %s}, status: {replicas: 1, readyReplicas: 1}}", i, home, i, template)
		add("{apiVersion: v1, kind: ServiceAccount, metadata: {name: op%d, namespace: %s}}", i, home)
		add("{apiVersion: v1, kind: Pod, metadata: {name: op%d-1, namespace: %s, labels: {app: op%d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: op%d, uid: r%d, controller: true}]}, spec: {nodeName: n1, serviceAccountName: op%d, containers: [{name: c, image: op%d}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}", i, home, i, i, i, i, i)
		add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: op%d}, rules: [{apiGroups: [random.test], resources: [k%ds, k%ds/status], verbs: ['*']}]}", i, i, i)
		add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: op%d}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op%d}, subjects: [{kind: ServiceAccount, name: op%d, namespace: %s}]}", i, i, i, home)
		for n := range random.IntN(4) {
			owner := ""
			if n > 0 && random.IntN(2) == 0 {
				owner = fmt.Sprintf(", ownerReferences: [{apiVersion: random.test/v1, kind: K%d, name: o0, uid: u%d-0, controller: true}]", i, i)
			}
			add("{apiVersion: random.test/v1, kind: K%d, metadata: {name: o%d, uid: u%d-%d, namespace: %s, finalizers: [random.test/f%d]%s}}", i, n, i, n, somewhere(), i, owner)
		}
		if random.IntN(2) == 0 {
			add("{apiVersion: v1, kind: Service, metadata: {name: svc%d, namespace: %s}, spec: {selector: {app: op%d}}}", i, home, i)
			add("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook%d}, webhooks: [{name: h.random.test, clientConfig: {service: {namespace: %s, name: svc%d}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}], failurePolicy: Fail}]}", i, home, i)
		}
		if random.IntN(3) == 0 {
			add("{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.served%d.test}, spec: {group: served%d.test, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: %s, name: svc%d}}, status: {conditions: [{type: Available, status: '%s', reason: R, message: m}]}}", i, i, home, i, []string{"True", "False"}[random.IntN(2)])
		}
	}
	return strings.Join(world, "\n---\n")
}

// TestGolden holds what is printed of a plan, for people and for programs: docs/plan.md shows
// the former, and docs/schemas/plan.json describes the latter. UPDATE_GOLDEN=1 writes both anew.
func TestGolden(t *testing.T) {
	world := strings.Replace(sound(t), "resources: [gadgets]}], failurePolicy: Fail", "resources: [gadgets]}], failurePolicy: Ignore", 1)
	plan := planOf(t, scopeOf(t, world, "shop", "kiali-operator", "gadgets"), Options{Of: "shop kiali-operator gadgets (prod)"})
	var text, argo strings.Builder
	if err := errors.Join(plan.Text(&text, false), plan.ArgoCD(&argo)); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"plan.txt": text.String(), "plan.json": string(asJSON) + "\n", "argocd.yaml": argo.String()} {
		file = filepath.Join("testdata", file)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(contents(t, file), got); diff != "" {
			t.Errorf("%s (UPDATE_GOLDEN=1 writes it): -kept, +got:\n%s", file, diff)
		}
	}
}

// TestRelease holds that what has to go first goes in waves, and the rest by the command of the
// release, with its hooks; and that both by the command at once may hang.
func TestRelease(t *testing.T) {
	const command = "helm uninstall kiali -n kiali-operator"
	world := sound(t)
	held := planOf(t, releaseOf(t, world, kiali...), Options{Command: command})
	if diff := cmp.Diff([]string{"kubectl delete kialis.kiali.io/kiali -n shop --ignore-not-found --wait --timeout=300s", command}, commandsOf(held)); diff != "" || held.Verdict != policies.Completes {
		t.Errorf("%s: -want, +got:\n%s", held.Verdict, diff)
	}
	free := planOf(t, releaseOf(t, without(t, world, ", finalizers: [kiali.io/finalizer]"), kiali...), Options{Command: command})
	if diff := cmp.Diff([]string{command}, commandsOf(free)); diff != "" || free.Verdict != policies.Completes {
		t.Errorf("nothing has to go first: %s: -want, +got:\n%s", free.Verdict, diff)
	}
	scope := releaseOf(t, world, kiali...)
	at := check.Together{By: "helm uninstall"}
	both, err := check.AskAll(t.Context(), engine(), scope.World, at, scope.subjects, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if both.Verdict == policies.Completes {
		t.Error("the command alone would do: the test shows nothing")
	}
}

// kiali is an operator, and an object that it looks after.
var kiali = []policies.Object{{Resource: "deployments.apps", Namespace: "kiali-operator", Name: "kiali-operator"}, {Resource: "kialis.kiali.io", Namespace: "shop", Name: "kiali"}}

// releaseOf is a release that holds some objects.
func releaseOf(t *testing.T, world string, named ...policies.Object) *Scope {
	t.Helper()
	objects := objectsIn(t, world)
	var subjects []check.Subject
	scope := Of(worldOf(t, world), nil, nil, nil)
	for _, o := range named {
		subject, err := scope.described(o)
		if err != nil {
			t.Fatal(err)
		}
		subject.Unseen = nil
		for _, object := range objects {
			if object.GetKind() == subject.Type.Kind && object.GetName() == o.Name && object.GetNamespace() == o.Namespace {
				subject.Object = object.Object
			}
		}
		subjects = append(subjects, subject)
	}
	scope.subjects = subjects
	return scope
}

// TestFronts holds that a webhook that fails closed goes before the workload behind it, in a
// plan that has both; where it fails open, it does not matter.
func TestFronts(t *testing.T) {
	named := []policies.Object{{Resource: "deployments.apps", Namespace: "gadgets", Name: "op"}, {Resource: "validatingwebhookconfigurations.admissionregistration.k8s.io", Name: "guard"}}
	const want = "validatingwebhookconfigurations.admissionregistration.k8s.io/guard < deployments.apps/op -n gadgets: it is served from there"
	world := sound(t)
	if lines := reasons(t, releaseOf(t, world, named...)); !slices.Contains(lines, want) {
		t.Errorf("want %s, got %q", want, lines)
	}
	open := strings.Replace(world, "  failurePolicy: Fail\n", "  failurePolicy: Ignore\n", 1)
	if lines := reasons(t, releaseOf(t, open, named...)); slices.Contains(lines, want) {
		t.Errorf("it fails open: got %q", lines)
	}
}

// TestMany holds that an order meets what no step can name: more namespaces than a finding has
// room for.
func TestMany(t *testing.T) {
	world := sound(t)
	const namespaces = 14
	for i := range namespaces {
		world += fmt.Sprintf("---\n{apiVersion: v1, kind: Namespace, metadata: {name: many-%d}, spec: {finalizers: [kubernetes]}}\n---\n{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: kiali, namespace: many-%d, finalizers: [kiali.io/finalizer]}}\n", i, i)
	}
	if plan := planOf(t, scopeOf(t, world), Options{}); plan.Verdict != policies.Completes {
		t.Errorf("got %s: %+v", plan.Verdict, plan.First)
	}
	var some []string
	for i := range namespaces - 1 {
		some = append(some, fmt.Sprintf("many-%d", i))
	}
	if plan := planOf(t, scopeOf(t, world, append(some, "shop", "kiali-operator")...), Options{}); plan.Verdict == policies.Completes {
		t.Error("one namespace with objects of the operator is not named, and nothing is said of it")
	}
}

// TestGoneByThen holds that a wave is asked about as things are when it begins: objects whose
// conversion webhook goes with a namespace are gone by then with their definition, if that is
// named.
func TestGoneByThen(t *testing.T) {
	_, world, _ := strings.Cut(contents(t, "../policies/conversion_backend_in_namespace/testdata/hang_objects_here.yaml"), "\n---\n")
	if plan := planOf(t, scopeOf(t, world), Options{}); plan.Verdict != policies.Completes {
		t.Errorf("with its definition: got %s: %+v", plan.Verdict, plan.First)
	}
	if plan := planOf(t, scopeOf(t, world, "demo"), Options{}); plan.Verdict != policies.Hangs {
		t.Errorf("without its definition: got %s", plan.Verdict)
	}
}

func commandsOf(p *Plan) (commands []string) {
	for _, wave := range p.Waves {
		commands = append(commands, wave.Commands...)
	}
	return commands
}
