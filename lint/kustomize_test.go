package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// TestPassedOver checks that a file that no kustomization names is not reported if a kustomization
// names another file of its folder with the same definitions.
func TestPassedOver(t *testing.T) {
	t.Parallel()
	old := fmt.Sprintf(webhook, "DELETE", "", "configmaps")
	current := strings.Replace(old, "  rules:", "  namespaceSelector: {matchLabels: {guarded: 'yes'}}\n  rules:", 1)
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		low    bool
	}{
		"Beside": {"The kustomization names the other.", map[string]string{"deploy/kustomization.yaml": "resources: [new.yaml]\n", "deploy/new.yaml": current}, true},
		"Above":  {"So does one of a folder above.", map[string]string{"kustomization.yaml": "resources: [deploy/new.yaml]\n", "deploy/new.yaml": current}, true},
		"Named":  {"It names this one.", map[string]string{"deploy/kustomization.yaml": "resources: [old.yaml]\n"}, false},
		"None":   {"Nothing names either.", map[string]string{"deploy/new.yaml": current}, false},
		"Other":  {"What it names is something else.", map[string]string{"deploy/kustomization.yaml": "resources: [new.yaml]\n", "deploy/new.yaml": strings.ReplaceAll(current, "name: guard", "name: other")}, false},
		"Apart":  {"It lies in another folder, which is deployed by itself.", map[string]string{"config/kustomization.yaml": "resources: [new.yaml]\n", "config/new.yaml": current}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.files["deploy/old.yaml"] = old
			findings := 0
			for _, f := range run(t, lint.Options{Input: sets.Options{Dir: write(t, tc.files), Paths: []string{"."}}}).Findings {
				if f.Place.File != "deploy/old.yaml" {
					continue
				}
				if findings++; (f.Severity == policies.Low) != tc.low {
					t.Errorf("%s: got %s: %s", tc.reason, f.Severity, f.Message)
				}
			}
			if findings == 0 {
				t.Errorf("%s: no finding", tc.reason)
			}
		})
	}
}
