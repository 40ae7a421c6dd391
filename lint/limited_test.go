package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestLimited checks, for every such entry of the catalog, finalizers that an operator sets only in
// some versions or with an option, if its manifest shows which.
func TestLimited(t *testing.T) {
	type says struct{ image, args string }
	cases := map[string]struct {
		operator, object string // "NAMESPACE NAME", "APIVERSION KIND"
		sets, doesNot    []says
	}{
		"operators.coreos.com/csv-cleanup": {
			"olm olm-operator", "operators.coreos.com/v1alpha1 ClusterServiceVersion",
			[]says{{image: "quay.io/operator-framework/olm:v0.27.0"}, {image: "quay.io/operator-framework/olm:v0.32.0"}},
			[]says{{image: "quay.io/operator-framework/olm:v0.26.0"}, {image: "quay.io/operator-framework/olm@sha256:abc"}},
		},
		"opentelemetrycollector.opentelemetry.io/finalizer": {
			"opentelemetry-operator-system opentelemetry-operator-controller-manager", "opentelemetry.io/v1beta1 OpenTelemetryCollector",
			[]says{{image: "ghcr.io/open-telemetry/opentelemetry-operator/opentelemetry-operator:0.100.0"}, {image: "ghcr.io/open-telemetry/opentelemetry-operator/opentelemetry-operator:v0.141.0"}},
			[]says{{image: "ghcr.io/open-telemetry/opentelemetry-operator/opentelemetry-operator:0.99.0"}, {image: "ghcr.io/open-telemetry/opentelemetry-operator/opentelemetry-operator:0.142.0"}, {image: "controller:latest"}},
		},
		"monitoring.coreos.com/status-cleanup": {
			"monitoring prometheus-operator", "monitoring.coreos.com/v1 Prometheus",
			[]says{{"quay.io/prometheus-operator/prometheus-operator:v0.86.0", "--feature-gates=StatusForConfigurationResources=true"}},
			[]says{{image: "quay.io/prometheus-operator/prometheus-operator:v0.86.0"}, {"quay.io/prometheus-operator/prometheus-operator:v0.86.0", "--feature-gates=StatusForConfigurationResources=false"}},
		},
		"kamaji.clastix.io/TenantControlPlane": {
			"kamaji-system kamaji", "kamaji.clastix.io/v1alpha1 DataStore",
			[]says{{image: "docker.io/clastix/kamaji:26.3.2-edge"}, {image: "docker.io/clastix/kamaji:v26.8.2"}},
			[]says{{image: "docker.io/clastix/kamaji:v1.0.0"}, {image: "docker.io/clastix/kamaji:latest"}},
		},
	}
	for _, entry := range catalog.Default().Entries() {
		if entry.Set == nil {
			continue
		}
		tc, ok := cases[entry.Finalizer]
		if !ok {
			t.Errorf("no case for finalizer %s, which only %+v sets", entry.Finalizer, *entry.Set)
			continue
		}
		namespace, name, _ := strings.Cut(tc.operator, " ")
		version, kind, _ := strings.Cut(tc.object, " ")
		for i, s := range append(slices.Clone(tc.sets), tc.doesNot...) {
			t.Run(fmt.Sprint(entry.Finalizer, " ", s), func(t *testing.T) {
				text := fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: %s}, spec: {template: {spec: {containers: [{name: o, image: %q, args: [%q]}]}}}}
---
{apiVersion: %s, kind: %s, metadata: {name: it, namespace: %s}}
`, name, namespace, s.image, s.args, version, kind, namespace)
				r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)}})
				reported := slices.ContainsFunc(r.Findings, func(f lint.Finding) bool {
					return f.Policy == "operator-in-same-set" && strings.Contains(f.Message, entry.Finalizer)
				})
				if want := i < len(tc.sets); reported != want {
					t.Errorf("reported: %t, want %t: %v", reported, want, lines(r))
				}
			})
		}
	}
}
