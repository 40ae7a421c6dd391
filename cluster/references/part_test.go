package references

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// nowhere is a World without objects.
type nowhere struct{}

func (nowhere) Presence(string, types.NamespacedName) Presence { return Presence{Visible: true} }

func (nowhere) Undefined(schema.GroupKind) bool { return false }

func (nowhere) Allows(string, string, string, catalog.Operation, string) (lets, ok bool, only []Thing) {
	return false, false, nil
}

func part(t *testing.T) *Part {
	t.Helper()
	c, err := catalog.Parse([]byte(`
- finalizer: x.io/need
  resources: [gadgets.x.io]
  owner: gadgeteer
  component: in-cluster
  source: x
  needs: [{resource: secrets, path: "spec.secrets[*]", without: hangs, source: x, needs: [{resource: secrets, path: data.next, without: hangs, source: x}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	p := New(facts.Document{}, Options{Catalog: c, MaxNames: 5, World: nowhere{}})
	p.Follow(map[string]bool{"gadgets.x.io": true, "secrets": true})
	return p
}

func keep(p *Part, name string, secrets []any, filler string) {
	key := types.NamespacedName{Namespace: "a", Name: name}
	p.Keep("gadgets.x.io", key, &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "a", "name": name, "finalizers": []any{"x.io/need"}},
		"spec":     map[string]any{"secrets": secrets, "data": filler},
	}})
}

// TestReduced checks that only the names that an object refers to are kept.
func TestReduced(t *testing.T) {
	const objects, size = 300, 100 << 10
	p := part(t)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range objects {
		keep(p, fmt.Sprint("g", i), []any{"s"}, strings.Repeat("x", size))
	}
	p.Settle(func() {})
	if grown := heap() - before; grown > objects*size/10 {
		t.Errorf("%d objects of %d KiB left %d KiB", objects, size>>10, grown>>10)
	}
	if got := facts.Lookup(p.doc, "needs", "a", "x.io/need", "gadgets.x.io", "secrets", "hangs", "count"); got != objects {
		t.Errorf("%v objects need the Secret, want %d", got, objects)
	}
	runtime.KeepAlive(p)
}

// TestManyNames checks that few names of one object are kept.
func TestManyNames(t *testing.T) {
	p := part(t)
	var secrets []any
	for i := range 100_000 {
		secrets = append(secrets, fmt.Sprint("s", i))
	}
	keep(p, "g", secrets, "")
	p.Settle(func() {})
	if got := facts.Lookup(p.doc, "needs", "a", "x.io/need", "gadgets.x.io", "secrets", "hangs", "needed", "count"); got != maxNamed {
		t.Errorf("%v names are kept, want %d", got, maxNamed)
	}
	if got := len(p.needed); got != maxNamed {
		t.Errorf("%d things are looked after, want %d", got, maxNamed)
	}
}

// unread is a World in which the objects of one resource are unknown.
type unread string

func (unread) Undefined(schema.GroupKind) bool { return false }

func (unread) Allows(string, string, string, catalog.Operation, string) (lets, ok bool, only []Thing) {
	return false, false, nil
}

func (u unread) Presence(resource string, _ types.NamespacedName) Presence {
	return Presence{Visible: resource != string(u)}
}

// TestUnknown checks that lookups cover the objects that objects of a namespace need, and those
// that these wait for.
func TestUnknown(t *testing.T) {
	c, err := catalog.Parse([]byte(`
- {finalizer: x.io/need, resources: [contents.x.io], owner: x, component: in-cluster, source: x, needs: [{resource: secrets, path: spec.secret, namespacePath: spec.in, without: hangs, source: x}]}
- {finalizer: x.io/wait, resources: [snaps.x.io], owner: x, component: in-cluster, source: x, waitsFor: [{resource: contents.x.io, path: spec.snap, namespacePath: spec.of, deletes: true, source: x}]}
- {finalizer: x.io/use, resources: [snaps.x.io], owner: x, component: in-cluster, source: x, waitsFor: [{resource: contents.x.io, path: spec.snap, namespacePath: spec.of, source: x}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, finalizer, namespace string
		world                        World
		want                         []Thing
	}{
		{"it waits for the content", "x.io/wait", "a", unread("secrets"), []Thing{{"secrets", types.NamespacedName{Namespace: "ops", Name: "token"}}}},
		{"near miss: it is known not to be there", "x.io/wait", "a", nowhere{}, nil},
		{"near miss: nothing waits in that namespace", "x.io/wait", "b", unread("secrets"), nil},
		{"near miss: who uses it does not go", "x.io/use", "a", unread("secrets"), nil},
	} {
		p := New(facts.Document{}, Options{Catalog: c, MaxNames: 5, World: tc.world})
		p.Follow(map[string]bool{"snaps.x.io": true, "contents.x.io": false, "secrets": true})
		put := func(resource, namespace, name, finalizer string, spec map[string]any) {
			p.Keep(resource, types.NamespacedName{Namespace: namespace, Name: name}, &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"namespace": namespace, "name": name, "finalizers": []any{finalizer}}, "spec": spec,
			}})
		}
		put("snaps.x.io", "a", "s", tc.finalizer, nil)
		put("contents.x.io", "", "c", "x.io/need", map[string]any{"snap": "s", "of": "a", "secret": "token", "in": "ops"})
		p.Settle(func() {})
		if diff := cmp.Diff(tc.want, p.Unknown(tc.namespace)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
	}
}

// TestRoles checks that a resource is read whole only if the catalog needs it for a kind that the
// cluster serves, and is read again when those kinds change.
func TestRoles(t *testing.T) {
	if part(t).ReadsWhole("secrets") {
		t.Error("a catalog made Secrets be read whole")
	}
	c := catalog.Default()
	p := New(facts.Document{}, Options{Catalog: c, MaxNames: 5, World: nowhere{}})
	p.Follow(map[string]bool{"secrets": true, "configmaps": true})
	for _, resource := range []string{"secrets", "configmaps", "persistentvolumeclaims"} {
		if p.ReadsWhole(resource) || p.KeepsAll(resource) {
			t.Errorf("%s are read, and nothing needs them", resource)
		}
	}
	before := p.Role("secrets")
	p.Follow(map[string]bool{"challenges.acme.cert-manager.io": true, "persistentvolumeclaims": true, "volumeattributesclasses.storage.k8s.io": false, "resourcegroups.resources.azure.com": true})
	for resource, want := range map[string][2]bool{ // whole, by name
		"secrets": {false, true}, "configmaps": {false, false}, "persistentvolumeclaims": {true, false},
		"challenges.acme.cert-manager.io": {true, false}, "volumeattributesclasses.storage.k8s.io": {false, false},
		"resourcegroups.resources.azure.com": {true, false},
	} {
		if got := [2]bool{p.ReadsWhole(resource), p.KeepsAll(resource)}; got != want {
			t.Errorf("%s: read whole and by name: %v, want %v", resource, got, want)
		}
	}
	if p.ReadsFields("configmaps") || !p.ReadsFields("resourcegroups.resources.azure.com") {
		t.Error("fields are read of custom resources, and of them alone")
	}
	after := p.Role("secrets")
	if p.Follow(map[string]bool{"challenges.acme.cert-manager.io": true, "projects.app.terraform.io": true}); after == before || p.Role("secrets") != after {
		t.Errorf("Secrets are listed again when they are first needed, and only then: %d, %d, %d", before, after, p.Role("secrets"))
	}
}
