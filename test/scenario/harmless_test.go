package scenario

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/termguard/termguard/test/lab"
)

// TestHarmless disturbs termguard during deletions: none is refused or takes longer than a second, and the
// answers return.
func TestHarmless(t *testing.T) {
	lab.Long(t)
	g, err := Guard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	ctx := t.Context()
	kubectl := func(t *testing.T, args string) lab.Result {
		t.Helper()
		r, err := g.Kubectl(ctx, Words(args)...)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %s: %v %s", args, err, r.Stderr)
		}
		return r
	}
	// A namespace that hangs gives a warning.
	stuck := func(t *testing.T, name string) {
		t.Helper()
		if err := g.Apply(ctx, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, finalizers: [finalizers.kubesphere.io/namespaces]}}", name)); err != nil {
			t.Fatal(err)
		}
	}
	awaitVerdict := func(t *testing.T, target string, want ...string) []string {
		t.Helper()
		var said []string
		err := g.Await(ctx, 60*time.Second, fmt.Sprintf("the verdict %v on %s", want, target), func(ctx context.Context) (bool, error) {
			r, err := g.Kubectl(ctx, "delete", "--dry-run=server", "namespace", target)
			if err != nil || r.Code != 0 {
				return false, fmt.Errorf("a dry run failed: %w %s", err, r.Stderr)
			}
			said = Warnings(r.Stderr)
			return slices.Contains(want, Verdict(said)), nil
		})
		if err != nil {
			t.Fatalf("last answer: %q\n%v", said, err)
		}
		return said
	}
	stuck(t, "before")
	awaitVerdict(t, "before", Hangs)

	t.Run("evictions that do not come to pass", func(t *testing.T) {
		if err := g.AwaitApplied(ctx, time.Minute, `
{apiVersion: v1, kind: Namespace, metadata: {name: evicted}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: evicted}, spec: {minAvailable: 1, selector: {}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: it, namespace: evicted, finalizers: [actions.summerwind.dev/runner-pod]}, spec: {nodeName: steady, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}
`); err != nil {
			t.Fatal(err)
		}
		kubectl(t, "wait pod/it -n evicted --for=jsonpath={.status.phase}=Running --timeout=60s")
		if err := g.Await(ctx, 30*time.Second, "the budget to be counted", func(ctx context.Context) (bool, error) {
			r, err := g.Kubectl(ctx, "get", "pdb", "all", "-n", "evicted", "-o", "jsonpath={.status.observedGeneration}{.status.currentHealthy}")
			return r.Stdout == "11", err
		}); err != nil {
			t.Fatal(err)
		}
		for _, dry := range []bool{true, false} {
			said, err := g.Evict(ctx, "evicted/it", dry)
			if !apierrors.IsTooManyRequests(err) {
				t.Errorf("dry run %v: want the budget to refuse it, with 429: %v", dry, err)
			}
			if Verdict(said) != AtRisk {
				t.Errorf("dry run %v: answer about a pod that would hang: %q", dry, said)
			}
		}
		kubectl(t, "delete pdb all -n evicted")
		if said, err := g.Evict(ctx, "evicted/it", true); err != nil || Verdict(said) != AtRisk {
			t.Errorf("a dry run without a budget: %v, %q", err, said)
		}
		if got := kubectl(t, "get pod it -n evicted -o jsonpath={.metadata.deletionTimestamp}{.status.phase}").Stdout; got != "Running" {
			t.Errorf("the pod that was not evicted has changed: %q", got)
		}
	})
	t.Run("API server restarted", func(t *testing.T) {
		if err := g.RestartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
		stuck(t, "after-restart")
		awaitVerdict(t, "after-restart", Hangs)
		kubectl(t, "create namespace plain-after-restart")
		awaitVerdict(t, "plain-after-restart", Completes)
	})
	t.Run("permissions taken away", func(t *testing.T) {
		kubectl(t, `patch clusterrole termguard-read --type=json -p '[{"op":"replace","path":"/rules/0/apiGroups","value":["apps","batch"]}]'`)
		// It learns of lost rights when its watches end.
		if err := g.RestartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
		said := awaitVerdict(t, "plain-after-restart", Unknown)
		if !strings.Contains(strings.Join(said, "\n"), "forbidden") {
			t.Errorf("the unseen facts and the reason are missing: %q", said)
		}
		kubectl(t, "delete namespace plain-after-restart --timeout=60s")
		kubectl(t, `patch clusterrole termguard-read --type=json -p '[{"op":"replace","path":"/rules/0/apiGroups","value":["*"]}]'`)
		awaitVerdict(t, "after-restart", Hangs)
	})
	t.Run("5,000 finalized objects", func(t *testing.T) {
		kubectl(t, "create namespace crowded")
		var manifests strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&manifests, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d, namespace: crowded, finalizers: [\"gone.test/%d\"]}}\n---\n", i, i%40)
		}
		r, err := g.KubectlWith(ctx, manifests.String(), "create", "-f", "-")
		if err != nil || r.Code != 0 {
			t.Fatalf("%v %s", err, r.Stderr)
		}
		said := awaitVerdict(t, "crowded", AtRisk)
		total := 0
		for _, line := range said {
			total += len([]rune(line))
		}
		if len(said) > 15 || total > 4096 {
			t.Errorf("%d warnings of %d runes: over budget", len(said), total)
		}
	})
	t.Run("frozen", func(t *testing.T) {
		kubectl(t, "create namespace while-frozen")
		if err := g.Termguard.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		r := kubectl(t, "delete namespace while-frozen --timeout=60s")
		if said := Warnings(r.Stderr); len(said) > 0 {
			t.Errorf("a frozen termguard answered %q: it was not frozen", said)
		}
		if err := g.Termguard.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		awaitVerdict(t, "before", Hangs)
	})
	t.Run("stopped under load", func(t *testing.T) {
		// Readiness ends first in a rollout, and reviews are still answered.
		address, err := g.ClusterIP(ctx, "termguard-system", "termguard")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Termguard.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err = g.Await(ctx, 10*time.Second, "readiness to turn off", func(context.Context) (bool, error) {
			response, err := http.Get("http://" + address + ":8081/readyz")
			if err != nil {
				return false, err
			}
			response.Body.Close()
			return response.StatusCode != http.StatusOK, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if said := Warnings(kubectl(t, "delete --dry-run=server namespace before").Stderr); Verdict(said) != Hangs {
			t.Errorf("a review during the drain was lost: %q", said)
		}
		<-g.Termguard.Exited()
	})
	t.Run("gone", func(t *testing.T) {
		kubectl(t, "create namespace while-gone")
		kubectl(t, "delete namespace while-gone --timeout=60s")
	})
	t.Run("uninstalled", func(t *testing.T) {
		kubectl(t, "delete -k "+lab.Root()+"/deploy/base --ignore-not-found --timeout=60s")
		if left := kubectl(t, "get clusterroles,clusterrolebindings,validatingwebhookconfigurations,flowschemas,prioritylevelconfigurations,namespaces -o name").Stdout; strings.Contains(left, "termguard") {
			t.Errorf("left behind:\n%s", left)
		}
	})
}
