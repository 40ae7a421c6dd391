// Package triage decides which findings count: ignored and known ones do not.
package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/policies"
)

// Ids of findings about ignores, which cannot be ignored: there is always something to correct.
const (
	Unused  = "unused-ignore"
	Expired = "expired-ignore"
	Invalid = "invalid-ignore"
)

// Policies describes this package's findings, as METADATA does for others.
func Policies() []policies.Policy {
	all := []policies.Policy{
		{
			ID:          Expired,
			Title:       "Ignored until a day that has passed",
			Description: "An annotation, comment or configuration ignores a policy until a day that has passed. It has no effect any more: the hidden finding is reported again.",
			Remedy:      "Fix the finding, and remove the entry; or give a new day, with the reason.",
			Limits:      "Days are those of UTC.",
		},
		{
			ID:          Invalid,
			Title:       "Ignores nothing, because it cannot be parsed",
			Description: "An annotation or comment is meant to ignore a policy, but names none, names one that does not exist, or gives no reason. It is without effect.",
			Remedy:      "Write ID[,ID] -- reason [until YYYY-MM-DD]. The ids are those of termguard policy list.",
			Limits:      "None.",
		},
		{
			ID:          Unused,
			Title:       "Ignores a finding that does not exist",
			Description: "An annotation, comment or configuration ignores a policy that finds nothing there: the cause is fixed, or the entry is in the wrong place. It would hide the next finding, unread.",
			Remedy:      "Remove the entry, or move it: a comment applies to the entry in front of it or, on a line of its own, to the next one; an annotation applies to its object.",
			Limits:      "A policy that is off, or a file that was not checked, is not counted as unused.",
		},
	}
	for i := range all {
		all[i].Severity, all[i].Triggers = policies.Low, []policies.Trigger{}
		all[i].RelatedResources = []policies.Resource{{Ref: "https://github.com/termguard/termguard/blob/main/docs/lint.md", Description: "How to ignore findings."}}
	}
	return all
}

type Options struct {
	// Policies of the findings; ignores may name their aliases.
	Policies []policies.Policy
	Off      map[string]bool   // not evaluated
	Ignore   []settings.Ignore // from the configuration
	File     string            // of Ignore
	// Rel makes a file name relative to the configuration's folder, with forward slashes.
	Rel func(file string) string
	// InScope, unless nil, reports whether a file was linted: entries of the configuration may apply to others.
	InScope func(file string) bool
	// Stopped says that the run ended early: no ignore is known to be unused.
	Stopped bool
	// Now defaults to time.Now.
	Now func() time.Time
}

// SuppressedFinding is an ignored finding.
type SuppressedFinding struct {
	lint.Finding
	Reason string      `json:"reason"`
	Until  string      `json:"until,omitempty"` // the last day
	By     files.Place `json:"by"`
}

type suppression struct {
	policy  string
	reason  string
	until   time.Time
	place   files.Place
	matches func(lint.Finding) bool
	global  bool // from the configuration
	used    bool
}

// Suppress separates counted and ignored findings; unused, expired and invalid ignores count.
func Suppress(result *lint.Result, o Options) (counted []lint.Finding, suppressed []SuppressedFinding) {
	if o.Now == nil {
		o.Now = time.Now
	}
	var suppressions []*suppression
	add := func(w suppression) {
		if !w.until.IsZero() && !o.Now().UTC().Before(w.until.AddDate(0, 0, 1)) {
			counted = append(counted, newFinding(Expired, w.place, fmt.Sprintf("%s was ignored until %s (%s), which has passed", w.policy, w.until.Format(time.DateOnly), w.reason)))
			return
		}
		suppressions = append(suppressions, &w)
	}
	for _, mark := range result.Marks {
		for _, problem := range o.readMark(mark, add) {
			counted = append(counted, newFinding(Invalid, mark.Place, "termguard:ignore has no effect: "+problem))
		}
	}
	for _, i := range o.Ignore {
		add(suppression{
			policy: i.Policy, reason: i.Reason, until: i.Until, global: true,
			place:   files.Place{File: o.File, Line: i.Line, Column: i.Column, Source: i.Source},
			matches: func(f lint.Finding) bool { return i.Matches(o.Rel(f.Place.File), f.Target, f.Object) },
		})
	}
	// Indexed: a file may hold any number of both.
	type key struct{ policy, file string }
	byKey := map[key][]*suppression{}
	for _, w := range suppressions {
		at := key{w.policy, w.place.File}
		if w.global {
			at.file = ""
		}
		byKey[at] = append(byKey[at], w)
	}
	ids := map[string][]string{} // aliases
	for _, p := range o.Policies {
		ids[p.ID] = p.Aliases
	}
	for _, f := range result.Findings {
		var match *suppression
		for _, id := range append([]string{f.Policy}, ids[f.Policy]...) {
			for _, w := range slices.Concat(byKey[key{id, f.Place.File}], byKey[key{policy: id}]) {
				if w.matches(f) {
					w.used = true
					match = cmp.Or(match, w)
				}
			}
		}
		if match == nil {
			counted = append(counted, f)
			continue
		}
		s := SuppressedFinding{Finding: f, Reason: match.reason, By: match.place}
		if !match.until.IsZero() {
			s.Until = match.until.Format(time.DateOnly)
		}
		suppressed = append(suppressed, s)
	}
	for _, w := range suppressions {
		if !o.Stopped && !w.used && !o.Off[w.policy] && !(w.global && o.InScope != nil) {
			counted = append(counted, newFinding(Unused, w.place, fmt.Sprintf("there is no finding of %s here, which is ignored (%s)", w.policy, w.reason)))
		}
	}
	counted = slices.DeleteFunc(counted, func(f lint.Finding) bool {
		return o.InScope != nil && slices.Contains([]string{Unused, Expired, Invalid}, f.Policy) && f.Place.File != o.File && !o.InScope(f.Place.File)
	})
	Sort(counted)
	return counted, suppressed
}

// maxEntries bounds the lines of one annotation: each may become a finding that shows all of it.
const maxEntries = 64

// readMark calls add for each policy that a mark ignores, and returns what is wrong with it.
func (o Options) readMark(mark files.Mark, add func(suppression)) (problems []string) {
	var ids []string
	for _, p := range o.Policies {
		ids = append(ids, p.ID)
	}
	lines := strings.Split(strings.TrimSpace(mark.Text), "\n")
	if len(lines) > maxEntries {
		return []string{fmt.Sprintf("it has %d lines, and at most %d are read", len(lines), maxEntries)}
	}
	for _, line := range lines {
		if strings.TrimSpace(line) == "" && len(lines) > 1 {
			continue
		}
		ignore, err := ParseIgnore(line)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for _, id := range ignore.Policies {
			if !slices.Contains(ids, id) {
				problems = append(problems, fmt.Sprintf("policy %q not found%s", id, nearest.Hint(id, ids)))
				continue
			}
			add(suppression{
				policy: id, reason: ignore.Reason, until: ignore.Until, place: mark.Place,
				matches: func(f lint.Finding) bool {
					return f.Place.File == mark.File && mark.From <= f.Place.Line && f.Place.Line <= mark.To
				},
			})
		}
	}
	return problems
}

func newFinding(id string, at files.Place, message string) lint.Finding {
	all := Policies()
	p := all[slices.IndexFunc(all, func(p policies.Policy) bool { return p.ID == id })]
	return lint.Finding{
		Finding: policies.Finding{
			Policy: id, Title: p.Title, Certainty: policies.Will, Severity: p.Severity, Message: message,
			Objects: []policies.Object{}, Evidence: []string{}, Remedy: p.Remedy,
		},
		Place: at,
	}
}

// Sort orders findings by severity, then by place and policy.
func Sort(findings []lint.Finding) {
	slices.SortStableFunc(findings, func(a, b lint.Finding) int {
		return cmp.Or(
			a.Severity.Compare(b.Severity),
			strings.Compare(a.Place.File, b.Place.File),
			cmp.Compare(a.Place.Line, b.Place.Line),
			cmp.Compare(a.Place.Column, b.Place.Column),
			strings.Compare(a.Policy, b.Policy),
			strings.Compare(string(a.Question), string(b.Question)),
			strings.Compare(a.Message, b.Message),
		)
	})
}
