package chart

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// TestGuardAnswers checks that termguard check predicts the webhook's answers to kubectl with the same rights.
func TestGuardAnswers(t *testing.T) {
	lab.Long(t)
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
	predict := func(ctx context.Context, kubeconfig, args string) (answer.Guard, error) {
		r, err := g.Shell(ctx, binary+" check "+args+" --dry-run-deletes -o json --kubeconfig "+kubeconfig)
		if err != nil {
			return answer.Guard{}, err
		}
		var report scenario.Report
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.Guard == nil {
			t.Fatalf("check %s: %v %s%s", args, err, r.Stdout, r.Stderr)
		}
		return *report.Guard, nil
	}
	dryRun := func(ctx context.Context, args string) (answer.Reply, string, error) {
		r, err := g.Kubectl(ctx, append([]string{"delete", "--dry-run=server", "--wait=false"}, strings.Fields(args)...)...)
		switch {
		case err != nil:
			return "", "", err
		case strings.Contains(r.Stderr, "denied the request"):
			return answer.Refuses, r.Stderr, nil
		case r.Code != 0:
			return "", r.Stderr, nil
		case len(scenario.Warnings(r.Stderr)) > 0:
			return answer.Warns, r.Stderr, nil
		}
		return answer.Allows, r.Stderr, nil
	}
	wants := func(reason, args string, want answer.Reply) {
		t.Helper()
		var got answer.Guard
		var real answer.Reply
		var text string
		err := g.Await(ctx, 60*time.Second, reason, func(ctx context.Context) (_ bool, err error) {
			if got, err = predict(ctx, g.Kubeconfig(), args); err != nil {
				return false, err
			}
			if real, text, err = dryRun(ctx, args); err != nil {
				return false, err
			}
			return got == answer.Guard{Answer: want} && real == want, nil
		})
		if err != nil {
			t.Fatalf("%s: check says %+v, want %q; the API server: %q %s: %v", reason, got, want, real, text, err)
		}
	}
	const held = `{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces]}}`
	shell("kubectl apply -f - <<'END'\n" + held + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: held}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: finalized, namespace: held, finalizers: [lab.test/nobody]}}\nEND")

	wants("it warns by default", "namespace/held", answer.Warns)
	wants("it is not asked about what cannot hang", "configmap/plain -n held", answer.Allows)
	wants("it is asked about what is deleted in the foreground", "configmap/plain -n held --cascade=foreground", answer.Allows)
	shell("kubectl label namespace held termguard.dev/enforce=deny")
	wants("a label has it refuse", "namespace/held", answer.Refuses)
	wants("it refuses nothing that only may hang", "configmap/finalized -n held", answer.Warns)

	config, err := g.ServiceAccountConfig(ctx, "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	outsider, err := g.WriteKubeconfig("reader", config)
	if err != nil {
		t.Fatal(err)
	}
	shell("kubectl create clusterrole reader --verb=get,list --resource=namespaces,validatingwebhookconfigurations; kubectl create clusterrolebinding reader --clusterrole=reader --serviceaccount=default:default")
	const why = "the dry run of the deletion ended before: forbidden"
	var got answer.Guard
	if err := g.Await(ctx, 60*time.Second, "no right to delete", func(ctx context.Context) (_ bool, err error) {
		got, err = predict(ctx, outsider, "namespace/held")
		return got == answer.Guard{Answer: answer.Unknown, Why: why}, err
	}); err != nil {
		t.Fatalf("answer without the right to delete: %+v, want %q: %v", got, why, err)
	}
	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	wants("nobody answers", "namespace/held", answer.Allows)
}
