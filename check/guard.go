package check

import "github.com/termguard/termguard/policies"

// Answer is what termguard's webhook in the cluster, the guard, would do about a deletion.
type Answer string

// The answers.
const (
	Refuses Answer = "refuses" // the API server would refuse the deletion
	Warns   Answer = "warns"   // it would be let through, with a warning
	Allows  Answer = "allows"  // it would be let through, without one
	Unasked Answer = "unasked" // the API server does not ask the guard about it
	Absent  Answer = "absent"  // there is no guard in the cluster
	Unknown Answer = "unknown" // what the guard goes by cannot be seen
)

// Guard is what termguard's webhook in the cluster would do about the deletion, as far as
// that can be read.
type Guard struct {
	// Answer is refuses, warns, allows, unasked, absent or unknown.
	Answer Answer `json:"answer"`
	// Policies are those that it refuses for, or warns of.
	Policies []string `json:"policies,omitempty"`
	// Why it does so, or why that is not known.
	Why string `json:"why,omitempty"`
}

// line tells people of it, beside a verdict; "" where there is nothing to tell.
func (g *Guard) line(verdict policies.Verdict) string {
	if g == nil || g.Answer == Absent || verdict == policies.Completes && g.Answer != Refuses {
		return ""
	}
	line := map[Answer]string{
		Refuses: "the guard in this cluster would refuse it",
		Warns:   "the guard in this cluster would warn, and let it through",
		Allows:  "the guard in this cluster would let it through",
		Unasked: "the guard in this cluster is not asked about it",
		Unknown: "what the guard in this cluster would do is not known",
	}[g.Answer]
	if g.Why != "" {
		line += ": " + g.Why
	}
	return line
}
