package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/internal/nearest"
)

// Mode is how the findings of a policy are enforced.
type Mode string

const (
	Deny   Mode = "deny" // "will" findings deny the request, others warn
	Warn   Mode = "warn"
	DryRun Mode = "dryrun" // only in metrics and audit annotations
	Off    Mode = "off"    // not evaluated
)

// Modes are all modes, strictest first.
var Modes = []string{string(Deny), string(Warn), string(DryRun), string(Off)}

// Valid reports whether the mode exists.
func (m Mode) Valid() bool { return slices.Contains(Modes, string(m)) }

func (m Mode) looserThan(other Mode) bool {
	return slices.Index(Modes, string(m)) > slices.Index(Modes, string(other))
}

const (
	// EnforceLabel on a namespace sets the mode for everything in it, and
	// EnforceLabel.POLICY-ID the mode of one policy.
	EnforceLabel = "termguard.dev/enforce"
	// PolicyLabel, with any value, marks ConfigMaps in termguard's namespace whose keys POLICY.rego are
	// policies.
	PolicyLabel = "termguard.dev/policy"
)

// Enforcement sets the modes of policies. The zero value warns.
type Enforcement struct {
	// Default is for policies that are not in Policies. Defaults to Warn.
	Default Mode `json:"default,omitempty"`
	// Policies are modes by policy id. If a policy is off here, a namespace cannot turn it on.
	Policies map[string]Mode `json:"policies,omitempty"`
	// AllowLooser lets the label of a namespace weaken the mode. Defaults to true.
	AllowLooser *bool `json:"allowLooser,omitempty"`
}

// Mode returns the mode of a policy in a namespace: by the policy's label, else EnforceLabel, else the
// configuration.
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

// EnforceLabels returns the labels that set a mode, as key=value.
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

// IsEnforceLabel reports whether a key sets a mode.
func IsEnforceLabel(key string) bool {
	return key == EnforceLabel || strings.HasPrefix(key, EnforceLabel+".")
}

// ShowsFindings reports whether users in a namespace see findings, and with them missing facts.
func (e Enforcement) ShowsFindings(labels map[string]string) bool {
	return e.some(labels, func(m Mode) bool { return m == Deny || m == Warn })
}

// Denies reports whether any policy may deny requests in a namespace.
func (e Enforcement) Denies(labels map[string]string) bool {
	return e.some(labels, func(m Mode) bool { return m == Deny })
}

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

// Off returns the policies that the configuration turns off.
func (e Enforcement) Off(ids []string) map[string]bool {
	off := map[string]bool{}
	for _, id := range ids {
		if e.Mode(id, nil) == Off {
			off[id] = true
		}
	}
	return off
}

// CheckLabels returns errors in labels of a namespace: a typo must not pass for protection. policyIDs is nil if
// unknown.
func CheckLabels(labels map[string]string, policyIDs []string) []string {
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
			wrong = append(wrong, fmt.Sprintf("label %s=%s is ignored: policy %q not found%s", key, value, id, nearest.Hint(id, policyIDs)))
		}
	}
	slices.Sort(wrong)
	return wrong
}
