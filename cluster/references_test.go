package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/internal/race"
)

// knowing returns a catalog of its own, so that the tests do not depend on that in the binary.
func knowing(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Parse([]byte(`
- finalizer: x.io/need
  resources: [gadgets.x.io]
  owner: gadgeteer
  component: in-cluster
  source: x
  needs:
    - {resource: secrets, path: spec.secret, namespacePath: spec.secretNamespace, without: hangs, source: x}
    - {resource: configmaps, path: "spec.configs[*]", without: may, source: x}
    - {resource: configmaps, path: spec.optional, without: completes, source: x}
    - {resource: configmaps, name: gadgeteer, without: may, source: x}
    - {resource: serviceaccounts, path: spec.account, impersonates: true, without: completes, source: x}
    - {resource: unserved.y.io, path: spec.unserved, without: hangs, source: x}
    - resource: makers.x.io
      path: spec.maker
      without: hangs
      source: x
      needs:
        - {resource: secrets, path: spec.secret, without: hangs, source: x}
- finalizer: x.io/wait
  resources: [makers.x.io]
  owner: maker
  component: in-cluster
  source: x
  waitsFor:
    - {resource: gadgets.x.io, path: spec.maker, when: [{path: spec.done, notIn: ["true"]}], source: x}
    - {resource: gadgets.x.io, path: status.maker, source: x}
    - {resource: gadgets.x.io, path: spec.lender, if: [{path: status.bound, notIn: [""]}], source: x}
    - {resource: makers.x.io, path: spec.after, source: x}
    - {resource: pools.x.io, sameNamespace: true, source: x}
    - {resource: parts.x.io, path: spec.maker, when: [{path: spec.keep, notIn: ["true"]}], deletes: true, source: x}
- finalizer: x.io/range
  resources: [ranges.x.io]
  owner: ranger
  component: in-cluster
  source: x
  waitsFor:
    - {resource: addresses.x.io, path: metadata.name, within: "spec.cidrs[*]", source: x}
`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gadgetIn(namespace, name, spec string) string {
	return fmt.Sprintf("{apiVersion: x.io/v1, kind: Gadget, metadata: {name: %s, namespace: %s, finalizers: [x.io/need]}, spec: {%s}}", name, namespace, spec)
}

func makerIn(namespace, name, spec string, finalizers ...string) string {
	return fmt.Sprintf("{apiVersion: x.io/v1, kind: Maker, metadata: {name: %s, namespace: %s, finalizers: [%s]}, spec: {%s}}", name, namespace, strings.Join(finalizers, ", "), spec)
}

func plainIn(kind, namespace, name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: %s, namespace: %s}}", kind, name, namespace)
}

func refsIn(t testing.TB, manifests bool, docs ...string) *World {
	t.Helper()
	options := Options{Catalog: knowing(t)}
	if manifests {
		options.Manifests = &Manifests{}
	}
	w, err := FromObjects(options, objects(t, strings.Join(docs, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sectionLines returns the groups of a section of the facts as lines "PATH: NAMES".
func sectionLines(w *World, section string) []string {
	lines := []string{}
	var walk func(path []string, node map[string]any)
	walk = func(path []string, node map[string]any) {
		if node["names"] != nil {
			line := fmt.Sprintf("%s: %v %v", strings.Join(path, " "), node["count"], node["names"])
			if n, _ := node["leaving"].(int); n > 0 {
				line += fmt.Sprintf(" leaving=%d", n)
			}
			if owned, _ := node["owned"].([]any); len(owned) > 0 {
				line += fmt.Sprintf(" owned=%v", owned)
			}
			if mutual, _ := node["mutual"].([]any); len(mutual) > 0 {
				line += fmt.Sprintf(" mutual=%v", mutual)
			}
			if needed, is := node["needed"].(map[string]any); is {
				line += fmt.Sprintf(" needs %v %v", needed["count"], needed["names"])
			}
			lines = append(lines, line)
			return
		}
		for key, below := range node {
			if below, is := below.(map[string]any); is {
				walk(append(path[:len(path):len(path)], key), below)
			}
		}
	}
	entries, _ := at(w, section).(map[string]any)
	walk(nil, entries)
	slices.Sort(lines)
	return lines
}

func TestNeeds(t *testing.T) {
	race.Skip(t)
	secret, held := plainIn("Secret", "a", "s"), "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a, finalizers: [y.io/f]}}"
	elsewhere, config := plainIn("Secret", "b", "s"), plainIn("ConfigMap", "a", "c")
	tests := map[string]struct {
		reason    string
		docs      []string
		manifests bool
		want      []string
	}{
		"goes":              {"the needed object is in its namespace", []string{gadgetIn("a", "g", "secret: s"), secret}, false, []string{"a x.io/need gadgets.x.io secrets goes: 1 [g] needs 1 [s]"}},
		"another version":   {"the catalog knows kinds, in whichever version", []string{strings.Replace(gadgetIn("a", "g", "secret: s"), "x.io/v1", "x.io/v9", 1), secret}, false, []string{"a x.io/need gadgets.x.io secrets goes: 1 [g] needs 1 [s]"}},
		"is kept":           {"a finalizer keeps it", []string{gadgetIn("a", "g", "secret: s"), held}, false, nil},
		"elsewhere":         {"it does not go with the namespace", []string{gadgetIn("a", "g", "secret: s, secretNamespace: b"), elsewhere}, false, nil},
		"missing":           {"it was never created", []string{gadgetIn("a", "g", "secret: s"), elsewhere}, false, []string{"a x.io/need gadgets.x.io secrets hangs: 1 [g] needs 1 [s]"}},
		"missing elsewhere": {"nor there", []string{gadgetIn("a", "g", "secret: s, secretNamespace: b"), secret}, false, []string{"a x.io/need gadgets.x.io secrets hangs: 1 [g] needs 1 [b/s]"}},
		"may be missed":     {"the owner may stop waiting", []string{gadgetIn("a", "g", "configs: [c, d, c]"), config}, false, []string{"a x.io/need gadgets.x.io configmaps goes: 1 [g] needs 1 [c]", "a x.io/need gadgets.x.io configmaps may: 1 [g] needs 1 [d]"}},
		"is not missed":     {"the owner stops waiting", []string{gadgetIn("a", "g", "optional: c"), config}, false, nil},
		"fixed name":        {"the owner uses it if it exists", []string{gadgetIn("a", "g", ""), plainIn("ConfigMap", "a", "gadgeteer")}, false, []string{"a x.io/need gadgets.x.io configmaps goes: 1 [g] needs 1 [gadgeteer]"}},
		"not seen":          {"no kind Secret at all", []string{gadgetIn("a", "g", "secret: s")}, false, nil},
		"hidden": {"an unseen object is not absent", []string{gadgetIn("a", "g", "secret: s"), elsewhere,
			"{apiVersion: termguard.dev/v1, kind: Cluster, unseen: [{resource: secrets, namespaced: true, reason: forbidden}]}"}, false, nil},
		"unserved":     {"a kind that is not there", []string{gadgetIn("a", "g", "unserved: u"), secret}, false, nil},
		"a number":     {"is no name", []string{gadgetIn("a", "g", "secret: 7"), secret}, false, nil},
		"a list":       {"nor is a list", []string{gadgetIn("a", "g", "secret: [s]"), secret}, false, nil},
		"no finalizer": {"its owner has nothing to do", []string{"{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a}, spec: {secret: s}}", secret}, false, nil},
		"next thing": {"a reference of the referred object", []string{gadgetIn("a", "g", "maker: m"), makerIn("a", "m", "secret: s", "x.io/wait"), secret}, false,
			[]string{"a x.io/need gadgets.x.io secrets goes: 1 [g] needs 1 [s]"}},
		"next thing is missing": {"that does not exist either", []string{gadgetIn("a", "g", "maker: m"), makerIn("a", "m", "secret: s"), elsewhere}, false,
			[]string{"a x.io/need gadgets.x.io makers.x.io goes: 1 [g] needs 1 [m]", "a x.io/need gadgets.x.io secrets hangs: 1 [g] needs 1 [s]"}},
		"impersonates": {"the bindings of its account are deleted, too",
			[]string{gadgetIn("a", "g", "account: sa"), plainIn("ServiceAccount", "a", "sa"), "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: rb, namespace: a}, subjects: [{kind: ServiceAccount, namespace: a, name: sa}]}"}, false,
			[]string{"a x.io/need gadgets.x.io rolebindings.rbac.authorization.k8s.io goes: 1 [g] needs 1 [rb]"}},
		"several":   {"names are few, counts are exact", []string{gadgetIn("a", "g7", "secret: s"), gadgetIn("a", "g1", "secret: s"), gadgetIn("a", "g2", "secret: s"), gadgetIn("a", "g3", "secret: s"), gadgetIn("a", "g4", "secret: s"), gadgetIn("a", "g5", "secret: s"), secret}, false, []string{"a x.io/need gadgets.x.io secrets goes: 6 [g1 g2 g3 g4 g5] needs 1 [s]"}},
		"manifests": {"objects outside a set may be written by others, and are deleted with the namespace", []string{gadgetIn("a", "g", "secret: s, configs: [c]")}, true, []string{"a x.io/need gadgets.x.io configmaps goes: 1 [g] needs 1 [c]", "a x.io/need gadgets.x.io secrets goes: 1 [g] needs 1 [s]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, tc.want...), sectionLines(refsIn(t, tc.manifests, tc.docs...), "needs")); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNeeded checks which objects need an object that exists.
func TestNeeded(t *testing.T) {
	secret, binding := plainIn("Secret", "a", "s"), "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: rb, namespace: a}, subjects: [{kind: ServiceAccount, namespace: a, name: sa}]}"
	tests := map[string]struct {
		reason    string
		docs      []string
		manifests bool
		want      []string
	}{
		"beside":       {"in the same namespace", []string{gadgetIn("a", "g", "secret: s"), gadgetIn("a", "h", "secret: s"), secret}, false, []string{"a secrets s a x.io/need gadgets.x.io: 2 [g h]"}},
		"elsewhere":    {"by objects of another", []string{gadgetIn("b", "g", "secret: s, secretNamespace: a"), secret}, false, []string{"a secrets s b x.io/need gadgets.x.io: 1 [g]"}},
		"not there":    {"it cannot be deleted", []string{gadgetIn("a", "g", "secret: s"), plainIn("Secret", "b", "s")}, false, nil},
		"kept":         {"a finalizer keeps it until it is no longer needed", []string{gadgetIn("a", "g", "secret: s"), "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a, finalizers: [y.io/f]}}"}, false, nil},
		"not missed":   {"the owner does without", []string{gadgetIn("a", "g", "optional: c"), plainIn("ConfigMap", "a", "c")}, false, nil},
		"of itself":    {"an object on the path to another is needed, too", []string{gadgetIn("a", "g", "maker: m"), makerIn("a", "m", "secret: s"), secret}, false, []string{"a makers.x.io m a x.io/need gadgets.x.io: 1 [g]", "a secrets s a x.io/need gadgets.x.io: 1 [g]"}},
		"impersonates": {"the binding gives its account rights", []string{gadgetIn("a", "g", "account: sa"), plainIn("ServiceAccount", "a", "sa"), binding}, false, []string{"a rolebindings.rbac.authorization.k8s.io rb a x.io/need gadgets.x.io: 1 [g]"}},
		"manifests":    {"they are written together", []string{gadgetIn("a", "g", "secret: s"), secret}, true, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := refsIn(t, tc.manifests, tc.docs...)
			if diff := cmp.Diff(append([]string{}, tc.want...), sectionLines(w, "needed")); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestReferrers checks which kinds may refer to which.
func TestReferrers(t *testing.T) {
	w := refsIn(t, false, makerIn("a", "m", ""), gadgetIn("a", "g", ""), "{apiVersion: x.io/v1, kind: Pool, metadata: {name: p, namespace: a}}")
	if diff := cmp.Diff([]any{"gadgets.x.io", "makers.x.io", "parts.x.io", "pools.x.io"}, at(w, "referrers", "makers.x.io")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := at(refsIn(t, true, makerIn("a", "m", "")), "referrers", "makers.x.io"); got != nil {
		t.Errorf("want nothing for manifests that refer to one another: %v", got)
	}
}

// TestNeedsFollow adds and removes needed objects.
func TestNeedsFollow(t *testing.T) {
	race.Skip(t)
	w := refsIn(t, false, gadgetIn("a", "g", "secret: s"), plainIn("Secret", "b", "s"))
	secrets := namespaced(schema.GroupVersion{Version: "v1"}, "secrets")
	gadgets := Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "gadgets"}, Namespaced: true}
	secret := func(finalizers ...string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", Finalizers: finalizers}}
	}
	is := func(state string) []string {
		return []string{"a x.io/need gadgets.x.io secrets " + state + ": 1 [g] needs 1 [s]"}
	}
	for _, step := range []struct {
		reason string
		do     func()
		want   []string
	}{
		{"it is missing", func() {}, is("hangs")},
		{"it comes", func() { apply(t, w, secrets, secret(), true) }, is("goes")},
		{"it is held", func() { apply(t, w, secrets, secret("y.io/f"), false) }, nil},
		{"it is free again", func() { apply(t, w, secrets, secret(), false) }, is("goes")},
		{"its kind is hidden", func() { w.SetUnseen(secrets, facts.UnseenError, "x") }, nil},
		{"it is listed again, without it", func() { w.Begin(secrets); w.End(secrets) }, is("hangs")},
		{"the object that needs it is deleted", func() { remove(t, w, gadgets, objects(t, gadgetIn("a", "g", "secret: s"))[0]) }, nil},
	} {
		step.do()
		w.Settle()
		if diff := cmp.Diff(append([]string{}, step.want...), sectionLines(w, "needs")); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.reason, diff)
		}
		needed := slices.ContainsFunc(step.want, func(line string) bool { return strings.Contains(line, "goes") })
		if got := sectionLines(w, "needed"); len(got) > 0 != needed {
			t.Errorf("%s: needed is %v", step.reason, got)
		}
	}
}

func TestInUse(t *testing.T) {
	maker := makerIn("a", "m", "", "x.io/wait")
	tests := map[string]struct {
		reason string
		docs   []string
		want   []string
	}{
		"names it":             {"one of its namespace", []string{maker, gadgetIn("a", "g", "maker: m")}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g]"}},
		"two paths":            {"each counts once", []string{maker, "{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a}, spec: {maker: m}, status: {maker: m}}"}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g]"}},
		"done":                 {"the condition does not hold", []string{maker, gadgetIn("a", "g", "maker: m, done: true")}, nil},
		"leaves":               {"it is being deleted", []string{maker, "{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [y.io/f]}, spec: {maker: m}}"}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g] leaving=1"}},
		"made for another":     {"its controller makes it again, or rests on it", []string{maker, "{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a, ownerReferences: [{apiVersion: y.io/v1, kind: Box, name: b, uid: u, controller: true}]}, spec: {maker: m}}"}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g] owned=[g]"}},
		"made, and left alone": {"near miss: who owns it controls nothing of it", []string{maker, "{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a, ownerReferences: [{apiVersion: y.io/v1, kind: Box, name: b, uid: u}]}, spec: {maker: m}}"}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g]"}},
		"other":                {"another of that name", []string{maker, gadgetIn("b", "g", "maker: m")}, nil},
		"not held":             {"nothing waits", []string{makerIn("a", "m", ""), gadgetIn("a", "g", "maker: m")}, nil},
		"if":                   {"it waits for those only if it is bound", []string{"{apiVersion: x.io/v1, kind: Maker, metadata: {name: m, namespace: a, finalizers: [x.io/wait]}, status: {bound: b}}", gadgetIn("a", "g", "lender: m")}, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: 1 [g]"}},
		"if not":               {"it is not bound", []string{maker, gadgetIn("a", "g", "lender: m")}, nil},
		"by being":             {"whatever it names", []string{maker, "{apiVersion: x.io/v1, kind: Pool, metadata: {name: p, namespace: a}}", "{apiVersion: x.io/v1, kind: Pool, metadata: {name: q, namespace: b}}"}, []string{"a makers.x.io m x.io/wait pools.x.io inside: 1 [p]"}},
		"itself":               {"no object waits for itself", []string{makerIn("a", "m", "after: m", "x.io/wait")}, nil},
		"wait for both":        {"each for the other", []string{makerIn("a", "m", "after: o", "x.io/wait"), makerIn("a", "o", "after: m", "x.io/wait")}, []string{"a makers.x.io m x.io/wait makers.x.io inside: 1 [o] mutual=[o]", "a makers.x.io o x.io/wait makers.x.io inside: 1 [m] mutual=[m]"}},
		"address": {"in its range, and in no other's", []string{
			"{apiVersion: x.io/v1, kind: Range, metadata: {name: r, finalizers: [x.io/range]}, spec: {cidrs: [10.0.0.0/8, 7, nonsense]}}",
			"{apiVersion: x.io/v1, kind: Range, metadata: {name: s, finalizers: [x.io/range]}, spec: {cidrs: [10.1.0.0/16]}}",
			"{apiVersion: x.io/v1, kind: Address, metadata: {name: 10.2.0.1}}", "{apiVersion: x.io/v1, kind: Address, metadata: {name: 10.1.0.1}}", "{apiVersion: x.io/v1, kind: Address, metadata: {name: none}}",
		}, []string{" ranges.x.io r x.io/range addresses.x.io outside: 1 [10.2.0.1]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, tc.want...), sectionLines(refsIn(t, false, tc.docs...), "inUse")); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if got := sectionLines(refsIn(t, true, tc.docs...), "inUse"); len(got) > 0 {
				t.Errorf("want nothing for manifests that refer to one another: %v", got)
			}
		})
	}
}

// TestAwaited checks which referring objects are deleted first by a controller that waits for them.
func TestAwaited(t *testing.T) {
	maker := makerIn("a", "m", "", "x.io/wait")
	part := func(name, spec string) string {
		return fmt.Sprintf("{apiVersion: x.io/v1, kind: Part, metadata: {name: %s, namespace: a}, spec: {%s}}", name, spec)
	}
	tests := map[string]struct {
		reason string
		docs   []string
		want   []string
	}{
		"one":      {"it names the maker", []string{maker, part("p", "maker: m")}, []string{"a makers.x.io m x.io/wait parts.x.io: 1 [p]"}},
		"kept":     {"near miss: that is not deleted", []string{maker, part("p", "maker: m, keep: true")}, nil},
		"other":    {"it names another", []string{maker, part("p", "maker: o")}, nil},
		"not held": {"no finalizer waits", []string{makerIn("a", "m", ""), part("p", "maker: m")}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := refsIn(t, false, tc.docs...)
			if diff := cmp.Diff(append([]string{}, tc.want...), sectionLines(w, "awaited")); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if got := sectionLines(w, "inUse"); len(got) > 0 {
				t.Errorf("a Terminating object keeps nothing: %v", got)
			}
		})
	}
}

// TestManyReferrers checks that the facts name few referrers, and count all.
func TestManyReferrers(t *testing.T) {
	race.Skip(t)
	docs := []string{makerIn("a", "m", "", "x.io/wait")}
	for i := range 10_000 {
		docs = append(docs, gadgetIn("a", fmt.Sprintf("g%05d", i), "maker: m, secret: s"))
	}
	w := refsIn(t, false, append(docs, plainIn("Secret", "a", "s"))...)
	few := "10000 [g00000 g00001 g00002 g00003 g00004]"
	if got := sectionLines(w, "inUse"); !cmp.Equal(got, []string{"a makers.x.io m x.io/wait gadgets.x.io inside: " + few}) {
		t.Errorf("in use: %v", got)
	}
	if got := fmt.Sprint(sectionLines(w, "needs")); !strings.Contains(got, few) {
		t.Errorf("needs: %v", got)
	}
}

// TestMissing checks one object.
func TestMissing(t *testing.T) {
	gr := schema.GroupResource{Group: "x.io", Resource: "gadgets"}
	gadget := objects(t, gadgetIn("a", "g", "secret: s, configs: [c], unserved: u"))[0]
	needs := []string{plainIn("Secret", "b", "s"), plainIn("ConfigMap", "b", "c")}
	missing := func(w *World, obj metav1.Object) any {
		return facts.Lookup(w.Ownership(obj, gr, nil), "x.io/need", "missing")
	}
	want := []any{
		map[string]any{"resource": "secrets", "namespace": "a", "name": "s", "without": "hangs"},
		map[string]any{"resource": "configmaps", "namespace": "a", "name": "c", "without": "may"},
	}
	w := refsIn(t, false, append(needs, gadgetIn("a", "other", ""))...)
	if diff := cmp.Diff(want, missing(w, gadget)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := missing(w, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g", UID: types.UID("u"), Finalizers: []string{"x.io/need"}}}); got != nil {
		t.Errorf("an object known by metadata alone has no references: %v", got)
	}
	if got := missing(refsIn(t, false, append(needs, gadgetIn("a", "other", ""), plainIn("Secret", "a", "s"), plainIn("ConfigMap", "a", "c"))...), gadget); got != nil {
		t.Errorf("nothing is missing: %v", got)
	}
	if got := missing(refsIn(t, true, append(needs, gadgetIn("a", "other", ""))...), gadget); got != nil {
		t.Errorf("manifests prove no absence: %v", got)
	}
}

// TestIncrementalReferences is TestIncremental for references between objects.
func TestIncrementalReferences(t *testing.T) {
	race.Skip(t)
	incremental(t, 100, randomReference)
}

// randomReference returns an object that refers to others, or one that is referred to, of kinds in
// the catalog of the binary.
func randomReference(t *testing.T, rng *rand.Rand) *unstructured.Unstructured {
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	ns, name := pick("a", "b"), pick("x", "z")
	var text string
	switch rng.IntN(9) {
	case 0, 1:
		text = fmt.Sprintf("{apiVersion: kubernetes.m.crossplane.io/v1, kind: Object, metadata: {name: %s, namespace: %s, finalizers: [%s]}, spec: {providerConfigRef: {kind: ProviderConfig, name: %s}}}",
			name, ns, pick("finalizer.managedresource.crossplane.io", "finalizer.managedresource.crossplane.io", ""), pick("x", "z"))
	case 2, 3:
		text = fmt.Sprintf("{apiVersion: kubernetes.m.crossplane.io/v1, kind: ProviderConfig, metadata: {name: %s, namespace: %s, finalizers: [%s]}, spec: {credentials: {source: %s, secretRef: {name: %s, namespace: %s}}}}",
			name, ns, pick("in-use.crossplane.io", ""), pick("Secret", "Secret", "None"), pick("x", "z"), pick("a", "b"))
	case 4:
		text = fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, finalizers: [%s]}}", name, ns, pick("", "", "one.io/f"))
	case 5:
		text = fmt.Sprintf("{apiVersion: kubernetes.m.crossplane.io/v1, kind: ProviderConfigUsage, metadata: {name: %s, namespace: %s}, providerConfigRef: {kind: ProviderConfig, name: %s}}", name, ns, pick("x", "z"))
	case 6:
		text = fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {nodeName: n1, resourceClaims: [{name: r, resourceClaimName: %s}]}, status: {phase: %s}}", name, ns, pick("x", "z"), pick("Running", "Failed"))
	case 7:
		text = fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s, namespace: %s, finalizers: [%s]}}", name, ns, pick("resource.kubernetes.io/delete-protection", ""))
	case 8:
		text = fmt.Sprintf("{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: %s, namespace: %s, finalizers: [finalizers.fluxcd.io]}, spec: {serviceAccountName: op}, status: {storageNamespace: %s}}", name, ns, pick("a", `""`))
		if rng.IntN(2) == 0 {
			text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s, namespace: %s}, subjects: [{kind: ServiceAccount, name: op, namespace: %s}]}", name, ns, pick("a", "b"))
		}
		if rng.IntN(3) == 0 {
			text = fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: %s}}", ns)
		}
	}
	return objects(t, text)[0]
}
