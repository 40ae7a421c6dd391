package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMode(t *testing.T) {
	configured := Enforcement{Default: DryRun, Policies: map[string]Mode{"p": Deny, "off": Off}}
	cases := map[string]struct {
		reason      string
		enforcement Enforcement
		policy      string
		labels      map[string]string
		want        Mode
	}{
		"Zero":           {"Warnings by default.", Enforcement{}, "p", nil, Warn},
		"Default":        {"The default is for the others.", configured, "q", nil, DryRun},
		"Configured":     {"A policy's own mode comes first.", configured, "p", nil, Deny},
		"Label":          {"A namespace outweighs configuration.", configured, "p", map[string]string{EnforceLabel: "warn"}, Warn},
		"LabelForPolicy": {"And its label for one policy the one for all.", configured, "p", map[string]string{EnforceLabel: "warn", EnforceLabel + ".p": "off"}, Off},
		"OddLabel":       {"A label that says nothing changes nothing.", configured, "p", map[string]string{EnforceLabel: "WARN"}, Deny},
		"Off":            {"A policy that is not evaluated cannot deny.", configured, "off", map[string]string{EnforceLabel: "deny"}, Off},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.enforcement.Mode(tc.policy, tc.labels); got != tc.want {
				t.Errorf("%s\nwant %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
	if diff := cmp.Diff(map[string]bool{"off": true}, configured.Off([]string{"p", "q", "off"})); diff != "" {
		t.Errorf("Off: -want, +got:\n%s", diff)
	}
}

func TestSpeaks(t *testing.T) {
	cases := map[string]struct {
		reason      string
		enforcement Enforcement
		labels      map[string]string
		want        bool
	}{
		"Zero":      {"Warnings are the default.", Enforcement{}, nil, true},
		"Silent":    {"Every policy only records.", Enforcement{Default: DryRun}, nil, false},
		"OnePolicy": {"One policy has something to say.", Enforcement{Default: Off, Policies: map[string]Mode{"p": Deny}}, nil, true},
		"Label":     {"The namespace wants none of it.", Enforcement{}, map[string]string{EnforceLabel: "off"}, false},
		"LabelOfOne": {"The namespace wants one policy.", Enforcement{Default: DryRun},
			map[string]string{EnforceLabel + ".p": "warn"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.enforcement.ShowsFindings(tc.labels); got != tc.want {
				t.Errorf("%s\nwant %v, got %v", tc.reason, tc.want, got)
			}
		})
	}
}
