// Package chart tests the Helm chart in deploy/ with Helm itself.
package chart

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/test/lab"
)

var deploy = filepath.Join(lab.Root(), "deploy")

var program = lab.HelmPath

func helm(ctx context.Context, t *testing.T, environment []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("build helm: %v", err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + filepath.Join(home, "none")}, environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func chart(elem ...string) string {
	return filepath.Join(append([]string{deploy, "chart"}, elem...)...)
}

func TestLint(t *testing.T) {
	for _, values := range []string{chart("values.yaml"), filepath.Join(deploy, "testdata", "full.values.yaml")} {
		stdout, stderr, err := helm(t.Context(), t, nil, "lint", "--strict", "--quiet", chart(), "--values", values)
		if err != nil {
			t.Errorf("%s: %v\n%s%s", values, err, stdout, stderr)
		}
	}
}

// TestRenders compares the manifests in deploy/ with the chart; UPDATE_GOLDEN rewrites them.
func TestRenders(t *testing.T) {
	const header = "# Made from deploy/chart by make docs: change it there.\n"
	for _, tt := range []struct {
		into      string
		namespace string
		values    []string
	}{
		{"install.yaml", "termguard-system", []string{"--set", "createNamespace=true,createConfig=false"}},
		{"base/install.yaml", "termguard-system", []string{"--set", "createNamespace=true,createConfig=false"}},
		{"overlays/cert-manager/install.yaml", "termguard-system", []string{"--set", "createNamespace=true,createConfig=false,certificates.source=cert-manager"}},
		{"testdata/full.golden.yaml", "guard", []string{"--values", filepath.Join(deploy, "testdata", "full.values.yaml")}},
	} {
		args := append([]string{"template", "termguard", chart(), "--namespace", tt.namespace}, tt.values...)
		stdout, stderr, err := helm(t.Context(), t, nil, args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", tt.into, err, stderr)
		}
		path, want := filepath.Join(deploy, tt.into), header+stdout
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("deploy/%s is stale (run: make docs): -chart, +file:\n%s", tt.into, diff)
		}
	}
}

// TestRefusals checks that impossible values are rejected with the value's name and the reason.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		reason, set string
		want        []string
	}{
		{"a misspelt value", "replica=3", []string{"additional properties 'replica' not allowed"}},
		{"a misspelt value further down", "certificates.from=own", []string{"'/certificates'", "additional properties 'from' not allowed"}},
		{"no replica would answer", "replicas=0", []string{"'/replicas'", "minimum: got 0, want 1"}},
		{"not a number", "replicas=many", []string{"'/replicas'", "got string, want integer"}},
		{"a policy that Kubernetes does not have", "failurePolicy=Maybe", []string{"'/failurePolicy'", "'Ignore', 'Fail'"}},
		{"a mode that the binary would refuse at its start", "config.enforcement.default=refuse", []string{"'/config/enforcement/default'", "'deny', 'warn', 'dryrun', 'off'"}},
		{"a policy that is misspelt", "config.enforcement.policies.orphaned-finalizr=deny", []string{`config.enforcement.policies names "orphaned-finalizr"`, "did you mean orphaned-finalizer?", "otherPolicies"}},
		{"the parameters of a policy that there is not", "config.params.nowhere.max=3", []string{`config.params names "nowhere", and there is no such policy.`}},
		{"an owner that is none", "config.finalizerOwners.a=operator", []string{"'/config/finalizerOwners/a'", "'operator' does not match pattern"}},
		{"no issuer", "certificates.source=vault", []string{"'/certificates/source'", "'own', 'cert-manager', 'secret'"}},
		{"a Secret without a name", "certificates.source=secret", []string{"set certificates.secretName"}},
		{"a Secret that is not served", "certificates.secretName=tls", []string{"no effect while certificates.source is own"}},
		{"a digest without its algorithm", "image.digest=0123", []string{"'/image/digest'", "'0123' does not match pattern"}},
		{"a tag in the repository, behind which the tag would follow", "image.repository=example.com/termguard:1.0", []string{"'/image/repository'", "'example.com/termguard:1.0' does not match pattern"}},
		{"a digest in the repository", "image.repository=example.com/termguard@sha256:0123", []string{"'/image/repository'", "does not match pattern"}},
		{"a digest for a tag", "image.tag=sha256:0123", []string{"'/image/tag'", "'sha256:0123' does not match pattern"}},
		{"a folder name that no policy can have", "extraPolicies.Team-1=x", []string{"'/extraPolicies'", "additional properties 'Team-1' not allowed"}},
		{"enumerated access to nothing", "rbac.access=enumerated", []string{"'/rbac/resources'", "minItems: got 0, want 1"}},
		{"resources that would have no effect", "rbac.resources={pods}", []string{"'/rbac/resources'", "maxItems: got 1, want 0"}},
		{"Secrets would not reduce the access", "rbac.access=enumerated,rbac.resources={pods,secrets}", []string{"rbac.resources lists secrets", "take it from the list"}},
		{"a network policy that admits no client", "networkPolicy.enabled=true", []string{"networkPolicy.from is empty", "every delete would be unchecked"}},
		{"a path where a certificate is wanted", "clientAuthentication.ca=ca.crt", []string{"'/clientAuthentication/ca'", "'ca.crt' does not match pattern"}},
		{"a name that no certificate has", "clientAuthentication.commonNames={kube-apiserver}", []string{"clientAuthentication.commonNames is set, and clientAuthentication.ca is not"}},
		{"a limit above the API server's timeout", "deadline=2m", []string{"'/deadline'", "'2m' does not match pattern"}},
		{"a bundle that is nowhere in the pod", "policyFiles={bundle.tar.gz}", []string{"'/policyFiles/0'", "'bundle.tar.gz' does not match pattern"}},
		{"the label by which the Service finds its pods", "podLabels.app\\.kubernetes\\.io/name=other", []string{"'/podLabels'", "'not' failed"}},
		{"a port that the pods may not open", "ports.webhook=443", []string{"'/ports/webhook'", "minimum: got 443, want 1,024"}},
		{"an argument that is none", "extraArgs={pprof}", []string{"'/extraArgs/0'", "'pprof' does not match pattern"}},
		{"a budget that blocks every drain", "podDisruptionBudget.maxUnavailable=0", []string{"'/podDisruptionBudget/maxUnavailable'"}},
		{"an issuer that is not used", "certificates.issuerRef.name=company", []string{"certificates.issuerRef is set", "certificates.source"}},
	} {
		stdout, stderr, err := helm(t.Context(), t, nil, "template", "termguard", chart(), "--set", tt.set)
		if err == nil {
			t.Errorf("%s: --set %s is rendered:\n%s", tt.reason, tt.set, stdout)
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: --set %s: want %q in:\n%s", tt.reason, tt.set, want, stderr)
			}
		}
	}
}

// TestImage checks that an image without a tag gets the chart's version, also with a port in the registry's
// name, and that a digest replaces either.
func TestImage(t *testing.T) {
	var meta struct{ AppVersion string }
	read(t, chart("Chart.yaml"), &meta)
	digest := "sha256:" + strings.Repeat("0", 64)
	for set, want := range map[string]string{
		"image.repository=mirror.example.com:5000/termguard": "mirror.example.com:5000/termguard:" + meta.AppVersion,
		"image.tag=null": "ghcr.io/termguard/termguard:" + meta.AppVersion,
		"image.repository=termguard,image.tag=v9":                                 "termguard:v9",
		"image.repository=localhost:5000/a/b,image.tag=v9,image.digest=" + digest: "localhost:5000/a/b@" + digest,
	} {
		stdout, stderr, err := helm(t.Context(), t, nil, "template", "termguard", chart(), "--set", set)
		if err != nil || !strings.Contains(stdout, "image: "+want+"\n") {
			t.Errorf("--set %s: want image %s: %v %s", set, want, err, stderr)
		}
	}
}

// TestValues removes each value from a full set and checks that the output changes. The schema lists the
// values, so that none is forgotten.
func TestValues(t *testing.T) {
	var schema map[string]any
	read(t, chart("values.schema.json"), &schema)
	full := map[string]any{}
	read(t, filepath.Join(deploy, "testdata", "full.values.yaml"), &full)
	render := func(values map[string]any) string {
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, err := helm(t.Context(), t, nil, "template", "termguard", chart(), "--namespace", "guard", "--values", file)
		if err != nil {
			return stderr // a rejection is a difference, too
		}
		return stdout
	}
	all := render(full)
	if !strings.Contains(all, "kind: Deployment") {
		t.Fatalf("not rendered: %s", all)
	}
	alone := map[string]any{"createConfig": false, "createNamespace": true, "podDisruptionBudget": map[string]any{"enabled": false}, "image": map[string]any{"tag": "v9"},
		"certificates": map[string]any{"secretName": "serving", "caBundle": "-----BEGIN CERTIFICATE-----"}} // other values in the full set make these ineffective, or are made ineffective by them
	for _, path := range leaves(schema) {
		if path[0] == "global" || path[0] == "otherPolicies" {
			continue // for parent charts; checked by TestRefusals
		}
		if value, ok, _ := unstructured.NestedFieldNoCopy(alone, path...); ok {
			one := map[string]any{}
			if err := unstructured.SetNestedField(one, value, path...); err != nil {
				t.Fatal(err)
			}
			if render(one) == render(nil) {
				t.Errorf("%s changes nothing", strings.Join(path, "."))
			}
			continue
		}
		without := runtime.DeepCopyJSON(full)
		unstructured.RemoveNestedField(without, path...)
		if _, set, _ := unstructured.NestedFieldNoCopy(full, path...); !set {
			t.Errorf("%s is not in deploy/testdata/full.values.yaml", strings.Join(path, "."))
		} else if render(without) == all {
			t.Errorf("%s changes nothing", strings.Join(path, "."))
		}
	}
}

func leaves(schema map[string]any) (paths [][]string) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		below := leaves(properties[name].(map[string]any))
		if len(below) == 0 {
			below = [][]string{nil}
		}
		for _, path := range below {
			paths = append(paths, append([]string{name}, path...))
		}
	}
	return paths
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
