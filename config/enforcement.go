package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/internal/nearest"
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

// Modes are all modes, the strictest first.
func Modes() []string {
	var all []string
	for _, m := range modes {
		all = append(all, string(m))
	}
	return all
}

// Valid tells whether there is such a mode.
func (m Mode) Valid() bool { return slices.Contains(modes, m) }

func (m Mode) looserThan(other Mode) bool {
	return slices.Index(modes, m) > slices.Index(modes, other)
}

// Keys that people set on objects.
const (
	// EnforceLabel of a namespace overrides the modes for everything in it;
	// with "." and a policy's id behind it, that of one policy.
	EnforceLabel = "termguard.dev/enforce"
	// PolicyLabel is on ConfigMaps, in the namespace that termguard runs in, whose
	// keys POLICY.rego are policies. Its value does not matter.
	PolicyLabel = "termguard.dev/policy"
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
		if mode := Mode(labels[key]); mode.Valid() {
			if mode.looserThan(configured) && e.AllowLooser != nil && !*e.AllowLooser {
				return configured
			}
			return mode
		}
	}
	return configured
}

// EnforceLabels are the labels that set a mode, as key=value.
func EnforceLabels(labels map[string]string) string {
	var set []string
	for key, value := range labels {
		if IsEnforceLabel(key) && Mode(value).Valid() {
			set = append(set, key+"="+value)
		}
	}
	slices.Sort(set)
	return strings.Join(set, ", ")
}

// IsEnforceLabel tells whether a key sets a mode.
func IsEnforceLabel(key string) bool {
	return key == EnforceLabel || strings.HasPrefix(key, EnforceLabel+".")
}

// Speaks tells whether people in a namespace with these labels are told
// anything: where every policy only records or is off, nor are they told what
// could not be seen.
func (e Enforcement) Speaks(labels map[string]string) bool {
	return e.some(labels, func(m Mode) bool { return m == Deny || m == Warn })
}

// Denies tells whether a policy may refuse anything in a namespace with these labels.
func (e Enforcement) Denies(labels map[string]string) bool {
	return e.some(labels, func(m Mode) bool { return m == Deny })
}

// some tells whether some policy may have such a mode.
func (e Enforcement) some(labels map[string]string, is func(Mode) bool) bool {
	if is(e.Mode("", labels)) {
		return true
	}
	for id := range e.Policies {
		if is(e.Mode(id, labels)) {
			return true
		}
	}
	for key, value := range labels {
		if strings.HasPrefix(key, EnforceLabel+".") && is(Mode(value)) {
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

// Misspelt lists what is wrong with the labels of a namespace: a typing error
// in them must not pass for protection. policyIDs are those that are loaded; nil
// where that is not known.
func Misspelt(labels map[string]string, policyIDs []string) []string {
	var wrong []string
	for key, value := range labels {
		if !IsEnforceLabel(key) {
			continue
		}
		id, one := strings.CutPrefix(key, EnforceLabel+".")
		switch {
		case !Mode(value).Valid():
			wrong = append(wrong, fmt.Sprintf("label %s=%s is ignored: it is not deny, warn, dryrun or off", key, value))
		case one && policyIDs != nil && !slices.Contains(policyIDs, id):
			wrong = append(wrong, fmt.Sprintf("label %s=%s is ignored: there is no policy %q%s", key, value, id, nearest.Hint(id, policyIDs)))
		}
	}
	slices.Sort(wrong)
	return wrong
}
