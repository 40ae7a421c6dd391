package policies

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func engine(t testing.TB, options EngineOptions) *Engine {
	t.Helper()
	set, err := Load(Embedded())
	if err != nil {
		t.Fatal(err)
	}
	options.Deadline = time.Minute // a slow machine is no failure
	e, err := NewEngine(context.Background(), set, options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// obj shortens literals of JSON.
type obj = map[string]any

func deleteNamespace(name string, oldObject obj) obj {
	return obj{
		"request": obj{
			"operation": "DELETE", "name": name, "namespace": name,
			"resource":  obj{"group": "", "version": "v1", "resource": "namespaces"},
			"object":    nil,
			"oldObject": oldObject,
		},
	}
}

func TestEvaluateNamespaceDelete(t *testing.T) {
	down := obj{"state": "absent", "certainty": "will", "owner": "Kiali operator", "clears": "", "evidence": []any{"no Deployment kiali-operator"}}
	facts := Document{
		"apiVersion": "termguard.dev/v1", "kind": "Facts",
		"apiservices": obj{"v1beta1.metrics.k8s.io": obj{
			"group": "metrics.k8s.io", "version": "v1beta1", "service": obj{"namespace": "monitoring", "name": "prometheus-adapter"},
			"available": "False", "reason": "ServiceNotFound", "message": "service/prometheus-adapter in \"monitoring\" is not present", "stale": true, "listError": "",
		}},
		"finalized": obj{"demo": obj{"kiali.io/finalizer": obj{"kialis.kiali.io": obj{"a": obj{"count": 2, "names": []any{"kiali", "kiali-b"}, "ownership": down}}}}},
		"notReady":  obj{}, "podsByNode": obj{}, "version": obj{}, "daemonsets": obj{},
	}
	got, err := engine(t, EngineOptions{}).Evaluate(t.Context(), Delete, deleteNamespace("demo", obj{"metadata": obj{"name": "demo"}}), facts)
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Findings: []Finding{
		{
			Policy: "orphaned-finalizer", Title: "Finalizer that nobody removes", Certainty: Will, Severity: High,
			Message:  "2 kialis.kiali.io hold finalizer kiali.io/finalizer: its owner, Kiali operator, is not installed",
			Objects:  []Object{{"kialis.kiali.io", "demo", "kiali"}, {"kialis.kiali.io", "demo", "kiali-b"}},
			Evidence: []string{"no Deployment kiali-operator"},
		},
		{
			Policy: "unavailable-apiservice", Title: "Unavailable aggregated API", Certainty: Will, Severity: High,
			Message:  "APIService v1beta1.metrics.k8s.io is unavailable (ServiceNotFound), so no namespace can finish deleting",
			Objects:  []Object{{"apiservices.apiregistration.k8s.io", "", "v1beta1.metrics.k8s.io"}},
			Evidence: []string{"Available=False, ServiceNotFound: service/prometheus-adapter in \"monitoring\" is not present", "it is served by Service monitoring/prometheus-adapter"},
		},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Finding{}, "Remedy")); diff != "" {
		t.Errorf("Evaluate(...): -want, +got:\n%s", diff)
	}
	if got.Verdict() != Hangs {
		t.Errorf("Verdict() = %s, want %s", got.Verdict(), Hangs)
	}
}
