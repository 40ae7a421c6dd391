package policies

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// TestCommand checks that the kubectl command of an action has the same effect.
func TestCommand(t *testing.T) {
	replicas, grace := int32(1), int64(0)
	for want, a := range map[string]Action{
		"kubectl delete pods/a pods/b -n demo --wait=false --force --grace-period=0":                                                             {Verb: VerbDelete, Objects: []string{"pods/a", "pods/b"}, Namespace: "demo", NoWait: true, Force: true, GraceSeconds: &grace},
		"kubectl delete namespaces/demo --cascade=orphan":                                                                                        {Verb: VerbDelete, Objects: []string{"namespaces/demo"}, Cascade: "orphan"},
		"kubectl scale deployments.apps/op -n ops --replicas=1":                                                                                  {Verb: VerbScale, Objects: []string{"deployments.apps/op"}, Namespace: "ops", Replicas: &replicas},
		`kubectl patch nodes/n --type=merge -p '{"spec":{"taints":null}}'`:                                                                       {Verb: VerbPatch, Objects: []string{"nodes/n"}, Type: "merge", Patch: json.RawMessage(`{"spec":{"taints":null}}`)},
		`kubectl patch pods/x -n a --type=json -p '[{"op":"test","value":"it'\''s"}]'`:                                                           {Verb: VerbPatch, Objects: []string{"pods/x"}, Namespace: "a", Type: "json", Patch: json.RawMessage(`[{"op":"test","value":"it's"}]`)},
		`kubectl get namespace demo -o json | jq '.spec.finalizers -= ["x.io/f"]' | kubectl replace --raw /api/v1/namespaces/demo/finalize -f -`: {Verb: VerbFinalize, Objects: []string{"namespaces/demo"}, Finalizers: []string{"x.io/f"}},
	} {
		if err := a.valid(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if got := a.Command(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestCommandOfStrangers checks that the name of a resource, a namespace or an object in a snapshot
// becomes one word of a printed command, and that names no API server accepts give no command.
func TestCommandOfStrangers(t *testing.T) {
	patch := map[string]any{"verb": "patch", "type": "json", "patch": []any{map[string]any{"op": "remove", "path": "/metadata/finalizers"}}}
	finalize := map[string]any{"verb": "finalize", "finalizers": []any{"x"}}
	for _, tc := range []struct {
		how       map[string]any
		object    string
		namespace string
		kept      bool
	}{
		{patch, "kialis.kiali.io/system:a;touch x", "demo", true}, // as roles are called
		{patch, "kialis.kiali.io;touch x;/a", "demo", false},
		{patch, "--as=admin/a", "demo", false},
		{patch, "kialis.kiali.io/a", "demo;touch x", false},
		{patch, "kialis.kiali.io/a/b", "demo", false},
		{patch, "kialis.kiali.io/..", "demo", false},
		{finalize, "namespaces/demo", "", true},
		{finalize, "namespaces/..%2f..", "", false},
		{finalize, "namespaces/a;touch x", "", false},
	} {
		action := maps.Clone(tc.how)
		action["objects"] = []any{tc.object}
		if tc.namespace != "" {
			action["namespace"] = tc.namespace
		}
		var s step
		err := strict(map[string]any{"kind": "remove", "do": "Clean up", "action": action}, &s)
		if err == nil {
			err = s.complete()
		}
		if kept := s.Step.Command != "" && s.Action != nil; err != nil || kept != tc.kept || s.Do != "Clean up" {
			t.Errorf("%s -n %s: kept: %v, want %v: %+v, %v", tc.object, tc.namespace, kept, tc.kept, s, err)
		}
	}
	a := Action{Verb: VerbPatch, Type: "json", Patch: json.RawMessage(`[]`)}
	if got := a.CommandFor("kialis;touch x;", []string{"demo/a;touch x"}); !strings.Contains(got, `kubectl patch 'kialis;touch x;'/"${at#*/}"`) || !strings.HasPrefix(got, "for at in 'demo/a;touch x'; do") {
		t.Error(got)
	}
}
