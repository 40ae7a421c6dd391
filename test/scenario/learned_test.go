package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/test/lab"
)

// TestLessons checks that a learned owner is known after a restart, and that a policy with a false alarm, which
// a metric counts, still denies.
func TestLessons(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	g, err := PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	ctx := t.Context()
	kubectl := func(args string) lab.Result {
		t.Helper()
		r, err := g.Kubectl(ctx, Words(args)...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	awaitVerdict := func(namespace string, want ...string) {
		t.Helper()
		var said []string
		err := g.Await(ctx, 30*time.Second, fmt.Sprintf("the verdict %v on %s", want, namespace), func(ctx context.Context) (bool, error) {
			r, err := g.Kubectl(ctx, "delete", "--dry-run=server", "namespace", namespace)
			said = Warnings(r.Stderr)
			return err == nil && slices.Contains(want, Verdict(said)), err
		})
		if err != nil {
			t.Fatalf("%v\nlast answer: %q", err, said)
		}
	}
	// A controller outside the cluster with a cluster-admin's rights, which prove nothing; and objects that are
	// declared to belong to another.
	const world = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.lessons.test}, spec: {group: lessons.test, scope: Namespaced, names: {kind: Gadget, plural: gadgets, singular: gadget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: lessons}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: lessons}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lessons}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: op, namespace: lessons}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: ordinary}}
---
{apiVersion: lessons.test/v1, kind: Gadget, metadata: {name: it, namespace: ordinary, finalizers: [lessons.test/cleanup]}}
---
{apiVersion: lessons.test/v1, kind: Gadget, metadata: {name: it, namespace: lessons, finalizers: [lessons.test/cleanup]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.leased.test}, spec: {group: leased.test, scope: Namespaced, names: {kind: Gadget, plural: gadgets, singular: gadget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: leased}}
---
{apiVersion: leased.test/v1, kind: Gadget, metadata: {name: it, namespace: leased, finalizers: [leased.test/cleanup]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: alarm}}
---
{apiVersion: lessons.test/v1, kind: Gadget, metadata: {name: it, namespace: alarm, finalizers: [lessons.test/cleanup], annotations: {termguard.dev/finalizer-owner: Deployment/lessons/gone}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: guarded, labels: {termguard.dev/enforce: deny}}}
---
{apiVersion: lessons.test/v1, kind: Gadget, metadata: {name: it, namespace: guarded, finalizers: [lessons.test/cleanup], annotations: {termguard.dev/finalizer-owner: Deployment/lessons/gone}}}
`
	if err := g.Create(ctx, world); err != nil {
		t.Fatal(err)
	}
	awaitVerdict("alarm", Hangs)
	awaitVerdict("ordinary", AtRisk)
	if r := kubectl("delete namespace guarded --dry-run=server"); r.Code == 0 {
		t.Fatalf("a namespace that is set to deny is not guarded: %s", r.Stderr)
	}
	// One renewal of a lease named after the group proves nothing.
	awaitVerdict("leased", AtRisk)
	now := func() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }
	if err := g.Create(ctx, fmt.Sprintf("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a1b2c3d4.leased.test, namespace: lessons}, spec: {holderIdentity: elsewhere_1, leaseDurationSeconds: 300, renewTime: %q}}", now())); err != nil {
		t.Fatal(err)
	}
	err = g.Await(ctx, 2*time.Minute, "the verdict completes on leased, while the lease is renewed", func(ctx context.Context) (bool, error) {
		if r, err := g.Kubectl(ctx, "patch", "lease", "a1b2c3d4.leased.test", "-n", "lessons", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now())); err != nil || r.Code != 0 {
			return false, errors.Join(err, errors.New(r.Stderr))
		}
		r, err := g.Kubectl(ctx, "delete", "--dry-run=server", "namespace", "leased")
		return err == nil && Verdict(Warnings(r.Stderr)) == Completes, err
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, group := range []string{"lessons.test", "leased.test"} {
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}
		if err := g.Controller(ctx, "lessons", "op", group+"/cleanup", gvr); err != nil {
			t.Fatal(err)
		}
	}
	if r := kubectl("delete namespace leased --timeout=60s"); r.Code != 0 || len(Warnings(r.Stderr)) > 0 {
		t.Errorf("the holder renews the lease, but got: %s", r.Stderr)
	}

	// A lesson and a false alarm: the declaration is wrong.
	kubectl("delete gadgets.lessons.test it -n lessons --timeout=30s")
	awaitVerdict("ordinary", Completes)
	if r := kubectl("delete namespace alarm --timeout=60s"); Verdict(Warnings(r.Stderr)) != Hangs || r.Code != 0 {
		t.Fatalf("want a false alarm, got %s", r.Stderr)
	}
	if err := g.Await(ctx, 2*time.Minute, "the metrics to count the false alarm", func(context.Context) (bool, error) {
		return strings.Contains(g.metrics(t), `termguard_outcomes_total{policy="orphaned-finalizer",predicted="hangs",real="completed"} 1`), nil
	}); err != nil {
		t.Error(err)
	}
	stillRefuses := func() {
		t.Helper()
		if r := kubectl("delete namespace guarded --dry-run=server"); r.Code == 0 {
			t.Errorf("a false alarm turned deny off: %s", r.Stderr)
		}
	}
	stillRefuses()

	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.StartTermguard(ctx, binary); err != nil {
		t.Fatal(err)
	}
	awaitVerdict("ordinary", Completes)
	stillRefuses()
	t.Run("Refused", func(t *testing.T) { refusals(t, g) })
	t.Run("Delete", func(t *testing.T) { deletions(t, g) })
	if r := kubectl("delete namespace ordinary --timeout=60s"); r.Code != 0 {
		t.Errorf("predicted to complete, but does not: %s", r.Stderr)
	}
	if path := os.Getenv("SCRAPED"); path != "" { // for tests of the dashboard
		if err := os.WriteFile(path, []byte(g.metrics(t)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func (g *Guarded) metrics(t *testing.T) string {
	t.Helper()
	address, err := g.ClusterIP(t.Context(), "termguard-system", "termguard")
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + address + ":8081/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
