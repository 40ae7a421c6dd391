package main

import (
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
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	const pod, hook = "# Source: web/templates/pod.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: release-web}\nspec: {terminationGracePeriodSeconds: 30}", "# Source: web/templates/hook.yaml"
	cases := map[string]struct {
		args          string
		want, wantNot []string // in what is printed
		err           string   // part of it
	}{
		"a chart":                     {"chart web", []string{pod, hook, "# Source: web/charts/db/templates/secret.yaml"}, []string{"Thank", "a cluster"}, ""},
		"with values of one's own":    {"chart --values more.yaml web", []string{"terminationGracePeriodSeconds: 900"}, []string{"Secret"}, ""},
		"a kustomization":             {"kustomization overlay", []string{"name: my-it"}, nil, ""},
		"a chart without what it has": {"chart lacks", nil, nil, "its charts/ lacks db: run helm dependency build"},
		"a chart without values":      {"chart plain", []string{"metadata: {name: unnamed}"}, nil, ""},
		"a chart that is broken":      {"chart broken", nil, nil, "say how long"},
		"no chart":                    {"chart base", nil, nil, "Chart.yaml"},
		"values that are none":        {"chart --values no.yaml web", nil, nil, "no.yaml"},
		"a remote file":               {"kustomization far", nil, nil, "is elsewhere, and nothing is fetched"},
		"a remote repository":         {"kustomization git", nil, nil, "git"},
		"a file outside":              {"kustomization outside", nil, nil, "security"},
		"a circle":                    {"kustomization cycle", nil, nil, "cycle"},
		"a missing file":              {"kustomization absent", nil, nil, "absent.yaml"},
		"a chart in a kustomization":  {"kustomization inflates", nil, nil, "enable-helm"},
		"nothing":                     {"", nil, nil, "usage"},
		"something else":              {"plan web", nil, nil, "usage"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", os.Getenv("PATH"))
			var out strings.Builder
			err := run(strings.Fields(tc.args), &out)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("want an error with %q, got %v", tc.err, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
			for _, not := range tc.wantNot {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q is in:\n%s", not, out.String())
				}
			}
		})
	}
}
