package policies

import (
	"slices"
	"strings"
)

// WarningStart begins each warning of the webhook.
const WarningStart = "termguard: "

// WarningEnd ends a warning about a finding.
func WarningEnd(policy string) string { return " [" + policy + "]" }

// PolicyOf returns the policy of the webhook's "termguard: SAYS: MESSAGE [POLICY]", of any version, or "".
func PolicyOf(warning string) string {
	line, own := strings.CutPrefix(warning, WarningStart)
	said, _, _ := strings.Cut(line, ": ")
	at := strings.LastIndex(line, WarningEnd("")[:2])
	predicts := slices.ContainsFunc([]Finding{{}, {Kind: KindRefused}}, func(f Finding) bool {
		return slices.ContainsFunc([]Certainty{Will, May}, func(c Certainty) bool { f.Certainty = c; return f.Says() == said })
	})
	if !own || !predicts || at < 0 {
		return ""
	}
	id, ended := strings.CutSuffix(line[at+2:], "]")
	if !ended || !policyID.MatchString(id) {
		return ""
	}
	return id
}
