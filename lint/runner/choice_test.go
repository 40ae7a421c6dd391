package runner

import (
	"errors"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint/sets"
)

// TestChoice checks which policies count, their severity and their files, by flags and
// configuration.
func TestChoice(t *testing.T) {
	const config, policy = "apiVersion: termguard.dev/v1\nkind: LintConfig\n", "apiservice-backend-removed"
	for name, tc := range map[string]struct {
		reason, config string
		only           []string
		fails          bool
		err            string
	}{
		"As it is":       {"It is found.", "", nil, true, ""},
		"Only":           {"It is evaluated.", "", []string{"long-grace-period", policy}, true, ""},
		"OnlyAnother":    {"It is not evaluated.", "", []string{"long-grace-period"}, false, ""},
		"OnlyUnknown":    {"A typing error.", "", []string{policy + "s"}, false, `--only: policy "apiservice-backend-removeds" not found; did you mean "apiservice-backend-removed"?`},
		"Severity":       {"It does not fail the run.", "severity: {" + policy + ": info}\n", nil, false, ""},
		"OtherSeverity":  {"It fails it still.", "severity: {long-grace-period: info}\n", nil, true, ""},
		"Ignored":        {"Its object is named.", "ignore: [{policy: " + policy + ", resources: [apiservices.*], names: ['*.metrics.k8s.io'], reason: known}]\n", nil, false, ""},
		"IgnoredInOther": {"The object has no namespace.", "failOn: medium\nignore: [{policy: " + policy + ", namespaces: [x], reason: known}]\n", nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, map[string]string{".git/HEAD": "", "a.yaml": hangs, ".termguard.yaml": config + tc.config})
			stdout, _, err := start(t, Options{Input: sets.Options{Paths: []string{"a.yaml"}}, Only: tc.only})
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			if ok := errors.Is(err, ErrFindings); ok != tc.fails {
				t.Errorf("%s: %v\n%s", tc.reason, err, stdout)
			}
		})
	}
}
