package webhook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/policies"
)

// Mode is what follows from the findings of a policy.
type Mode string

// The modes.
const (
	Deny   Mode = "deny"   // "will" findings refuse the request, others warn
	Warn   Mode = "warn"   // findings are warnings
	DryRun Mode = "dryrun" // findings show in metrics and audit annotations only
	Off    Mode = "off"    // the policy has nothing to say
)

var modes = []Mode{Deny, Warn, DryRun, Off} // strictest first

func (m Mode) valid() bool { return slices.Contains(modes, m) }

func (m Mode) looserThan(other Mode) bool {
	return slices.Index(modes, m) > slices.Index(modes, other)
}

// Keys that people set on objects.
const (
	// EnforceLabel of a namespace overrides the modes for everything in it;
	// with "." and a policy's id behind it, that of one policy.
	EnforceLabel = "termguard.dev/enforce"
	// AllowAnnotation of an object lets its deletion through. Its value is the
	// reason.
	AllowAnnotation = "termguard.dev/allow-hang"
)

// Enforcement says which mode policies have. The zero value warns.
type Enforcement struct {
	// Default is for policies that are not in Policies. Defaults to Warn.
	Default Mode `json:"default,omitempty"`
	// Policies are modes by policy id. A policy that is off here is not asked
	// at all: a namespace cannot turn it on.
	Policies map[string]Mode `json:"policies,omitempty"`
	// AllowLooser lets the label of a namespace say less than the configuration
	// does: warn where that denies. Defaults to true.
	AllowLooser *bool `json:"allowLooser,omitempty"`
}

// Mode of a policy in a namespace with these labels: what stands closest
// counts. The label for the policy comes before the label for all, and that
// before configuration.
func (e Enforcement) Mode(policy string, labels map[string]string) Mode {
	configured := Warn
	if e.Default != "" {
		configured = e.Default
	}
	if mode, set := e.Policies[policy]; set {
		configured = mode
	}
	if configured == Off {
		return Off
	}
	for _, key := range []string{EnforceLabel + "." + policy, EnforceLabel} {
		if mode := Mode(labels[key]); mode.valid() {
			if mode.looserThan(configured) && e.AllowLooser != nil && !*e.AllowLooser {
				return configured
			}
			return mode
		}
	}
	return configured
}

// enforceLabels are the labels that set a mode, as key=value.
func enforceLabels(labels map[string]string) string {
	var set []string
	for key, value := range labels {
		if isEnforceLabel(key) && Mode(value).valid() {
			set = append(set, key+"="+value)
		}
	}
	slices.Sort(set)
	return strings.Join(set, ", ")
}

func isEnforceLabel(key string) bool {
	return key == EnforceLabel || strings.HasPrefix(key, EnforceLabel+".")
}

// speaks tells whether people in a namespace with these labels are told
// anything: where every policy only records or is off, nor are they told what
// could not be seen.
func (e Enforcement) speaks(labels map[string]string) bool {
	speaks := func(m Mode) bool { return m == Deny || m == Warn }
	if speaks(e.Mode("", labels)) {
		return true
	}
	for id := range e.Policies {
		if speaks(e.Mode(id, labels)) {
			return true
		}
	}
	for key, value := range labels {
		if strings.HasPrefix(key, EnforceLabel+".") && speaks(Mode(value)) {
			return true
		}
	}
	return false
}

// Off are the policies among ids that are not to be asked.
func (e Enforcement) Off(ids []string) map[string]bool {
	off := map[string]bool{}
	for _, id := range ids {
		if e.Mode(id, nil) == Off {
			off[id] = true
		}
	}
	return off
}

// misspelt lists what is wrong with the labels of a namespace: a typing error
// in them must not pass for protection.
func misspelt(labels map[string]string) []string {
	var wrong []string
	for key, value := range labels {
		if !isEnforceLabel(key) || Mode(value).valid() {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("label %s=%s is ignored: it is not deny, warn, dryrun or off", key, value))
	}
	slices.Sort(wrong)
	return wrong
}

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
func (e Enforcement) judge(findings []policies.Finding, labels map[string]string) judgement {
	var j judgement
	for _, f := range findings {
		mode := e.Mode(f.Policy, labels)
		if mode == Off {
			continue
		}
		j.record = append(j.record, f)
		if mode == DryRun {
			continue
		}
		j.say = append(j.say, f)
		if mode == Deny && f.Certainty == policies.Will && f.Severity != policies.Info {
			j.refuse = append(j.refuse, f)
		}
	}
	return j
}
