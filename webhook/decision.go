package webhook

import (
	"strings"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// AllowAnnotation of an object allows its deletion. Its value is the reason.
const AllowAnnotation = "termguard.dev/allow-hang"

// judgement sorts the findings by their effect.
type judgement struct {
	denials  []policies.Finding // why the request is refused
	warnings []policies.Finding // shown to the user; includes refuse
	records  []policies.Finding // in metrics and audit annotations; includes say
}

// differs reports whether j and other have different outcomes.
func (j judgement) differs(other judgement) bool {
	return (len(j.denials) > 0) != (len(other.denials) > 0) || len(j.warnings) != len(other.warnings) || len(j.records) != len(other.records)
}

// judge sorts findings, keeping their order. Only findings about a certain hang, of a policy set to deny,
// refuse; informational ones never do.
func judge(e config.Enforcement, findings []policies.Finding, labels map[string]string) judgement {
	var j judgement
	for _, f := range findings {
		mode := e.Mode(f.Policy, labels)
		if mode == config.Off {
			continue
		}
		j.records = append(j.records, f)
		if mode == config.DryRun {
			continue
		}
		j.warnings = append(j.warnings, f)
		if mode == config.Deny && f.Certainty == policies.Will && f.Severity != policies.Info {
			j.denials = append(j.denials, f)
		}
	}
	return j
}

// allowReason returns the reason in the object's AllowAnnotation, and whether the object or user is trusted.
func allowReason(t config.Trust, r *question.Request) (reason string, isTrusted bool) {
	reason = printable.Line(strings.TrimSpace(r.Annotation(AllowAnnotation)))
	return reason, trustsObject(t, r) || trustsUser(t, r)
}
