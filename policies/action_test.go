package policies

import (
	"encoding/json"
	"testing"
)

// TestCommand holds that an action says to kubectl what it is.
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
