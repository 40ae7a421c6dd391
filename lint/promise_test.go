package lint_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// severities returns the findings by policy and severity, repeated ones included.
func severities(r *lint.Result) []string {
	got := []string{}
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s %s", f.Policy, f.Severity))
	}
	slices.Sort(got)
	return got
}

// conditional returns a webhook with a matchCondition, and one ConfigMap that it may match.
func conditional(expression string) string {
	return strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "configmaps"), "  rules:", fmt.Sprintf("  matchConditions: [{name: mine, expression: %q}]\n  rules:", expression), 1) +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guarded, namespace: guard}\ndata: {keep: 'yes'}\n"
}

// padding returns ConfigMaps of one KiB each.
func padding(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: padding-%d, namespace: guard}\ndata: {a: %q}\n", i, strings.Repeat("x", 1024))
	}
	return text.String()
}

// TestSeverity checks that severities depend on the options of a manifest's maintainer.
func TestSeverity(t *testing.T) {
	const leavesOut = "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard]}]}\n  rules:"
	labelled := strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "configmaps"), "  rules:", "  namespaceSelector: {matchExpressions: [{key: guarded, operator: NotIn, values: ['no']}]}\n  rules:", 1)
	metricsServer := metricsServer[:strings.Index(metricsServer, backend)]
	cases := map[string]struct {
		reason, text string
		want         []string
	}{
		"APIService":           {"It would block every namespace.", metricsServer + backend, []string{"apiservice-backend-removed high"}},
		"APIServiceOfSystem":   {"Nobody deletes kube-system.", strings.ReplaceAll(metricsServer+backend, "namespace: guard", "namespace: kube-system"), []string{"apiservice-backend-removed info"}},
		"APIServiceOfDefault":  {"Nor default.", strings.ReplaceAll(metricsServer+backend, "namespace: guard", "namespace: default"), []string{"apiservice-backend-removed info"}},
		"AllPods":              {"Everybody's pods wait for it.", strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "pods"), "  rules:", leavesOut, 1), []string{"self-blocking-webhook high"}},
		"DefaultAccount":       {"Every namespace has a ServiceAccount, so its own hangs without one in the set.", fmt.Sprintf(webhook, "DELETE", "", "serviceaccounts"), []string{"self-blocking-webhook high", "webhook-backend-in-namespace high"}},
		"ConditionsOnOthers":   {"Nothing of the set has that name.", conditional("oldObject.metadata.name == 'mine'"), []string{}},
		"ConditionsMet":        {"One object has it.", conditional("oldObject.metadata.name == 'guarded'"), []string{"webhook-backend-in-namespace high"}},
		"ConditionsOnContent":  {"Of other kinds lint reads the metadata, but for this.", conditional("oldObject.data.keep == 'yes'"), []string{"webhook-backend-in-namespace high"}},
		"ConditionsNotMet":     {"The same, with what no object says.", conditional("'keep' in oldObject.data && oldObject.data.keep == 'no'"), []string{}},
		"ConditionsInLargeSet": {"Of one that is not held in memory, it is found all the same.", conditional("oldObject.metadata.name == 'guarded'") + padding(400), []string{"webhook-backend-in-namespace high"}},
		"ConditionsOnTooMany":  {"More than are read may have it.", conditional("oldObject.metadata.name == 'mine'") + padding(600), []string{"webhook-backend-in-namespace low"}},
		"ConditionsOnDefault":  {"What a manifest leaves out, the API server may fill in.", conditional("has(oldObject.immutable)"), []string{"webhook-backend-in-namespace low"}},
		"LabelsOfNamespace":    {"It has no label that would leave it out.", labelled, []string{"self-blocking-webhook high", "webhook-backend-in-namespace high"}},
		"LabelsOfNobody":       {"Whoever creates the namespace may label it.", labelled[strings.Index(labelled, "---"):], []string{"self-blocking-webhook high", "webhook-backend-in-namespace low"}},
		"OwnKind":              {"Only the objects that it matches may stay in its own namespace.", fmt.Sprintf(webhook, "DELETE", "cert-manager.io", "certificates"), []string{"self-blocking-webhook low"}},
		"RetiredKind":          {"A definition that serves nothing may have no instances.", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: shapes.example.com}\nspec:\n  group: example.com\n  names: {kind: Shape, plural: shapes}\n  scope: Namespaced\n  versions: [{name: v1, served: false, storage: true}]\n", []string{"crd-removed-with-finalizers low"}},
		"FinalizerOfNobody":    {"Its controller may be installed elsewhere.", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [example.com/guard]}\n", []string{"unowned-finalizer low"}},
		"OwnKindUpdate":        {"On updates only where the object has a finalizer.", fmt.Sprintf(webhook, "UPDATE", "cert-manager.io", "certificates"), []string{"self-blocking-webhook info"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(tc.text)}})
			if diff := cmp.Diff(tc.want, severities(r)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s\n%s", tc.reason, diff, strings.Join(lines(r), "\n"))
			}
		})
	}
}

// TestSeverityOfSets distinguishes files that are certainly deleted together from files of a folder
// that people also delete one at a time.
func TestSeverityOfSets(t *testing.T) {
	const kustomization = "resources: [operator.yaml, cr.yaml]\n"
	dir := write(t, map[string]string{
		"folder/operator.yaml": kialiOperator, "folder/cr.yaml": kiali,
		"kustomized/kustomization.yaml": kustomization, "kustomized/operator.yaml": kialiOperator, "kustomized/cr.yaml": kiali,
		"beside/kustomization.yaml": "resources: [operator.yaml]\n", "beside/operator.yaml": kialiOperator, "beside/cr.yaml": kiali,
		"file/all.yaml": kialiOperator + "---\n" + kiali,
	})
	for _, tc := range []struct {
		reason string
		paths  []string
		want   string
	}{
		{"several files of a folder", []string{"folder"}, "low"},
		{"the same files, named", []string{"folder/operator.yaml", "folder/cr.yaml"}, "medium"},
		{"a kustomization", []string{"kustomized"}, "medium"},
		{"a kustomization that names one of them", []string{"beside"}, "low"},
		{"one file", []string{"file"}, "medium"},
	} {
		var paths []string
		for _, path := range tc.paths {
			paths = append(paths, filepath.Join(dir, path))
		}
		got := severities(run(t, lint.Options{Input: sets.Options{Paths: paths}}))
		if diff := cmp.Diff([]string{"operator-in-same-set " + tc.want}, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
	}
}

// TestNoCluster checks all kept manifests: no message refers to a cluster, which lint has not read,
// and each message has a subject.
func TestNoCluster(t *testing.T) {
	r := run(t, lint.Options{Input: sets.Options{Paths: []string{filepath.Join(field, "manifests")}, IncludeTests: true}})
	if len(r.Findings) < 10 {
		t.Fatalf("unexpected number of findings: %d", len(r.Findings))
	}
	cluster := regexp.MustCompile(`\bready pods?\b|is (not )?(running|installed|responding)|in the cluster`)
	for _, f := range r.Findings {
		for _, text := range append([]string{f.Message}, f.Evidence...) {
			if cluster.MatchString(text) {
				t.Errorf("%s: %q speaks of a cluster", f.Policy, text)
			}
		}
		if strings.HasPrefix(f.Message, "is ") || strings.HasPrefix(f.Message, "may ") || strings.HasPrefix(f.Message, "has ") {
			t.Errorf("%s: %q has no subject", f.Policy, f.Message)
		}
	}
}

// TestFound checks that each cause is found in every form that manifests give it.
func TestFound(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: %s\n    %s\n"
	const host = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: a, image: a, volumeMounts: [{name: h, mountPath: /h}]}\n  volumes:\n  - {name: h, hostPath: {path: %s}}\n"
	const loop = "'while true; do sleep 1; done'"
	argo := strings.NewReplacer("kustomize-controller", "argocd-application-controller", "flux-system", "argocd", "ghcr.io/fluxcd", "quay.io/argoproj").Replace(fluxController) +
		"apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}\n"
	cases := map[string]struct {
		reason, text, want string // policy, "" for nothing
	}{
		"ArgoCD":      {"The controller is beside its own object.", argo, "operator-in-same-set"},
		"HostRoot":    {"All mounts of the node are below it.", fmt.Sprintf(host, "/"), "risky-mounts"},
		"HostVar":     {"A parent of the kubelet's.", fmt.Sprintf(host, "/var"), "risky-mounts"},
		"HostLib":     {"A parent of the kubelet's.", fmt.Sprintf(host, "/var/lib/"), "risky-mounts"},
		"HostEtc":     {"Nothing is mounted there.", fmt.Sprintf(host, "/etc"), ""},
		"Option":      {"A shell with an option.", fmt.Sprintf(pod, "example.com/a", "command: [sh, -o, errexit, -c, "+loop+"]"), "shell-hides-sigterm"},
		"Args":        {"An image without an entry point of its own.", fmt.Sprintf(pod, "busybox:1.36", "args: [/bin/sh, -c, "+loop+"]"), "shell-hides-sigterm"},
		"Entrypoint":  {"An image that may have one.", fmt.Sprintf(pod, "example.com/a", "args: [/bin/sh, -c, "+loop+"]"), ""},
		"Sleep":       {"It is PID 1.", fmt.Sprintf(pod, "busybox", "command: [sleep, '3600']"), "shell-hides-sigterm"},
		"ShellSleep":  {"A shell is between.", fmt.Sprintf(pod, "busybox", "command: [sh, -c, 'sleep 3600']"), "shell-hides-sigterm"},
		"Tail":        {"It is PID 1.", fmt.Sprintf(pod, "busybox", "command: [tail, -f, /dev/null]"), "shell-hides-sigterm"},
		"ShellTail":   {"A shell is between.", fmt.Sprintf(pod, "busybox", "command: [sh, -c, 'tail -f /dev/null']"), "shell-hides-sigterm"},
		"PreStop":     {"It does not end the loop.", fmt.Sprintf(pod, "busybox", "command: [sh, -c, "+loop+"]\n    lifecycle: {preStop: {exec: {command: [sleep, '5']}}}"), "shell-hides-sigterm"},
		"PreStopKill": {"It ends the loop.", fmt.Sprintf(pod, "busybox", "command: [sh, -c, "+loop+"]\n    lifecycle: {preStop: {exec: {command: [kill, '-KILL', '1']}}}"), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(tc.text)}})
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Policy)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, lines(r), tc.want)
			}
		})
	}
}
