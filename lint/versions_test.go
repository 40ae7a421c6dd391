package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// TestPastVersions reads objects of API versions that are no longer served.
func TestPastVersions(t *testing.T) {
	old := func(text string, versions ...string) string {
		for _, v := range versions {
			was, now, _ := strings.Cut(v, " ")
			text = strings.ReplaceAll(text, "apiVersion: "+now+"\n", "apiVersion: "+was+"\n")
		}
		return text
	}
	hook := old(fmt.Sprintf(webhook, "DELETE", "", "pods"), "admissionregistration.k8s.io/v1beta1 admissionregistration.k8s.io/v1")
	for name, tc := range map[string]struct {
		reason, text, version string
		want                  []string // parts of the lines
	}{
		"APIService": {"An aggregated API.", old(metricsServer, "apiregistration.k8s.io/v1beta1 apiregistration.k8s.io/v1"), "",
			[]string{"apiservice-backend-removed"}},
		"Webhook": {"One that fails closed.", strings.Replace(hook, "- name: guard.example.com", "- name: guard.example.com\n  failurePolicy: Fail", 1), "",
			[]string{"webhook-backend-in-namespace", "self-blocking-webhook"}},
		"FailsOpen": {"The default of its version fails open.", hook, "", nil},
		"Workload": {"Workloads, with a definition.", old(kialiCRD+kialiOperator+kiali, "apiextensions.k8s.io/v1beta1 apiextensions.k8s.io/v1", "extensions/v1beta1 apps/v1"), "",
			[]string{"operator-in-same-set"}},
		"Served": {"The cluster serves it.", old(metricsServer, "apiregistration.k8s.io/v1beta1 apiregistration.k8s.io/v1"), "v1.21.0", []string{"apiservice-backend-removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(tc.text)}, KubernetesVersion: tc.version})
			got := lines(r)
			for _, f := range r.Findings {
				if low := f.Severity == policies.Low && strings.Contains(f.Evidence[len(f.Evidence)-1], "Kubernetes has not served its API version since "); low == (tc.version != "") {
					t.Errorf("%s: severity %s, evidence %q: want low only if no cluster can serve it", tc.reason, f.Severity, f.Evidence)
				}
			}
			ok := len(got) == len(tc.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.Contains(got[i], tc.want[i])
			}
			if !ok {
				t.Errorf("%s: got\n  %s\nwant\n  %s", tc.reason, strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
		})
	}
}
