package chart

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/answer/release"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/test/lab"
)

const elsewhere = `{apiVersion: inset.test/v1, kind: Gadget, metadata: {name: other, namespace: elsewhere, finalizers: [inset.test/cleanup]}}`

var gadgets = schema.GroupVersionResource{Group: "inset.test", Version: "v1", Resource: "gadgets"}

func newOperatorSite(t *testing.T) (s *site, path string) {
	t.Helper()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	if _, err := l.StartNode(t.Context(), "steady"); err != nil {
		t.Fatal(err)
	}
	if path, err = program(); err != nil {
		t.Fatal(err)
	}
	s = newSite(t, l)
	s.kubectl("create", "namespace", "elsewhere")
	return s, path
}

// TestUninstall compares predictions for helm uninstall of an operator's release with the outcome: objects in
// the release and elsewhere hang; in the order of the plan, everything is deleted.
func TestUninstall(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	ctx := t.Context()
	s, path := newOperatorSite(t)
	l := s.Lab

	stop := s.operator(operatorChart, "gadget=true", elsewhere)
	set := s.askRelease(1)
	if set.Verdict != policies.AtRisk {
		t.Errorf("a release with its operator's object: %s, want at-risk", set.Verdict)
	}
	for _, note := range []string{"helm.sh/resource-policy keeps: configmap/kept", "folder crds, and all objects of them: gadgets.inset.test", "hooks created: configmap/hooked"} {
		if !strings.Contains(strings.Join(set.Notes, "\n"), note) {
			t.Errorf("%q is missing: %q", note, set.Notes)
		}
	}
	s.helm("uninstall", "op", "-n", "op")
	s.kubectl("delete", "gadgets.inset.test/other", "-n", "elsewhere", "--wait=false")
	stop()
	s.stay("op/it", "elsewhere/other")
	for _, kept := range []string{"configmap/kept", "configmap/hooked"} {
		s.kubectl("get", kept, "-n", "op")
	}
	for namespace, name := range map[string]string{"op": "it", "elsewhere": "other"} {
		s.kubectl("patch", "gadgets.inset.test/"+name, "-n", namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}

	// The printed commands work as they are.
	stop = s.operator(operatorChart, "gadget=true", elsewhere)
	set = s.askRelease(1)
	ran := 0
	for _, step := range set.Plan {
		if step.Kind != policies.Mend && step.Kind != answer.Delete || step.Command == "" {
			continue
		}
		r, err := l.Shell(ctx, "set -e; PATH="+filepath.Dir(path)+":$PATH\n"+step.Command+"\n")
		if err != nil || r.Code != 0 {
			t.Fatalf("%s: %v %d %s", step.Command, err, r.Code, r.Stderr)
		}
		ran++
	}
	if last := set.Plan[len(set.Plan)-1]; ran != 3 || last.Command != "helm uninstall op -n op" {
		t.Fatalf("%d steps ran, the last %q: want both objects, then the release: %+v", ran, last.Command, set.Plan)
	}
	stop()
	s.awaitGone("op", "it")
	s.awaitGone("elsewhere", "other")

	stop = s.operator(operatorChart, "gadget=false", "")
	if set := s.askRelease(1); set.Verdict != policies.Completes {
		text, _ := json.MarshalIndent(set, "", " ")
		t.Errorf("an operator without objects: %s, want completes\n%s", set.Verdict, text)
	}
	s.helm("uninstall", "op", "-n", "op")
	stop()
	s.refuses()
}

var operatorChart = filepath.Join("testdata", "operator")

// refuses checks a namespace whose content an active webhook refuses to release: the webhook is only known by
// its answers.
func (s *site) refuses() {
	s.t.Helper()
	const template = `
{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}
---
{apiVersion: v1, kind: Service, metadata: {name: NAME, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: NAME, namespace: default, labels: {kubernetes.io/service-name: NAME}}, addressType: IPv4, ports: [{port: 443}], endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: NAME}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAME}
webhooks:
- name: refuse.example.com
  clientConfig: {service: {namespace: default, name: NAME}, caBundle: CA}
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  failurePolicy: Fail
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 2
`
	ca := base64.StdEncoding.EncodeToString(s.CABundle())
	for name, handler := range map[string]http.Handler{"refused": lab.Deny("keep it"), "let-go": lab.Allow()} {
		refuses := name == "refused"
		if err := s.Apply(s.t.Context(), strings.NewReplacer("NAME", name, "caBundle: CA", "caBundle: "+ca).Replace(template)); err != nil {
			s.t.Fatal(err)
		}
		if err := s.ServeEndpoints(s.t.Context(), "default", name, handler); err != nil {
			s.t.Fatal(err)
		}
		s.kubectl("wait", "configmap/kube-root-ca.crt", "-n", name, "--for=create", "--timeout=30s")
		without, err := s.Check(s.t.Context(), "ns/"+name)
		if err != nil || without.Verdict != policies.Completes {
			s.t.Errorf("%s: %v %s without dry runs, want completes", name, err, without.Verdict)
		}
		with, err := s.Check(s.t.Context(), "ns/"+name, "--dry-run-deletes")
		if err != nil {
			s.t.Fatal(err)
		}
		message := ""
		for _, f := range with.Findings {
			message += f.Message + "\n"
		}
		if (with.Verdict == policies.AtRisk) != refuses || strings.Contains(message, `"refuse.example.com" denied the request: keep it`) != refuses {
			s.t.Errorf("%s: %s with dry runs: %s\n%q", name, with.Verdict, message, with.Unseen)
		}
		s.kubectl("delete", "namespace", name, "--wait=false")
		limit := time.Minute
		if refuses {
			limit = 6 * time.Second
		}
		err = s.Await(s.t.Context(), limit, "the namespace to go", func(ctx context.Context) (bool, error) {
			_, err := s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if (err != nil) != refuses {
			s.t.Errorf("%s: the namespace stays: %v", name, err)
		}
		s.kubectl("delete", "validatingwebhookconfiguration", name)
	}
}

// operator installs the release and objects, and runs its operator, whose cleanup takes a second, while its pod
// runs.
func (s *site) operator(chart, values, objects string) (stop func()) {
	s.t.Helper()
	s.helm("install", "op", chart, "-n", "op", "--create-namespace", "--set", values)
	ctx, stop := context.WithCancel(s.t.Context())
	err := s.Await(ctx, 60*time.Second, "the operator to run", func(ctx context.Context) (bool, error) {
		pod, err := s.PodOf(ctx, "op", "operator")
		return pod != nil, err
	})
	if err == nil && objects != "" {
		err = s.Apply(ctx, objects)
	}
	if err == nil {
		err = s.Controller(ctx, "op", "op", "inset.test/cleanup", gadgets, lab.Take(time.Second))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return stop
}

func (s *site) askRelease(code int) (set answer.Answer) {
	s.t.Helper()
	r, err := s.Shell(s.t.Context(), s.binary+" check --release op -n op -o json --kubeconfig "+s.Kubeconfig())
	if err != nil || r.Code > code {
		s.t.Fatalf("check --release: %v %d %s", err, r.Code, r.Stderr)
	}
	if err := json.Unmarshal([]byte(r.Stdout), &set); err != nil {
		s.t.Fatal(err)
	}
	s.scanSays(set.Verdict)
	return set
}

func (s *site) scanSays(want policies.Verdict) {
	s.t.Helper()
	r, err := s.Shell(s.t.Context(), s.binary+" scan --only releases -n op --fail-on never -o json --kubeconfig "+s.Kubeconfig())
	if err != nil || r.Code != 0 {
		s.t.Fatalf("scan: %v %d %s", err, r.Code, r.Stderr)
	}
	var got scan.Scan
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		s.t.Fatal(err)
	}
	if total := got.Total(); total.Objects != 1 || got.Verdict != want {
		s.t.Errorf("check says of the release %s, and the scan %s of %d: %s", want, got.Verdict, total.Objects, r.Stdout)
	}
}

// stay checks that objects, NAMESPACE/NAME, still exist well after their operator was deleted.
func (s *site) stay(objects ...string) {
	s.t.Helper()
	err := s.Await(s.t.Context(), 6*time.Second, "one to go", func(ctx context.Context) (bool, error) {
		for _, object := range objects {
			namespace, name, _ := strings.Cut(object, "/")
			if gone, err := s.isGone(namespace, name)(ctx); gone || err != nil {
				return gone, err
			}
		}
		return false, nil
	})
	if err == nil {
		s.t.Errorf("one of %q was deleted", objects)
	}
}

func (s *site) awaitGone(namespace, name string) {
	s.t.Helper()
	if err := s.Await(s.t.Context(), 30*time.Second, name+" to go", s.isGone(namespace, name)); err != nil {
		s.t.Error(err)
	}
}

func (s *site) isGone(namespace, name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		r, err := s.Kubectl(ctx, "get", "gadgets.inset.test/"+name, "-n", namespace, "--ignore-not-found", "-o", "name")
		return err == nil && r.Code == 0 && r.Stdout == "", err
	}
}

// TestUninstallOrder compares the order in answer/release with the pinned Helm version.
func TestUninstallOrder(t *testing.T) {
	lab.Long(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-modfile=tools/helm/go.mod", "-f", "{{.Dir}}", "helm.sh/helm/v4")
	list.Dir = ".."
	dir, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "pkg/release/v1/util/kind_sorter.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "UninstallOrder" {
			return true
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			kind, err := strconv.Unquote(element.(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			want = append(want, kind)
		}
		return false
	})
	if len(want) < 30 {
		t.Fatalf("Helm orders %q: is the order recorded differently now?", want)
	}
	want = append(want, "Aardvark", "Zebra") // unknown kinds, by name
	var manifests strings.Builder
	for _, kind := range slices.Backward(want) {
		manifests.WriteString("---\n{apiVersion: v1, kind: " + kind + ", metadata: {name: it}}\n")
	}
	u, err := release.Order(manifests.String(), true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, together := range u.Deletes {
		got = append(got, together[0].GetKind())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-helm, +answer/release:\n%s", diff)
	}
}
