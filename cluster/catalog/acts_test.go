package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestActErrors(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"no verb":    {"nothing would be done", "path: a, names: '(?P<namespace>)(?P<group>)(?P<kind>)', source: x", "verbs, a path (or a kind, and as)"},
		"whose kind": {"pods without an owner", "verbs: {get: hangs}, kind: A.x.io, source: x", "verbs, a path (or a kind, and as)"},
		"verb":       {"the facts know no others", "verbs: {watch: hangs}, path: a, source: x", `"watch": "hangs": one of`},
		"outcome":    {"it would be no need", "verbs: {get: completes}, path: a, source: x", `"get": "completes": one of`},
		"path":       {"it leads nowhere", "verbs: {get: hangs}, path: 'a[b=]', source: x", `path "a[b=]"`},
		"as":         {"it leads nowhere", "verbs: {get: hangs}, path: a, as: '[', source: x", "as: path"},
		"no pattern": {"it could name nothing", "verbs: {get: hangs}, path: a, names: '(', source: x", "names: error parsing"},
		"no kind":    {"no controller could answer", "verbs: {get: hangs}, path: a, names: '(?P<namespace>)(?P<group>)', source: x", `no group "kind"`},
		"when":       {"it could never hold", "verbs: {get: hangs}, path: a, names: '(?P<namespace>)(?P<group>)(?P<kind>)', when: [{path: a}], source: x", "when 1: a path and"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "- {finalizer: a.io/f, resources: [widgets.a.io], owner: a, component: in-cluster, source: x, acts: [{" + tc.text + "}]}"
			if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestActOn reads the inventory of Flux, which it prunes.
func TestActOn(t *testing.T) {
	e, ok := Default().Lookup("finalizers.fluxcd.io", "kustomizations.kustomize.toolkit.fluxcd.io")
	if !ok {
		t.Fatal("no entry")
	}
	id := func(text string) any { return map[string]any{"id": text} }
	var got []string
	for i := range e.Acts {
		for _, d := range e.Acts[i].On(map[string]any{
			"spec": map[string]any{"prune": true, "serviceAccountName": "it"},
			"status": map[string]any{"inventory": map[string]any{"entries": []any{
				id("apps_web_apps_Deployment"), id("apps_other_apps_Deployment"), id("_kustomize__reads_rbac.authorization.k8s.io_ClusterRole"), id("apps_it__ConfigMap"), id("nothing"),
			}}},
		}) {
			got = append(got, strings.Join([]string{d.Verb, d.Without, d.Kind.String(), d.Namespace, d.As}, " "))
		}
	}
	want := []string{
		"get hangs ClusterRole.rbac.authorization.k8s.io  it", "delete may ClusterRole.rbac.authorization.k8s.io  it",
		"get hangs ConfigMap apps it", "delete may ConfigMap apps it", "get hangs Deployment.apps apps it", "delete may Deployment.apps apps it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
