package chart

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// TestForetold holds what termguard check says of the guard in the cluster to what the guard
// then does about a dry run of the same deletion.
func TestForetold(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	g, err := scenario.PatientGuard(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	shell := func(commands string) {
		t.Helper()
		if r, err := g.Shell(ctx, "set -e\n"+commands); err != nil || r.Code != 0 {
			t.Fatalf("%s: %v %s", commands, err, r.Stderr)
		}
	}
	asked := func(ctx context.Context, kubeconfig, args string) (check.Guard, error) {
		r, err := g.Shell(ctx, binary+" check "+args+" -o json --kubeconfig "+kubeconfig)
		if err != nil {
			return check.Guard{}, err
		}
		var report check.Report
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.Guard == nil {
			t.Fatalf("check %s: %v %s%s", args, err, r.Stdout, r.Stderr)
		}
		return *report.Guard, nil
	}
	// said is what the API server says, where nobody asks termguard.
	said := func(ctx context.Context, args string) (check.Answer, string, error) {
		r, err := g.Kubectl(ctx, append([]string{"delete", "--dry-run=server", "--wait=false"}, strings.Fields(args)...)...)
		switch {
		case err != nil:
			return "", "", err
		case strings.Contains(r.Stderr, "denied the request"):
			return check.Refuses, r.Stderr, nil
		case r.Code != 0:
			return "", r.Stderr, nil
		case len(scenario.Warnings(r.Stderr)) > 0:
			return check.Warns, r.Stderr, nil
		}
		return check.Allows, r.Stderr, nil
	}
	wants := func(reason, args string, want check.Answer, why string) {
		t.Helper()
		var got check.Guard
		var real check.Answer
		var text string
		err := g.Await(ctx, 60*time.Second, reason, func(ctx context.Context) (_ bool, err error) {
			if got, err = asked(ctx, g.Kubeconfig(), args); err != nil {
				return false, err
			}
			if real, text, err = said(ctx, args); err != nil {
				return false, err
			}
			let := real == want || want == check.Unasked && real == check.Allows
			return got.Answer == want && let && strings.Contains(got.Why, why), nil
		})
		if err != nil {
			t.Fatalf("%s: check says %+v, want %q and %q; the API server: %q %s: %v", reason, got, want, why, real, text, err)
		}
	}
	const held = `{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces]}}`
	// Endpoints cannot be addresses of loopback, where the lab runs its pods.
	const ready = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: termguard-lab, namespace: termguard-system, labels: {kubernetes.io/service-name: termguard}}, addressType: IPv4, endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]}`
	shell("kubectl apply -f - <<'END'\n" + ready + "\n---\n" + held + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: held}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: finalized, namespace: held, finalizers: [lab.test/nobody]}}\nEND")

	wants("it warns by default", "namespace/held", check.Warns, "")
	wants("it is not asked about what cannot hang", "configmap/plain -n held", check.Unasked, "leaves such a request out")
	wants("it is asked about what is deleted in the foreground", "configmap/plain -n held --cascade=foreground", check.Allows, "")
	shell("kubectl label namespace held termguard.dev/enforce=deny")
	wants("a label has it refuse", "namespace/held", check.Refuses, "orphaned-finalizer is set to deny by label termguard.dev/enforce=deny of its namespace")
	wants("it refuses nothing that only may hang", "configmap/finalized -n held", check.Warns, "it refuses only what is certain")
	shell("kubectl label namespace held termguard.dev/enforce.orphaned-finalizer=warn")
	wants("the label of the policy stands closer", "namespace/held", check.Warns, "")
	shell("kubectl label namespace held termguard.dev/enforce- termguard.dev/enforce.orphaned-finalizer-")

	shell("kubectl -n termguard-system create configmap termguard-config '--from-literal=config.yaml={apiVersion: termguard.dev/v1, kind: Config, enforcement: {default: deny}}'")
	if _, err := g.MountConfig(ctx); err != nil {
		t.Fatal(err)
	}
	wants("the configuration has it refuse", "namespace/held", check.Refuses, "set to deny by ConfigMap termguard-system/termguard-config")
	shell("kubectl annotate namespace held 'termguard.dev/allow-hang=we know'")
	wants("an annotation lets it through", "namespace/held", check.Warns, `annotation termguard.dev/allow-hang says "we know"`)
	shell("kubectl label namespace held termguard.dev/enforce=dryrun")
	wants("a label has it say nothing", "namespace/held", check.Allows, "termguard.dev/enforce=dryrun")
	config, err := g.ServiceAccountConfig(ctx, "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := g.WriteKubeconfig("reader", config)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ grants, why string }{
		{"get,list --resource=namespaces", "you may not read its webhook configuration"},
		{"get,list --resource=namespaces,validatingwebhookconfigurations,services,endpointslices", "you may not read its configuration (get and list configmaps -n termguard-system)"},
	} {
		shell("kubectl delete clusterrole reader --ignore-not-found; kubectl create clusterrole reader --verb=" + tt.grants + "; kubectl create clusterrolebinding reader --clusterrole=reader --serviceaccount=default:default --dry-run=client -o yaml | kubectl apply -f -")
		var got check.Guard
		err := g.Await(ctx, 60*time.Second, tt.why, func(ctx context.Context) (_ bool, err error) {
			got, err = asked(ctx, stranger, "namespace/held")
			return got.Answer == check.Unknown && strings.Contains(got.Why, tt.why), err
		})
		if err != nil {
			t.Fatalf("who may %s is told %+v, want %q: %v", tt.grants, got, tt.why, err)
		}
	}
	shell("kubectl label namespace held termguard.dev/enforce- && kubectl annotate namespace held termguard.dev/allow-hang-")
	wants("it refuses again", "namespace/held", check.Refuses, "set to deny")
	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	shell("kubectl -n termguard-system delete endpointslice termguard-lab")
	wants("nobody answers", "namespace/held", check.Allows, "nobody answers for it: Service termguard-system/termguard has no ready endpoint")
	shell("kubectl delete namespace held --wait=false")
	wants("what is being deleted is not asked about again", "namespace/held", check.Unasked, "it is being deleted already")
}
