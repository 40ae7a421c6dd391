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
		p.Line("partial: %s", s.Interrupted)
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
			p.Line("%s: %s (--all)", headings[class], page.More(more, ""))
		}
	}
	var terminating []string
	for _, e := range s.Terminating() {
		terminating = append(terminating, fmt.Sprintf("%s  %s: %s", duration.HumanDuration(s.age(e)), e.Target.Ref(), why(e)))
	}
	section(&p, "Terminating now:", terminating, shownTerminating, long)
	section(&p, "unseen:", policies.UnseenTexts(s.Unseen), shownRest, long)
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
	if rest := len(lines) - most; rest > 0 && !long {
		lines = append(lines[:most:most], page.More(rest, "")+" (--all)")
	}
	for _, line := range lines {
		p.Item("  ", "%s", line)
	}
}

func (s *Scan) headline() string {
	total := s.Total()
	of := ""
	if s.Of != "" {
		of = s.Of + ": "
	}
	if total.Objects == 0 {
		return of + "nothing was checked"
	}
	kinds := kindsIn(s.byKind(), nil)
	if total.Completes == total.Objects {
		return fmt.Sprintf("%sall of %s could be deleted", of, kinds)
	}
	words := map[policies.Verdict]string{policies.Refused: "would be refused", policies.Hangs: "would hang", policies.AtRisk: "may hang", policies.Unknown: "unknown"}
	var parts []string
	for _, v := range verdicts {
		if n := *total.of(v); n > 0 && words[v] != "" {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[v]))
		}
	}
	return fmt.Sprintf("%s%d of %d could be deleted (%s); %s", of, total.Completes, total.Objects, kinds, strings.Join(parts, ", "))
}

func (s *Scan) byKind() map[Kind]int {
	byKind := map[Kind]int{}
	for _, c := range s.Counts {
		byKind[c.Kind] = c.Objects
	}
	return byKind
}

func (s *Scan) promise() string {
	var fixed []string
	for _, c := range s.Causes {
		if c.Class == policies.Broken && c.removable() {
			fixed = append(fixed, c.ID)
		}
	}
	return fmt.Sprintf("fixing %d of %s (%s) unblocks %s", len(fixed), page.Count(len(s.Causes), "root cause"), s.numbers(fixed), s.Mended)
}

// numbers names broken causes by their numbers in the output: they come first.
func (s *Scan) numbers(ids []string) string {
	var numbers []string
	for i, c := range s.Causes {
		if slices.Contains(ids, c.ID) {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	if last := len(numbers); last > 2 && numbers[last-1] == strconv.Itoa(last) { // all from 1 on
		numbers = []string{"1 to " + numbers[last-1]}
	}
	return "broken " + strings.Join(numbers, " and ")
}

func (s *Scan) fixing(c Cause) string {
	switch {
	case len(c.Mended.With) > 0:
		return fmt.Sprintf("fixing it together with %s unblocks %s", s.numbers(c.Mended.With), c.Mended)
	case c.Mended.Free == 0 && c.Mended.Unknown == 0:
		return "fixing it alone unblocks nothing: other causes block the same"
	}
	return fmt.Sprintf("fixing it unblocks %s", c.Mended)
}

func (c Cause) holding(all map[Kind]int) string {
	verb := "blocks"
	if c.Certainty != policies.Will {
		verb = "may block"
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
		holding += "; " + s.fixing(c)
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

func (m *Mended) String() string {
	text := fmt.Sprintf("%d of %s", m.Free, page.Count(m.Objects, "object"))
	if m.Unknown > 0 {
		text += fmt.Sprintf(", perhaps %d more", m.Unknown)
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

func FailOn() []string {
	return []string{FailBroken, string(policies.Refused), string(policies.Hangs), string(policies.AtRisk), string(policies.Unknown), FailNever}
}
