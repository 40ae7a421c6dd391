package chart

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/test/lab"
)

//go:embed testdata/reports.yaml
var reportKinds string

const reportWorld = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kialis.kiali.io}
spec:
  group: kiali.io
  scope: Namespaced
  names: {kind: Kiali, plural: kialis}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: secret-name, namespace: shop, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: plain}}
`

// TestReports has termguard write what its survey finds, with the rights that the chart
// grants, into a cluster that takes the kinds only later; reads it back as Policy Reporter
// does, by policy, result and what it is about; and sees that it is deleted with its cause,
// and holds no namespace.
func TestReports(t *testing.T) {
	t.Parallel()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	s := newSite(t, l)
	s.args = []string{"--survey", "--survey-reports=wgpolicyk8s.io"}
	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace", "--set", "survey.enabled=true,survey.reports=wgpolicyk8s.io")
	ctx := t.Context()
	if err := s.AwaitApplied(ctx, 30*time.Second, reportWorld); err != nil {
		t.Fatal(err)
	}
	s.start()
	if err := s.Await(ctx, 3*time.Minute, "a replica to write", func(ctx context.Context) (bool, error) {
		r, err := s.Kubectl(ctx, "get", "lease", "termguard-reports", "-n", home, "-o", "jsonpath={.spec.holderIdentity}")
		return r.Stdout != "", err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(ctx, reportKinds); err != nil {
		t.Fatal(err)
	}
	await := func(what string, condition func(all string) bool) string {
		t.Helper()
		all := ""
		if err := s.Await(ctx, 4*time.Minute, what, func(ctx context.Context) (bool, error) {
			r, err := s.Kubectl(ctx, "get", "policyreports,clusterpolicyreports", "-A", "-o", "json")
			all = r.Stdout
			return r.Code == 0 && condition(all), err
		}); err != nil {
			t.Fatalf("%v: %s", err, all)
		}
		return all
	}
	all := await("reports", func(all string) bool {
		return strings.Count(all, `"fail": `) == 2
	})
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Namespace       string
				Finalizers      []string
				OwnerReferences []any
			}
			Results []struct {
				Source, Policy, Rule, Severity, Result, Message string
				Resources                                       []struct{ Kind, Name string }
			}
			Summary struct{ Fail int }
		}
	}
	if err := json.Unmarshal([]byte(all), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range list.Items {
		if len(item.Metadata.Finalizers)+len(item.Metadata.OwnerReferences) > 0 || item.Summary.Fail != len(item.Results) {
			t.Errorf("%+v", item)
		}
		for _, r := range item.Results {
			about := ""
			for _, o := range r.Resources {
				about += o.Kind + "/" + o.Name
			}
			got = append(got, strings.Join([]string{item.Kind, item.Metadata.Namespace, r.Source, r.Policy, r.Rule, r.Result, about}, " "))
		}
	}
	want := []string{
		"PolicyReport shop termguard orphaned-finalizer custom fail ",
		"ClusterPolicyReport  termguard crd-removed-with-finalizers definitions fail CustomResourceDefinition/kialis.kiali.io",
		"ClusterPolicyReport  termguard orphaned-finalizer namespaces fail Namespace/shop",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if strings.Contains(all, "secret-name") {
		t.Errorf("the name of an object in a namespace is told: %s", all)
	}

	// A namespace with a report in it goes, once what the report tells of is mended.
	s.kubectl("patch", "kialis.kiali.io/secret-name", "-n", "shop", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	s.kubectl("delete", "namespace", "shop", "--timeout=60s")
	await("reports to go with what they tell of", func(all string) bool { return !strings.Contains(all, `"fail"`) })
}
