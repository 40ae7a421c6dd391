package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// object decodes an object from YAML.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// entry returns the only entry of a catalog, with added fields.
func entry(t *testing.T, added string) *Entry {
	t.Helper()
	c, err := Parse([]byte("- {finalizer: a.io/f, resources: [widgets.a.io, gadgets.b.a.io], owner: x, component: in-cluster, source: x, " + added + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return &c.Entries()[0]
}

func TestNeedNames(t *testing.T) {
	tests := map[string]struct {
		reason, need, object string
		want                 []Named
	}{
		"path":              {"the value at the path", "path: spec.secretRef.name", "spec: {secretRef: {name: s}}", []Named{{"", "s"}}},
		"nothing there":     {"an optional field", "path: spec.secretRef.name", "spec: {}", nil},
		"empty":             {"no name", "path: spec.name", "spec: {name: ''}", nil},
		"list":              {"a list is no name", "path: spec.name", "spec: {name: [a]}", nil},
		"map":               {"nor is a map", "path: spec.name", "spec: {name: {a: b}}", nil},
		"number":            {"nor is a number", "path: spec.name", "spec: {name: 7}", nil},
		"too long":          {"no object is called that", "path: spec.name", "spec: {name: " + strings.Repeat("a", 254) + "}", nil},
		"through a string":  {"a string has no fields", "path: spec.a.name", "spec: {a: b}", nil},
		"key":               {"an annotation", `path: 'metadata.annotations["a.b/c"]'`, "metadata: {annotations: {a.b/c: s}}", []Named{{"", "s"}}},
		"elements":          {"each once, in order", "path: 'spec.refs[*].name'", "spec: {refs: [{name: b}, {name: a}, {kind: x}, {name: b}]}", []Named{{"", "b"}, {"", "a"}}},
		"elements of a map": {"in the order of its keys", "path: 'spec.refs[*]'", "spec: {refs: {v: b, u: a}}", []Named{{"", "a"}, {"", "b"}}},
		"no list":           {"[*] of a string", "path: 'spec.refs[*].name'", "spec: {refs: a}", nil},
		"namespace":         {"if the field says so", "path: spec.ref.name, namespacePath: spec.ref.namespace", "spec: {ref: {name: a, namespace: team}}", []Named{{"team", "a"}}},
		"namespace of each": {"the field of the same element", "path: 'spec.refs[*].name', namespacePath: 'spec.refs[*].namespace'", "spec: {refs: [{name: a, namespace: team}, {name: b}]}", []Named{{"team", "a"}, {"", "b"}}},
		"in":                {"of that kind", "path: spec.ref.name, when: [{path: spec.ref.kind, in: [Issuer, '']}]", "spec: {ref: {name: a, kind: Issuer}}", []Named{{"", "a"}}},
		"in, absent":        {"a missing field is empty", "path: spec.ref.name, when: [{path: spec.ref.kind, in: [Issuer, '']}]", "spec: {ref: {name: a}}", []Named{{"", "a"}}},
		"not in":            {"of another kind", "path: spec.ref.name, when: [{path: spec.ref.kind, in: [Issuer]}]", "spec: {ref: {name: a, kind: ClusterIssuer}}", nil},
		"notIn":             {"an orphan needs nothing", "path: spec.ref.name, when: [{path: spec.deletionPolicy, notIn: [Orphan]}]", "spec: {deletionPolicy: Orphan, ref: {name: a}}", nil},
		"boolean":           {"a flag", "path: spec.ref.name, when: [{path: spec.prune, in: ['true']}]", "spec: {prune: true, ref: {name: a}}", []Named{{"", "a"}}},
		"any of a list":     {"a policy of the object", "path: spec.ref.name, when: [{path: 'spec.policies[*]', in: ['*', Delete, '']}]", "spec: {policies: [Observe, Delete], ref: {name: a}}", []Named{{"", "a"}}},
		"none of a list":    {"it is only observed", "path: spec.ref.name, when: [{path: 'spec.policies[*]', in: ['*', Delete, '']}]", "spec: {policies: [Observe], ref: {name: a}}", nil},
		"no list at all":    {"the default", "path: spec.ref.name, when: [{path: 'spec.policies[*]', in: ['*', Delete, '']}]", "spec: {ref: {name: a}}", []Named{{"", "a"}}},
		"notIn of a list":   {"one of them is enough", "path: spec.ref.name, when: [{path: 'spec.policies[*]', notIn: [Orphan]}]", "spec: {policies: [a, Orphan], ref: {name: a}}", nil},
		"two conditions":    {"both must hold", "path: spec.ref, when: [{path: spec.a, in: [x]}, {path: spec.b, in: [x]}]", "spec: {ref: a, a: x, b: z}", nil},
		"condition of each": {"on the same element", "path: 'spec.a[*].b[*].name', when: [{path: 'spec.a[*].kind', in: [x]}, {path: 'spec.a[*].b[*].kind', in: [z]}, {path: spec.all, in: ['true']}]",
			"spec: {all: true, a: [{kind: x, b: [{name: 1a, kind: z}, {name: 1b}]}, {kind: w, b: [{name: 2a, kind: z}]}]}", []Named{{"", "1a"}}},
		"default":             {"a name for the unset field", "path: spec.serviceAccountName, name: tf-runner", "spec: {}", []Named{{"", "tf-runner"}}},
		"no default":          {"if the field says another", "path: spec.serviceAccountName, name: tf-runner", "spec: {serviceAccountName: a}", []Named{{"", "a"}}},
		"default, unneeded":   {"where the condition does not hold", "path: spec.sa, name: tf-runner, when: [{path: spec.destroy, in: ['true']}]", "spec: {}", nil},
		"fixed name":          {"always the same", "name: aso-credential", "spec: {}", []Named{{"", "aso-credential"}}},
		"fixed name, another": {"the object names another", "name: aso-credential, when: [{path: 'metadata.annotations[\"a/b\"]', in: ['']}]", "metadata: {annotations: {a/b: other}}", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := entry(t, "needs: [{resource: secrets, without: may, source: x, "+tc.need+"}]").Needs[0]
			if diff := cmp.Diff(tc.want, n.Names(object(t, tc.object))); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNeedsBelow follows needed objects from one to the next.
func TestNeedsBelow(t *testing.T) {
	n := entry(t, `needs: [{resource: issuers.a.io, path: spec.issuer, without: hangs, source: x,
		needs: [{resource: secrets, path: spec.secret, without: may, source: x}]}]`).Needs[0]
	if got := n.Names(object(t, "spec: {issuer: i}")); !cmp.Equal(got, []Named{{"", "i"}}) {
		t.Errorf("the issuer: got %v", got)
	}
	if got := n.Needs[0].Names(object(t, "spec: {secret: s}")); !cmp.Equal(got, []Named{{"", "s"}}) {
		t.Errorf("its secret: got %v", got)
	}
}

func TestReferrers(t *testing.T) {
	e := entry(t, `waitsFor: [
		{resource: users.a.io, path: spec.widget, of: [widgets.a.io], source: x},
		{resource: pools.a.io, sameNamespace: true, when: [{path: status.phase, notIn: [Done]}], source: x},
		{resource: addresses.a.io, path: metadata.name, within: 'spec.cidrs[*]', of: ["*.b.a.io"], source: x}]`)
	if got := len(e.WaitsForOf("widgets.a.io")); got != 2 {
		t.Errorf("a widget waits for %d, want its users and the pools", got)
	}
	if got := len(e.WaitsForOf("gadgets.b.a.io")); got != 2 {
		t.Errorf("a gadget waits for %d, want the pools and addresses", got)
	}
	user, pool, address := &e.WaitsFor[0], &e.WaitsFor[1], &e.WaitsFor[2]
	if got := user.Names(object(t, "spec: {widget: w}")); !cmp.Equal(got, []Named{{"", "w"}}) {
		t.Errorf("a user names %v", got)
	}
	byDefault := entry(t, "waitsFor: [{resource: sensors.a.io, path: spec.bus, name: default, source: x}]").WaitsFor[0]
	if got := byDefault.Names(object(t, "spec: {}")); !cmp.Equal(got, []Named{{"", "default"}}) {
		t.Errorf("a sensor that names no bus means %v", got)
	}
	if user.Counts(nil) || pool.Names(nil) != nil {
		t.Error("a named object counted as existing, or the reverse")
	}
	if !pool.Counts(object(t, "status: {phase: Ready}")) || pool.Counts(object(t, "status: {phase: Done}")) {
		t.Error("every pool counts that is not done")
	}
	if got := address.Ranges(object(t, "spec: {cidrs: [10.0.0.0/8, 7, 'fd00::/64']}")); !cmp.Equal(got, []string{"10.0.0.0/8", "fd00::/64"}) {
		t.Errorf("ranges: %v", got)
	}
}

func TestNeedsOf(t *testing.T) {
	e := entry(t, `needs: [
		{resource: secrets, path: a, without: may, source: x},
		{resource: secrets, path: b, without: may, of: ["*.a.io"], source: x},
		{resource: secrets, path: c, without: may, of: ["*.b.a.io"], source: x},
		{resource: secrets, path: d, without: may, of: [widgets.a.io], source: x},
		{resource: "uses.{group}", path: e, without: may, of: ["gadgets.*"], source: x}]`)
	if got := e.NeedsOf("gadgets.b.a.io")[3].Resource; got != "uses.b.a.io" {
		t.Errorf("{group} became %s", got)
	}
	if got := e.Needs[4].Resource; got != "uses.{group}" {
		t.Errorf("the entry itself changed: %s", got)
	}
	for resource, want := range map[string]string{"widgets.a.io": "abd", "gadgets.b.a.io": "abce", "others.aa.io": "a", "pods": "a"} {
		got := ""
		for _, n := range e.NeedsOf(resource) {
			got += n.Path
		}
		if got != want {
			t.Errorf("%s: needs %s, want %s", resource, got, want)
		}
	}
}

func TestReferenceErrors(t *testing.T) {
	tests := map[string]struct{ reason, added, want string }{
		"path":           {"not a path", "needs: [{resource: secrets, path: spec..name, without: may, source: x}]", `needs 1: path "spec..name": at "..name"`},
		"dot first":      {"jq's way", "needs: [{resource: secrets, path: .spec, without: may, source: x}]", `at ".spec"`},
		"index":          {"the first is no better than the others", "needs: [{resource: secrets, path: 'spec.a[0]', without: may, source: x}]", `at "[0]"`},
		"no dot":         {"two fields", "needs: [{resource: secrets, path: 'spec[*]name', without: may, source: x}]", `at "name"`},
		"kind":           {"a kind is no resource", "needs: [{resource: Secret, path: a, without: may, source: x}]", `resource "Secret" is not plural.group`},
		"no source":      {"it cannot be verified", "needs: [{resource: secrets, path: a, without: may}]", "a source is needed"},
		"without":        {"a typo", "needs: [{resource: secrets, path: a, without: hang, source: x}]", `"hang" is none of`},
		"no without":     {"no next object", "needs: [{resource: secrets, path: a, source: x}]", `"" is none of`},
		"nothing":        {"no needed object", "needs: [{resource: secrets, without: may, source: x}]", "a path is needed, or a name"},
		"fixed, hangs":   {"other defaults are used then", "needs: [{resource: secrets, name: a, without: hangs, source: x}]", "proves nothing"},
		"default, list":  {"no element for the condition", "needs: [{resource: secrets, path: 'a[*]', name: b, without: may, source: x}]", "a path with [*]"},
		"of":             {"not the entry's", "needs: [{resource: secrets, path: a, of: [pods], without: may, source: x}]", `of 1: "pods" is none`},
		"of a kind":      {"a kind is no resource", "needs: [{resource: secrets, path: a, of: [Pod], without: may, source: x}]", `of 1: "Pod" is none of`},
		"impersonates":   {"nobody acts as a Secret", "needs: [{resource: secrets, path: a, impersonates: true, without: may, source: x}]", "no owner acts as one of secrets"},
		"other elements": {"no element for the field", "needs: [{resource: secrets, path: 'a[*].b', without: may, source: x, when: [{path: 'c[*].d', in: [e]}]}]", `"c[*].d" has a [*] that path "a[*].b" has not`},
		"namespaces":     {"no element for the field", "needs: [{resource: secrets, path: a, namespacePath: 'b[*]', without: may, source: x}]", `namespacePath "b[*]" has a [*]`},
		"in and notIn":   {"one of them", "needs: [{resource: secrets, path: a, without: may, source: x, when: [{path: b, in: [c], notIn: [d]}]}]", "one of in and notIn"},
		"no in":          {"one of them", "needs: [{resource: secrets, path: a, without: may, source: x, when: [{path: b}]}]", "one of in and notIn"},
		"depth": {"an owner reads so far", `needs: [{resource: as.a.io, path: a, without: may, source: x, needs: [{resource: as.a.io, path: a, without: may, source: x, needs: [
			{resource: as.a.io, path: a, without: may, source: x, needs: [{resource: as.a.io, path: a, without: may, source: x}]}]}]}]`, "more than 3"},
		"of, below":       {"the entry's resources differ from the object's", "needs: [{resource: as.a.io, path: a, without: may, source: x, needs: [{resource: secrets, path: b, of: [pods], without: may, source: x}]}]", "needs 1: needs 1: of and"},
		"unknown, below":  {"a typo", "needs: [{resource: as.a.io, path: a, without: may, source: x, nedes: []}]", "catalog entry 1 (a.io/f)"},
		"referrer":        {"a kind is no resource", "waitsFor: [{resource: Pod, source: x}]", `waitsFor 1: resource "Pod"`},
		"without, waits":  {"it is by design", "waitsFor: [{resource: pods, without: may, source: x}]", "without"},
		"name, no path":   {"every object counts", "waitsFor: [{resource: pods, name: default, source: x}]", "a path is needed, of which"},
		"within":          {"no address", "waitsFor: [{resource: pods, within: spec.cidrs, source: x}]", "a path to the address"},
		"any and one":     {"which", "waitsFor: [{resource: pods, path: a, anyNamespace: true, sameNamespace: true, source: x}]", "anyNamespace needs a path"},
		"any of all":      {"which", "waitsFor: [{resource: pods, anyNamespace: true, source: x}]", "anyNamespace needs a path"},
		"two namespaces":  {"which", "waitsFor: [{resource: pods, path: a, namespacePath: b, sameNamespace: true, source: x}]", "exclude each other"},
		"if":              {"no use of it", "waitsFor: [{resource: pods, path: a, if: [{path: b}], source: x}]", "if 1: a path and one of in and notIn"},
		"within, no path": {"not a path", "waitsFor: [{resource: pods, path: a, within: '[', source: x}]", "within: path"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte("- {finalizer: a.io/f, resources: [widgets.a.io], owner: x, component: in-cluster, source: x, " + tc.added + "}"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestFluxNeeds checks that a controller that acts as an account needs it only to delete something,
// which each condition decides.
func TestFluxNeeds(t *testing.T) {
	const ks, hr = "kustomizations.kustomize.toolkit.fluxcd.io", "helmreleases.helm.toolkit.fluxcd.io"
	const applied = "status: {inventory: {entries: [{id: a_b__ConfigMap}]}}"
	tests := map[string]struct {
		reason, resource, object string
		want                     bool
	}{
		"prunes":                 {"it deletes the objects that it applied", ks, "spec: {prune: true}\n" + applied, true},
		"mirrors":                {"the default, explicitly", ks, "spec: {prune: true, deletionPolicy: MirrorPrune}\n" + applied, true},
		"mirrors no pruning":     {"it leaves all", ks, "spec: {prune: false, deletionPolicy: MirrorPrune}\n" + applied, false},
		"deletes":                {"whatever prune says", ks, "spec: {prune: false, deletionPolicy: Delete}\n" + applied, true},
		"waits":                  {"whatever prune says", ks, "spec: {prune: false, deletionPolicy: WaitForTermination}\n" + applied, true},
		"orphans":                {"whatever prune says", ks, "spec: {prune: true, deletionPolicy: Orphan}\n" + applied, false},
		"suspended":              {"it is let go", ks, "spec: {prune: true, suspend: true}\n" + applied, false},
		"suspended, deletes":     {"it is let go", ks, "spec: {deletionPolicy: Delete, suspend: true}\n" + applied, false},
		"applied nothing":        {"there is nothing to delete", ks, "spec: {prune: true}\nstatus: {inventory: {entries: []}}", false},
		"deletes nothing":        {"there is nothing to delete", ks, "spec: {deletionPolicy: Delete}", false},
		"old":                    {"a snapshot was its inventory", ks, "spec: {prune: true}\nstatus: {snapshot: {checksum: a}}", true},
		"old, does not prune":    {"it leaves all", ks, "spec: {prune: false}\nstatus: {snapshot: {checksum: a}}", false},
		"old, suspended":         {"it is let go", ks, "spec: {prune: true, suspend: true}\nstatus: {snapshot: {checksum: a}}", false},
		"release":                {"it is uninstalled", hr, "status: {storageNamespace: a}", true},
		"release, suspended":     {"it is let go", hr, "spec: {suspend: true}\nstatus: {storageNamespace: a}", false},
		"old, not released":      {"before 0.31 it waits for the account all the same", hr, "status: {storageNamespace: ''}", true},
		"old release":            {"it is the name of a revision", hr, "status: {lastReleaseRevision: 1}", true},
		"old release, suspended": {"it is let go", hr, "spec: {suspend: true}\nstatus: {lastReleaseRevision: 1}", false},
		"old, never released":    {"before 0.31 it waits for the account all the same", hr, "status: {lastReleaseRevision: 0}", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := Default().Lookup("finalizers.fluxcd.io", tc.resource)
			o := object(t, tc.object)
			spec, _ := o["spec"].(map[string]any)
			if spec == nil {
				spec = map[string]any{}
				o["spec"] = spec
			}
			spec["serviceAccountName"], spec["kubeConfig"] = "it", map[string]any{"secretRef": map[string]any{"name": "it"}}
			for resource, old := range map[string]bool{"serviceaccounts": true, "secrets": false} {
				got := false
				for _, n := range e.NeedsOf(tc.resource) {
					got = got || n.Resource == resource && len(n.Names(o)) > 0
				}
				// Only the behavior without the account is known for releases that are that old.
				if want := tc.want && (old || !strings.HasPrefix(name, "old")); got != want {
					t.Errorf("%s: needs its %s: %t, want %t", tc.reason, resource, got, want)
				}
			}
		})
	}
}
