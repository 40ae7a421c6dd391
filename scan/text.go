package scan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

const (
	// shownCauses bounds the causes shown whole, and shownRest others, in one line: an ordinary cluster fits on
	// 24 lines.
	shownCauses, shownRest = 4, 5
	shownNames             = 2
	shownTerminating       = 3
)

var headings = map[policies.Class]string{policies.Broken: "broken", policies.Order: "waits for another object", policies.Rule: "set by a rule", Unseen: "unseen"}

// Page is the scan for people. Long adds each cause's evidence and steps.
func (s *Scan) Page(long bool) *page.Page {
	var p page.Page
	p.Line("%s", s.headline())
	if s.Interrupted != "" {
		p.Line("interrupted: %s", s.Interrupted)
	}
	if s.Mended != nil {
		p.Line("%s", s.promise())
	}
	all := s.byKind()
	byClass := map[policies.Class]int{}
	for _, c := range s.Causes {
		n := byClass[c.Class]
		byClass[c.Class]++
		if n == 0 && (long || len(byClass) == 1 || len(byClass) == 2 && byClass[policies.Broken] > 0) {
			p.Blank()
		}
		switch {
		case long || c.Class == policies.Broken && n < shownCauses:
			s.cause(&p, c, n+1, all, long)
		case n < shownRest:
			p.Line("%s: %s: %s", headings[c.Class], c.Title, c.holding(all))
		}
	}
	for _, class := range Classes() {
		if more := byClass[class] - shownRest; more > 0 && !long {
			p.Line("%s: %d more (--all)", headings[class], more)
		}
	}
	var terminating []string
	for _, e := range s.Terminating() {
		terminating = append(terminating, fmt.Sprintf("%s  %s: %s", duration.HumanDuration(since(e.TerminatingSince, s.At)), e.Target.Ref(), why(e)))
	}
	section(&p, "Terminating now:", terminating, shownTerminating, long)
	section(&p, "not checked:", policies.UnseenTexts(s.Unseen), shownRest, long)
	if len(s.LeftOut) > 0 {
		p.Blank()
	}
	for _, left := range s.LeftOut {
		p.Line("left out: %s", left)
	}
	return &p
}

func section(p *page.Page, heading string, lines []string, most int, long bool) {
	if len(lines) == 0 {
		return
	}
	p.Blank()
	p.Line("%s", heading)
	for i, line := range lines {
		if i == most && !long {
			p.Item("  ", "%s (--all)", page.More(len(lines)-i, ""))
			return
		}
		p.Item("  ", "%s", line)
	}
}

func (s *Scan) headline() string {
	total := s.Total()
	of := ""
	if s.Of != "" {
		of = s.Of + ": "
	}
	if total.Asked == 0 {
		return of + "nothing was asked about"
	}
	kinds := kindsIn(s.byKind(), nil)
	if total.Completes == total.Asked {
		return fmt.Sprintf("%sall of %s could be deleted", of, kinds)
	}
	words := map[policies.Verdict]string{policies.Refused: "would be refused", policies.Hangs: "would hang", policies.AtRisk: "may hang", policies.Unknown: "unknown"}
	var parts []string
	for _, v := range verdicts {
		if n := *total.of(v); n > 0 && words[v] != "" {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[v]))
		}
	}
	return fmt.Sprintf("%s%d of %d could be deleted (%s); %s", of, total.Completes, total.Asked, kinds, strings.Join(parts, ", "))
}

func (s *Scan) byKind() map[Kind]int {
	byKind := map[Kind]int{}
	for _, c := range s.Asked {
		byKind[c.Kind] = c.Asked
	}
	return byKind
}

func (s *Scan) promise() string {
	var broken []string
	for _, c := range s.Causes {
		if c.Class == policies.Broken && removable(&c) {
			broken = append(broken, c.ID)
		}
	}
	if len(broken) == 1 {
		return fmt.Sprintf("once %s is fixed, %s", s.numbers(broken), s.Mended.of(" that it holds"))
	}
	return fmt.Sprintf("once %s are fixed together, %s", s.numbers(broken), s.Mended.of(" that they hold"))
}

// numbers names broken causes by their number in the output: they come first.
func (s *Scan) numbers(ids []string) string {
	var numbers []string
	for i, c := range s.Causes {
		if slices.Contains(ids, c.ID) {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	last := len(numbers) - 1
	switch {
	case last < 1:
		return "broken " + strings.Join(numbers, "")
	case last > 2 && numbers[last] == strconv.Itoa(last+1): // all from 1 on
		return "broken 1 to " + numbers[last]
	}
	return "broken " + strings.Join(numbers[:last], ", ") + " and " + numbers[last]
}

// once describes the effect of a fix, alone or together with other causes.
func (s *Scan) once(c Cause) string {
	switch {
	case len(c.Mended.With) > 0:
		return "once fixed together with " + s.numbers(c.Mended.With) + ", " + c.Mended.String()
	case c.Mended.Free == 0 && c.Mended.Unknown == 0:
		return "fixed alone, this frees none: other causes hold the same"
	}
	return "once fixed, " + c.Mended.String()
}

func (c Cause) holding(all map[Kind]int) string {
	verb := "holds"
	if c.Certainty != policies.Will {
		verb = "may hold"
	}
	text := verb + " " + kindsIn(c.ByKind, all)
	if c.Terminating > 0 {
		text += fmt.Sprintf(" (%d Terminating)", c.Terminating)
	}
	return text
}

func (s *Scan) cause(p *page.Page, c Cause, n int, all map[Kind]int, long bool) {
	p.Line("%s %d: %s", headings[c.Class], n, c.Title)
	holding := c.holding(all)
	if c.Mended != nil {
		holding += "; " + s.once(c)
	}
	p.Item("  ", "%s", holding)
	if long || c.Holds <= shownNames {
		names := strings.Join(c.Names, ", ")
		if c.Holds > len(c.Names) {
			names += ", …"
		}
		p.Item("  ", "%s", names)
	}
	for i, step := range c.Steps {
		if i > 0 && !long {
			break
		}
		p.Item(fmt.Sprintf("  %d. ", i+1), "%s", step.Do)
		if step.Command != "" {
			p.Command(5, step.Command)
		}
	}
	if !long {
		return
	}
	for _, evidence := range c.Evidence {
		p.Item("  because: ", "%s", evidence)
	}
}

func (m Mended) String() string { return m.of("") }

func (m Mended) of(which string) string {
	text := fmt.Sprintf("%d of %d%s could be deleted", m.Free, m.Asked, which)
	if m.Unknown > 0 {
		text += fmt.Sprintf(", %d perhaps", m.Unknown)
	}
	return text
}

// Failing reports whether the scan is as bad as the limit on.
func (s *Scan) Failing(on string) bool {
	switch on {
	case FailNever:
		return false
	case FailBroken:
		return s.Interrupted != "" || slices.ContainsFunc(s.Causes, func(c Cause) bool { return c.Class == policies.Broken && c.Certainty == policies.Will })
	}
	return s.Verdict.Compare(policies.Verdict(on)) >= 0 || s.Interrupted != ""
}

const (
	FailNever  = "never"
	FailBroken = "broken" // something broken certainly blocks objects
)

// FailOn returns the values that Failing takes.
func FailOn() []string {
	return []string{FailBroken, string(policies.Refused), string(policies.Hangs), string(policies.AtRisk), string(policies.Unknown), FailNever}
}
