package webhook

import (
	"strings"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// AllowAnnotation of an object lets its deletion through. Its value is the
// reason.
const AllowAnnotation = "termguard.dev/allow-hang"

// judgement is what follows from all findings.
type judgement struct {
	refuse []policies.Finding // why the request is refused
	say    []policies.Finding // what the person is told; refuse is part of it
	record []policies.Finding // what metrics and audit annotations hold; say is part of it
}

// differs tells whether another outcome follows from j than from other.
func (j judgement) differs(other judgement) bool {
	return (len(j.refuse) > 0) != (len(other.refuse) > 0) || len(j.say) != len(other.say) || len(j.record) != len(other.record)
}

// judge weighs findings, in their order. A refusal needs a finding that the
// deletion will hang, of a policy set to deny; what is only good to know
// refuses nothing.
func judge(e config.Enforcement, findings []policies.Finding, labels map[string]string) judgement {
	var j judgement
	for _, f := range findings {
		mode := e.Mode(f.Policy, labels)
		if mode == config.Off {
			continue
		}
		j.record = append(j.record, f)
		if mode == config.DryRun {
			continue
		}
		j.say = append(j.say, f)
		if mode == config.Deny && f.Certainty == policies.Will && f.Severity != policies.Info {
			j.refuse = append(j.refuse, f)
		}
	}
	return j
}

// excuse is what the annotation of an object gives as the reason to let a request for it
// through, and whether it counts there, or from whoever asks.
func excuse(t config.Trust, r *question.Request) (reason string, heeded bool) {
	reason = printable.Line(strings.TrimSpace(r.Annotation(AllowAnnotation)))
	return reason, trustsObject(t, r) || trustsPerson(t, r)
}
