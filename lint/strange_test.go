package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestStrangeFinalizer checks that an unknown finalizer on a kind of the catalog is reported with
// the one that was probably meant, even if the owner is deployed elsewhere.
func TestStrangeFinalizer(t *testing.T) {
	const application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: web\n  namespace: argocd\n  finalizers: [FINALIZER]\nspec: {destination: {namespace: web}}\n"
	for finalizer, want := range map[string][]string{
		"resources-finalizer.argoproj.io":            {"the catalog knows no such finalizer on applications.argoproj.io; did you mean \"resources-finalizer.argocd.argoproj.io\"?"},
		"another-finalizer.argocd.argoproj.io":       nil, // of a newer version
		"example.com/cleanup":                        nil, // of what is elsewhere, too
		"resources-finalizer.argocd.argoproj.io":     nil,
		"post-delete-finalizer.argocd.argoproj.io":   nil,
		"resources-finalizer.argocd.argoproj.io/now": nil, // as a form that a later version may have
	} {
		r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(strings.Replace(application, "FINALIZER", finalizer, 1))}})
		var got []string
		for _, f := range r.Findings {
			if f.Policy == "unowned-finalizer" {
				got = append(got, f.Evidence[len(f.Evidence)-1])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s%s", finalizer, diff, strings.Join(lines(r), "\n"))
		}
	}
}

// TestKnownByImage checks that an operator beside its objects is recognized by its image, whatever
// its name.
func TestKnownByImage(t *testing.T) {
	const release = `apiVersion: apps/v1
kind: Deployment
metadata: {name: vpn, namespace: vpn}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "IMAGE"}]}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: connectors.tailscale.com}
spec: {group: tailscale.com, scope: Cluster, names: {kind: Connector, plural: connectors}, versions: [{name: v1alpha1, served: true, storage: true}]}
---
apiVersion: tailscale.com/v1alpha1
kind: Connector
metadata: {name: routes}
`
	for image, want := range map[string]bool{"tailscale/k8s-operator:v1.90.0": true, "tailscale/tailscale:v1.90.0": false} {
		ok := false
		for _, f := range run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(strings.Replace(release, "IMAGE", image, 1))}}).Findings {
			ok = ok || f.Policy == "operator-in-same-set"
		}
		if ok != want {
			t.Errorf("%s: operator-in-same-set reported: %t", image, ok)
		}
	}
}
