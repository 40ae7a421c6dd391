package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/test/lab"
)

// TestOlderDevices uses device claims and slices as Kubernetes 1.32 served them, not in v1.
func TestOlderDevices(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output(), Authorization: "RBAC", APIServer: []string{
		"--runtime-config=resource.k8s.io/v1=false,resource.k8s.io/v1beta2=false,resource.k8s.io/v1beta1=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	ctx, g := t.Context(), &Guarded{Lab: l}
	if err := l.Apply(ctx, `
{apiVersion: v1, kind: Node, metadata: {name: one}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: demo}}
---
{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: c, namespace: demo}, spec: {devices: {requests: [{name: r, deviceClassName: lab}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: demo}, spec: {nodeName: one, resourceClaims: [{name: d, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: d}]}}]}}
`); err != nil {
		t.Fatal(err)
	}
	patch := func(what, status string) {
		t.Helper()
		kubectlIn(t, l, "patch "+what+` --subresource=status --type=merge -p '{"status":`+status+`}'`)
	}
	patch("node one", `{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}`)
	patch("pod p -n demo", `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`)
	patch("resourceclaim c -n demo", fmt.Sprintf(`{"allocation":{"devices":{"results":[{"request":"r","driver":"dra.lab.test","pool":"one","device":"d0"}]},`+
		`"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["one"]}]}]}},`+
		`"reservedFor":[{"resource":"pods","name":"p","uid":%q}]}`, kubectlIn(t, l, "get pod p -n demo -o jsonpath={.metadata.uid}")))

	tells := func(what string, want bool) {
		t.Helper()
		report, err := g.Check(ctx, "pod/p", "-n", "demo")
		if err != nil {
			t.Fatal(err)
		}
		ok := strings.Contains(fmt.Sprint(report.Findings), "no longer has devices of DRA driver dra.lab.test")
		if ok != want || len(report.Unseen) > 0 {
			t.Errorf("%s: check found %v, unseen %v", what, report.Findings, report.Unseen)
		}
	}
	tells("the plugin is gone", true)
	if err := l.Apply(ctx, `
{apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: one}, spec: {driver: dra.lab.test, nodeName: one, pool: {name: one, generation: 1, resourceSliceCount: 1}, devices: [{name: d0, basic: {}}]}}
`); err != nil {
		t.Fatal(err)
	}
	tells("the plugin is there", false)
}
