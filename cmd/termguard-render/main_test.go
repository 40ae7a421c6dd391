package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const files = `
-- web/Chart.yaml --
{apiVersion: v2, name: web, version: 1.0.0, dependencies: [{name: db, version: 1.0.0, condition: db.enabled}]}
-- web/values.yaml --
{seconds: 30, db: {enabled: true}}
-- web/templates/_name.tpl --
{{ define "name" }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
-- web/templates/pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: {{ include "name" . }}}
spec: {terminationGracePeriodSeconds: {{ .Values.seconds }}}
---
{{ if lookup "v1" "Secret" "default" "it" }}a cluster{{ end }}
-- web/templates/hook.yaml --
apiVersion: v1
kind: Pod
metadata: {name: hook, annotations: {helm.sh/hook: pre-delete}}
-- web/templates/NOTES.txt --
Thank you.
-- web/values.schema.json --
{"$ref": "https://example.com/schema.json"}
-- web/charts/db/Chart.yaml --
{apiVersion: v2, name: db, version: 1.0.0}
-- web/charts/db/templates/secret.yaml --
apiVersion: v1
kind: Secret
metadata: {name: db}
-- more.yaml --
{seconds: 900, db: {enabled: false}}
-- no.yaml --
[]
-- lacks/Chart.yaml --
{apiVersion: v2, name: lacks, version: 1.0.0, dependencies: [{name: db, version: 1.0.0, repository: "https://example.com"}]}
-- plain/Chart.yaml --
{apiVersion: v2, name: plain, version: 1.0.0}
-- plain/templates/pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: {{ .Values.name | default "unnamed" }}}
-- unreleased/Chart.yaml --
{apiVersion: v2, name: unreleased, version: CHART_VERSION}
-- unreleased/templates/pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: unreleased}
-- nameless/Chart.yaml --
{apiVersion: v2, version: CHART_VERSION}
-- broken/Chart.yaml --
{apiVersion: v2, name: broken, version: 1.0.0}
-- broken/templates/pod.yaml --
{{ required "say how long" .Values.seconds }}
-- base/kustomization.yaml --
resources: [pod.yaml]
-- base/pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: it}
-- overlay/kustomization.yaml --
{resources: [../base], namePrefix: my-}
-- far/kustomization.yaml --
resources: [https://example.com/pod.yaml]
-- git/kustomization.yaml --
resources: [github.com/example/example]
-- outside/kustomization.yaml --
resources: [../base/pod.yaml]
-- cycle/kustomization.yaml --
resources: [../cycle]
-- absent/kustomization.yaml --
resources: [absent.yaml]
-- generator/kustomization.yaml --
buildMetadata: [managedByLabel]
configMapGenerator: [{name: made, literals: [a=b]}]
-- again/kustomization.yaml --
resources: [../base]
namePrefix: a
namePrefix: b
-- circle/kustomization.yaml --
components: [../circle2]
-- circle2/kustomization.yaml --
{apiVersion: kustomize.config.k8s.io/v1alpha1, kind: Component, components: [../circle3]}
-- circle3/kustomization.yaml --
{apiVersion: kustomize.config.k8s.io/v1alpha1, kind: Component, components: [../circle2]}
-- nothing/kustomization.yaml --
{resources: [../base], patches: [{path: patch.yaml}]}
-- nothing/patch.yaml --
{apiVersion: v1, kind: Pod, metadata: {name: other, labels: {a: b}}}
-- merged/kustomization.yaml --
resources: [web.yaml]
patches: [{path: patch.yaml}]
-- merged/web.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, finalizers: [a.example.com/x]}
spec:
  template:
    spec:
      tolerations: [{key: a}]
      containers: [{name: web, image: nginx, ports: [{containerPort: 80, name: http}]}]
-- merged/patch.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, finalizers: [b.example.com/x]}
spec:
  template:
    spec:
      tolerations: [{key: b}]
      containers: [{name: web, ports: [{containerPort: 81}]}, {name: other, image: other}]
-- crlf/kustomization.yaml --
resources:\r
- ../base\t\r
-- tab/kustomization.yaml --
resources:
\t- ../base
-- anchors/kustomization.yaml --
resources: [a.yaml, b.yaml]
-- anchors/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: &data {a: b}}
-- anchors/b.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: *data}
-- plugin/kustomization.yaml --
generators: [it.yaml]
-- plugin/it.yaml --
{apiVersion: example.com/v1, kind: Sends, metadata: {name: it}}
-- function/kustomization.yaml --
generators: [it.yaml]
-- function/it.yaml --
apiVersion: example.com/v1
kind: Sends
metadata: {name: it, annotations: {config.kubernetes.io/function: "exec: {path: /bin/true}"}}
-- large/kustomization.yaml --
configMapGenerator: [{name: made, files: [large]}]
-- inflates/kustomization.yaml --
helmCharts: [{name: web, version: 1.0.0}]
`

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for _, file := range strings.Split(files, "\n-- ")[1:] {
		name, text, _ := strings.Cut(file, " --\n")
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text = strings.NewReplacer(`\r`, "\r", `\t`, "\t").Replace(text)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if err := os.WriteFile("large/large", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate("large/large", 1<<30); err != nil {
		t.Fatal(err)
	}
	const pod, hook = "# Source: web/templates/pod.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: release-web}\nspec: {terminationGracePeriodSeconds: 30}", "# Source: web/templates/hook.yaml"
	cases := map[string]struct {
		args          string
		want, wantNot []string // in the output
		err           string   // part of it
	}{
		"a chart without a version yet": {"chart unreleased", []string{"name: unreleased"}, nil, ""},
		"a chart without a name":        {"chart nameless", nil, nil, "chart.metadata.name is required"},
		"a chart":                       {"chart web", []string{pod, hook, "# Source: web/charts/db/templates/secret.yaml"}, []string{"Thank", "a cluster"}, ""},
		"with values of one's own":      {"chart --values more.yaml web", []string{"terminationGracePeriodSeconds: 900"}, []string{"Secret"}, ""},
		"a kustomization":               {"kustomization overlay", []string{"# Source: ../base/pod.yaml\n", "name: my-it"}, []string{"origin"}, ""},
		"what a kustomization makes":    {"kustomization generator", []string{"# Source: kustomization.yaml\n", "name: made-", "managed-by: kustomize"}, []string{"origin"}, ""},
		"a key given twice":             {"kustomization again", []string{"# Source: ../base/pod.yaml\n", "name: bit"}, nil, ""},
		"components in a circle":        {"kustomization circle", nil, nil, "cycle"},
		"a patch that hits nothing":     {"kustomization nothing", nil, nil, "no matches for Id Pod.v1.[noGrp]/other"},
		"a base outside of the root":    {"kustomization --root overlay overlay", nil, nil, "leads out of the repository, and is not read"},
		"lists by their keys, or whole": {"kustomization merged", []string{"image: nginx", "containerPort: 80", "containerPort: 81", "a.example.com/x", "b.example.com/x", "key: b"}, []string{"key: a\n"}, ""},
		"CRLF and tabs behind values":   {"kustomization crlf", []string{"name: it"}, nil, ""},
		"a tab that indents":            {"kustomization tab", nil, nil, "cannot start any token"},
		"an anchor of another file":     {"kustomization anchors", nil, nil, "unknown anchor"},
		"a plugin":                      {"kustomization plugin", nil, nil, "external plugins disabled"},
		"a function in a container":     {"kustomization function", nil, nil, "external plugins disabled"},
		"a generator over a large file": {"kustomization large", nil, nil, "has 1024 MiB, and at most 16 are read"},
		"a chart without what it has":   {"chart lacks", nil, nil, "its charts/ lacks db: run helm dependency build"},
		"one that may be rendered so":   {"chart --lenient lacks", nil, []string{"Secret"}, ""},
		"required values left out":      {"chart --lenient broken", nil, nil, ""},
		"a chart without values":        {"chart plain", []string{"metadata: {name: unnamed}"}, nil, ""},
		"a chart that is broken":        {"chart broken", nil, nil, "say how long"},
		"no chart":                      {"chart base", nil, nil, "Chart.yaml"},
		"values that are none":          {"chart --values no.yaml web", nil, nil, "no.yaml"},
		"a remote file":                 {"kustomization far", nil, nil, "is elsewhere, and nothing is fetched"},
		"a remote repository":           {"kustomization git", nil, nil, "git"},
		"a file outside":                {"kustomization outside", nil, nil, "security"},
		"a circle":                      {"kustomization cycle", nil, nil, "cycle"},
		"a missing file":                {"kustomization absent", nil, nil, "absent.yaml"},
		"a chart in a kustomization":    {"kustomization inflates", nil, nil, "enable-helm"},
		"something else":                {"plan web", nil, nil, "want chart or kustomization"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", os.Getenv("PATH"))
			words := strings.Fields(tc.args)
			r := request{Kind: words[0], Dir: words[len(words)-1]}
			for i, word := range words {
				switch word {
				case "--values":
					r.Values = append(r.Values, words[i+1])
				case "--lenient":
					r.Lenient = true
				case "--root":
					r.Root = words[i+1]
				}
			}
			out, err := serveOne(t, r)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("want an error with %q, got %v", tc.err, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			for _, not := range tc.wantNot {
				if strings.Contains(out, not) {
					t.Errorf("%q is in:\n%s", not, out)
				}
			}
		})
	}
}

func serveOne(t *testing.T, r request) (string, error) {
	t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var reply answer
	if err := errors.Join(run([]string{"serve"}, strings.NewReader(string(line)), &out), json.Unmarshal([]byte(out.String()), &reply)); err != nil {
		t.Fatal(err)
	}
	if reply.Error != "" {
		return "", errors.New(reply.Error)
	}
	return reply.Text, nil
}

func TestUsage(t *testing.T) {
	if err := run(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("got %v", err)
	}
}

// TestServe checks that each request is answered whatever happened to earlier ones.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"kustomization.yaml": "resources: [pod.yaml]", "pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: it}}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", os.Getenv("PATH"))
	good, err := json.Marshal(request{Kind: "kustomization", Root: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	in := `{"kind": "kustomization", "dir": "` + dir + `/absent"} {"kind": "other", "dir": "` + dir + `"}` + string(good) + string(good)
	if err := run([]string{"serve"}, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(strings.NewReader(out.String()))
	for i := range 4 {
		var a answer
		if err := answers.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if works := i >= 2; (a.Error == "") != works || works && (!strings.Contains(a.Text, "# Source: pod.yaml") || len(a.Files) != 2) {
			t.Errorf("request %d: %+v", i, a)
		}
	}
	if err := run([]string{"serve"}, strings.NewReader("{"), &out); err == nil {
		t.Error("half a request is answered")
	}
}
