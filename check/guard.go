package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Reply is the answer of termguard's webhook in the cluster, the guard, to a deletion.
type Reply string

// The answers.
const (
	Refuses Reply = "refuses" // the API server refuses the deletion because of it
	Warns   Reply = "warns"   // allowed with a warning
	Allows  Reply = "allows"  // allowed without one, or not sent to the guard
	Unknown Reply = "unknown" // no dry run was sent or answered
)

// Guard is the answer of termguard's webhook in the cluster to a dry run of the deletion.
type Guard struct {
	Answer Reply `json:"answer"`
	// Why the answer is unknown.
	Why string `json:"why,omitempty"`
}

// guardName is the webhook for deletes, as deploy/ names it.
const guardName = "delete.termguard.dev"

// Guarded adds the guard before a dry run, if the cluster has one.
func (a *Answer) Guarded(world *cluster.World, s Subject) {
	if s.Terminating() {
		return
	}
	guard := &a.Items[0].Guard
	world.Read(func(f cluster.Facts) {
		for hook := range f.Webhooks() {
			if strings.HasPrefix(hook.Key, "validating/") && strings.HasSuffix(hook.Key, "/"+guardName) {
				*guard = &Guard{Answer: Unknown, Why: "--dry-run-deletes asks it, if you may delete the object"}
			}
		}
		if *guard == nil && f.Hides("validatingwebhookconfigurations.admissionregistration.k8s.io") {
			*guard = &Guard{Answer: Unknown, Why: "you may not read whether there is one; --dry-run-deletes asks it, if you may delete the object"}
		}
	})
}

// Unasked adds the webhooks whose answer to the deletion only a dry run shows.
func (a *Answer) Unasked(world *cluster.World, s Subject, options map[string]any) {
	r := &a.Items[0]
	if s.Terminating() {
		return
	}
	world.Ask(s.Deletion(options), func(m cluster.Moment) {
		for _, key := range m.Guards() {
			kind, webhook, _ := strings.Cut(key, "/")
			configuration, name, _ := strings.Cut(webhook, "/")
			if name == guardName {
				continue
			}
			r.Findings = append(r.Findings, policies.Finding{
				Policy: dryRuns, Title: "Not asked yet", Certainty: policies.May, Severity: policies.Info,
				Message:  fmt.Sprintf("webhook %s fails closed and sees DELETE %s: only a dry run tells what it answers", webhook, r.Target.Resource),
				Objects:  []policies.Object{{Resource: kind + "webhookconfigurations.admissionregistration.k8s.io", Name: configuration}},
				Evidence: []string{}, Remedy: fmt.Sprintf("Ask webhook %s: add --dry-run-deletes", name),
			})
		}
	})
	a.sum()
}

// guardAnswer returns the guard's answer to a dry run with this error and these warnings.
func guardAnswer(err error, warnings []string) *Guard {
	switch {
	case err != nil && strings.Contains(err.Error(), `webhook "`+guardName+`"`):
		return &Guard{Answer: Refuses}
	case err != nil:
		return &Guard{Answer: Unknown, Why: "the dry run of the deletion ended before: " + reasonOf(err)}
	case slices.ContainsFunc(warnings, func(text string) bool { return strings.HasPrefix(text, policies.WarningStart) }):
		return &Guard{Answer: Warns}
	}
	return &Guard{Answer: Allows}
}

// line returns the line for people, or "".
func (g *Guard) line() string {
	if g == nil {
		return ""
	}
	line := map[Reply]string{
		Refuses: "the guard in this cluster would refuse it",
		Warns:   "the guard in this cluster would warn, and let it through",
		Allows:  "the guard in this cluster would let it through",
		Unknown: "what the guard in this cluster would do is not known",
	}[g.Answer]
	if g.Why != "" {
		line += ": " + g.Why
	}
	return line
}
