package references

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/internal/race"
)

const carried = "949563cb-6717-4455-a778-7fb16c906630"

// namingPart returns a part for kinds that the catalog does not have.
func namingPart(t testing.TB) *Part {
	t.Helper()
	c, err := catalog.Parse([]byte("- {finalizer: y.io/other, resources: [others.y.io], owner: x, component: in-cluster, source: x}"))
	if err != nil {
		t.Fatal(err)
	}
	p := New(facts.Document{}, Options{Catalog: c, MaxNames: 5, World: nowhere{}})
	p.Follow(map[string]bool{
		"secrets": true, "persistentvolumes": false, "sessionclusters.x.io": true, "jobs.x.io": true, "pools.x.io": false, "ips.x.io": false,
		"foreigners.z.io": true,
	})
	return p
}

// takeIn adds an object, given as RESOURCE NAMESPACE/NAME and the rest of it as YAML.
func takeIn(t testing.TB, p *Part, what, rest string) {
	t.Helper()
	resource, name, _ := strings.Cut(what, " ")
	namespace, name, _ := strings.Cut(name, "/")
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(rest), &fields); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetNamespace(namespace)
	u.SetName(name)
	p.Keep(resource, types.NamespacedName{Namespace: namespace, Name: name}, u)
}

// usersOf returns the objects that refer to an object according to the facts.
func usersOf(p *Part, namespace, resource, name string) []string {
	p.Settle(func() {})
	lines := []string{}
	byFinalizer, _ := facts.Lookup(p.doc, "inUse", namespace, resource, name).(map[string]any)
	for _, byResource := range byFinalizer {
		for by, sides := range byResource.(map[string]any) {
			for side, users := range sides.(map[string]any) {
				users := users.(map[string]any)
				lines = append(lines, fmt.Sprintf("%s %s %v %v by %v", by, side, users["count"], users["names"], users["field"]))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func TestNamedBy(t *testing.T) {
	const held = "metadata: {finalizers: [x.io/f]}\n"
	target, job := "sessionclusters.x.io a/main", held+"spec: {clusterName: main}"
	for name, tc := range map[string]struct {
		reason string
		what   string
		rest   string
		want   []string
	}{
		"field":             {"named after the end of the kind", "jobs.x.io a/j", job, []string{"jobs.x.io inside 1 [j] by spec.clusterName"}},
		"field below":       {"wherever it stands", "jobs.x.io a/j", held + "spec: {run: [{at: {sessionCluster: main}}]}", []string{"jobs.x.io inside 1 [j] by spec.run.at.sessionCluster"}},
		"reference":         {"with the name below", "jobs.x.io a/j", held + "spec: {clusterRef: {name: main}}", []string{"jobs.x.io inside 1 [j] by spec.clusterRef.name"}},
		"references":        {"in a list", "jobs.x.io a/j", held + "spec: {clusterRefs: [{name: main, namespace: a}]}", []string{"jobs.x.io inside 1 [j] by spec.clusterRefs.name"}},
		"kind":              {"a reference in use", "jobs.x.io a/j", held + "spec: {onRef: {kind: SessionCluster, name: main}}", []string{"jobs.x.io inside 1 [j] by spec.onRef.name"}},
		"named after it":    {"with its name below", "jobs.x.io a/j", held + "spec: {cluster: {name: main, namespace: a}}", []string{"jobs.x.io inside 1 [j] by spec.cluster.name"}},
		"type":              {"that is a kind", "jobs.x.io a/j", held + "spec: {target: {type: SessionCluster, name: main}}", []string{"jobs.x.io inside 1 [j] by spec.target.name"}},
		"status":            {"its owner works on it", "jobs.x.io a/j", "spec: {clusterName: main}\nstatus: {phase: Running}", []string{"jobs.x.io inside 1 [j] by spec.clusterName"}},
		"label":             {"says the same as the field", "jobs.x.io a/j", "metadata: {labels: {x.io/cluster-name: main}}\nspec: {clusterName: main}", []string{"jobs.x.io inside 1 [j] by spec.clusterName"}},
		"neither":           {"near miss: no controller works on it", "jobs.x.io a/j", "spec: {clusterName: main}", nil},
		"another":           {"near miss: another name", "jobs.x.io a/j", held + "spec: {clusterName: other}", nil},
		"field of another":  {"near miss: named after no kind", "jobs.x.io a/j", held + "spec: {image: main, name: main, er: main}", nil},
		"status field":      {"near miss: status written by its owner is no reference", "jobs.x.io a/j", held + "status: {clusterName: main}", nil},
		"definitions":       {"near miss: a list of what is made for it", "jobs.x.io a/j", held + "spec: {clusters: [{name: main}]}", nil},
		"another type":      {"near miss: of something else", "jobs.x.io a/j", held + "spec: {cluster: {type: internal, name: main}}", nil},
		"another kind":      {"near miss: the reference is to something else", "jobs.x.io a/j", held + "spec: {clusterRef: {kind: Job, name: main}}", nil},
		"another group":     {"near miss: as is this", "jobs.x.io a/j", held + "spec: {clusterRef: {apiVersion: z.io/v1, kind: SessionCluster, name: main}}", nil},
		"owned":             {"near miss: it was created for that object, and is deleted with it", "jobs.x.io a/j", "metadata: {finalizers: [x.io/f], ownerReferences: [{name: main}]}\nspec: {clusterName: main}", nil},
		"controlled":        {"near miss: or for something else", "jobs.x.io a/j", "metadata: {finalizers: [x.io/f], ownerReferences: [{name: other, controller: true}]}\nspec: {clusterName: main}", nil},
		"itself":            {"near miss: what names itself", "sessionclusters.x.io a/main", held + "spec: {clusterName: main}\nstatus: {clusterUUID: " + carried + "}", nil},
		"another owner":     {"near miss: the group of another", "foreigners.z.io a/j", job, nil},
		"another namespace": {"a tenant refers to an object outside his namespace", "jobs.x.io tenant/j", job, nil},
		"explicitly":        {"also with its namespace", "jobs.x.io tenant/j", held + "spec: {clusterRef: {name: main, namespace: a}}", nil},
		"no namespace":      {"a cluster-scoped object refers to no namespaced object", "pools.x.io /j", job, nil},
		"identifier":        {"of its status", "jobs.x.io a/j", held + "clusterID: other\nrunUUID: " + carried, []string{"jobs.x.io inside 1 [j] by runUUID"}},
		"its own":           {"near miss: the identifier is the object's own", "jobs.x.io a/j", held + "jobUUID: " + carried, nil},
		"another's":         {"a tenant of another kind carries it elsewhere", "foreigners.z.io tenant/j", held + "spec: {runUUID: " + carried + "}", nil},
		"too long":          {"no object has such a name", "jobs.x.io a/j", held + "spec: {clusterName: " + strings.Repeat("m", 300) + "}", nil},
		"too deep":          {"real objects are not nested so deep", "jobs.x.io a/j", held + "spec: {a: {b: {c: {d: {e: {f: {clusterName: main}}}}}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := namingPart(t)
			takeIn(t, p, tc.what, tc.rest)
			if tc.what != target {
				takeIn(t, p, target, held+"status: {runUUID: "+carried+", jobUUID: "+carried+"}")
			}
			if diff := cmp.Diff(append([]string{}, tc.want...), usersOf(p, "a", "sessionclusters.x.io", "main")); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			key := types.NamespacedName{}
			key.Namespace, key.Name, _ = strings.Cut(strings.Fields(tc.what)[1], "/")
			p.Forget(strings.Fields(tc.what)[0], key)
			if left := usersOf(p, "a", "sessionclusters.x.io", "main"); len(left)+len(p.namers)+len(p.mentions) > 0 {
				t.Errorf("%s is still reported: %v", tc.what, left)
			}
		})
	}
}

// TestOnNode checks which objects belong to which node, and that they are forgotten.
func TestOnNode(t *testing.T) {
	const held = "metadata: {finalizers: [x.io/f]}\n"
	for name, tc := range map[string]struct {
		rest string
		want any
	}{
		"spec":          {held + "spec: {nodeName: n1}", 1},
		"short":         {held + "spec: {node: n1}", 1},
		"status":        {held + "status: {nodeName: n1}", 1},
		"spec first":    {held + "spec: {node: n1}\nstatus: {nodeName: n2}", 1},
		"another field": {held + "spec: {nodes: n1, nodeSelector: n1, on: {nodeName: n1}}", nil},
		"not held":      {"spec: {nodeName: n1}", nil},
		"no text":       {held + "spec: {nodeName: [n1]}", nil},
		"too long":      {held + "spec: {nodeName: " + strings.Repeat("n", 300) + "}", nil},
	} {
		p := namingPart(t)
		takeIn(t, p, "jobs.x.io a/j", tc.rest)
		p.Settle(func() {})
		if got := facts.Lookup(p.doc, "onNode", "a", "x.io/f", "jobs.x.io", "n1", "count"); got != tc.want {
			t.Errorf("%s: %v on the node, want %v", name, got, tc.want)
		}
		p.Forget("jobs.x.io", types.NamespacedName{Namespace: "a", Name: "j"})
		p.Settle(func() {})
		if left, _ := p.doc["onNode"].(map[string]any); len(left)+len(p.onNode)+len(p.placed) > 0 {
			t.Errorf("%s: still on the node: %v", name, left)
		}
	}
}

// TestOnManyNodes checks that the nodes that the objects of a namespace name are bounded.
func TestOnManyNodes(t *testing.T) {
	p := namingPart(t)
	for i := range 3 * maxPlaces {
		takeIn(t, p, fmt.Sprint("jobs.x.io a/j", i), fmt.Sprint("metadata: {finalizers: [x.io/f]}\nspec: {nodeName: n", i, "}"))
	}
	p.Settle(func() {})
	if got, _ := facts.Lookup(p.doc, "onNode", "a", "x.io/f", "jobs.x.io").(map[string]any); len(got) != maxPlaces || len(p.onNode) != maxPlaces {
		t.Errorf("%d nodes are kept, %d in the facts, want %d", len(p.onNode), len(got), maxPlaces)
	}
	for i := range 3 * maxPlaces {
		p.Forget("jobs.x.io", types.NamespacedName{Namespace: "a", Name: fmt.Sprint("j", i)})
	}
	p.Settle(func() {})
	if left, _ := p.doc["onNode"].(map[string]any); len(left)+len(p.onNode)+len(p.placed) > 0 {
		t.Errorf("%d nodes are left", len(p.onNode))
	}
}

// TestNamedAfter checks which fields are named after which kinds.
func TestNamedAfter(t *testing.T) {
	p := namingPart(t)
	p.Follow(map[string]bool{"meshes.x.io": true, "policies.x.io": true, "gateways.x.io": true, "eventbus.x.io": true, "relationships.x.io": true})
	for field, want := range map[string]string{
		"cluster": "sessionclusters.x.io", "sessionClusterName": "sessionclusters.x.io", "clusterRef": "sessionclusters.x.io", "clusterReference": "sessionclusters.x.io",
		"meshRef": "meshes.x.io", "policy": "policies.x.io", "gatewayName": "gateways.x.io", "eventBusName": "eventbus.x.io", "ip": "ips.x.io", "ipName": "ips.x.io",
		"name": "", "ref": "", "er": "", "ers": "", "clusterVersion": "", "longSessionClusterName": "",
	} {
		if got := strings.Join(p.plan.namedAfter("x.io", field), " "); got != want {
			t.Errorf("%s is called after %q, want %q", field, got, want)
		}
	}
}

// TestNamedSecrets checks which Secrets an object refers to, and that a tenant sees none of those
// in other namespaces.
func TestNamedSecrets(t *testing.T) {
	for name, tc := range map[string]struct{ what, spec, want string }{
		"reference":         {"jobs.x.io a/j", "auth: [{tokenSecretRef: {name: s, key: k}}]", "a/s"},
		"key":               {"jobs.x.io a/j", "token: {secretKeyRef: {name: s}}", "a/s"},
		"long":              {"jobs.x.io a/j", "credentialsSecretReference: {name: s, namespace: a}", "a/s"},
		"name":              {"jobs.x.io a/j", "tlsSecretName: s", "a/s"},
		"kind":              {"jobs.x.io a/j", "fromRef: {kind: Secret, name: s}", "a/s"},
		"without namespace": {"pools.x.io /p", "secretRef: {name: s, namespace: a}", "a/s"},
		"of others":         {"jobs.x.io a/j", "secretRef: {name: s, namespace: kube-system}", ""},
		"output":            {"jobs.x.io a/j", "writeConnectionSecretToRef: {name: s}", ""},
		"key of one":        {"jobs.x.io a/j", "auth: {passwordRef: {name: s, key: k}}", "a/s"},
		"no key":            {"jobs.x.io a/j", "auth: {passwordRef: {name: s}, configMapKeyRef: {name: s, key: k}}", ""},
		"another kind":      {"jobs.x.io a/j", "secretRef: {kind: VaultSecret, name: s}", ""},
		"no name":           {"jobs.x.io a/j", "secretRef: {name: 7}, secretName: true, secret: s", ""},
		"nowhere":           {"pools.x.io /p", "secretRef: {name: s}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := namingPart(t)
			takeIn(t, p, tc.what, "metadata: {finalizers: [x.io/f]}\nspec: {"+tc.spec+"}")
			names := []string{}
			for _, r := range p.records {
				for _, n := range r.needs {
					names = append(names, n.Named.Namespace+"/"+n.Named.Name)
				}
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("names %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNamedByVolume checks that the attributes of a volume count as identifiers, and that an object
// without a namespace, such as a volume, refers to objects in any namespace.
func TestNamedByVolume(t *testing.T) {
	p := namingPart(t)
	takeIn(t, p, "sessionclusters.x.io a/main", "metadata: {finalizers: [x.io/f]}\nstatus: {info: {backendUUID: "+carried+"}}")
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{VolumeAttributes: map[string]string{"backendUUID": carried, "storage.class/x": "main"}},
	}}}
	p.Keep(volumes, types.NamespacedName{Name: "v"}, volume)
	want := []string{"persistentvolumes outside 1 [v] by spec.csi.volumeAttributes.backendUUID"}
	if diff := cmp.Diff(want, usersOf(p, "a", "sessionclusters.x.io", "main")); diff != "" {
		t.Error(diff)
	}
}

// TestManyNameOne checks that a hundred thousand objects that refer to one take a few hundred bytes
// each and bounded work, and leave nothing behind.
func TestManyNameOne(t *testing.T) {
	race.Skip(t)
	const many = 100_000
	p := namingPart(t)
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	named := func(i int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "a", "name": fmt.Sprint("job-", i), "finalizers": []any{"y.io/known"}, "ownerReferences": []any{}},
			"spec":     map[string]any{"clusterName": "main", "filler": strings.Repeat("x", 2000)},
		}}
	}
	for i := range many {
		p.Keep("jobs.x.io", types.NamespacedName{Namespace: "a", Name: fmt.Sprint("job-", i)}, named(i))
	}
	each := float64(live()-before) / many
	t.Logf("%.0f bytes each", each)
	if each > 700 {
		t.Errorf("%.0f bytes are kept of each", each)
	}
	takeIn(t, p, "sessionclusters.x.io a/main", "metadata: {finalizers: [x.io/f]}")
	began := time.Now()
	p.Settle(func() {})
	t.Logf("settled in %s", time.Since(began))
	if got := usersOf(p, "a", "sessionclusters.x.io", "main"); len(got) != 1 || !strings.HasPrefix(got[0], "jobs.x.io inside 100000 [") {
		t.Errorf("got %v", got)
	}
	for i := range many {
		p.Forget("jobs.x.io", types.NamespacedName{Namespace: "a", Name: fmt.Sprint("job-", i)})
	}
	if left := usersOf(p, "a", "sessionclusters.x.io", "main"); len(left)+len(p.namers)+len(p.mentions) > 0 || len(p.awaits) != 1 {
		t.Errorf("left: %v, %d, %d, %d", left, len(p.namers), len(p.mentions), len(p.awaits))
	}
}

// TestNamedInCircles checks that objects that refer to one another in a circle, by fields and by
// their status, are each reported once.
func TestNamedInCircles(t *testing.T) {
	p := namingPart(t)
	circle := func(to string) string {
		return "metadata: {finalizers: [x.io/f]}\nspec: {clusterRef: {name: " + to + "}}\nstatus: {clusterRef: {name: " + to + "}, tokenSecretRef: {name: s}}"
	}
	takeIn(t, p, "sessionclusters.x.io a/one", circle("two"))
	takeIn(t, p, "sessionclusters.x.io a/two", circle("one"))
	for name, want := range map[string]string{"one": "two", "two": "one"} {
		if diff := cmp.Diff([]string{"sessionclusters.x.io inside 1 [" + want + "] by spec.clusterRef.name"}, usersOf(p, "a", "sessionclusters.x.io", name)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestNamesMany checks that a bounded number of an object's references is kept.
func TestNamesMany(t *testing.T) {
	p := namingPart(t)
	refs, fields := []any{}, map[string]any{}
	for i := range 20_000 {
		refs = append(refs, map[string]any{"name": fmt.Sprint("c", i)})
		fields[fmt.Sprint("f", i, "ClusterName")] = fmt.Sprint("c", i)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "a", "name": "j", "finalizers": []any{"x.io/f"}},
		"spec":     map[string]any{"clusterRefs": refs, "tokenSecretRefs": refs, "more": fields}, "status": map[string]any{"keySecretRefs": refs},
	}}
	p.Keep("jobs.x.io", types.NamespacedName{Namespace: "a", Name: "j"}, u)
	r := p.records[Thing{"jobs.x.io", types.NamespacedName{Namespace: "a", Name: "j"}}]
	if len(p.mentions) > maxNamed || len(r.needs) > maxNamed || len(r.published) > maxNamed {
		t.Errorf("%d mentions, %d needs, %d published are kept", len(p.mentions), len(r.needs), len(r.published))
	}
}
