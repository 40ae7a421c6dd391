package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// The API server keeps warnings whole until they exceed 4096 characters together; then it cuts each at 256
// (k8s.io/apiserver/pkg/endpoints/filters/warning.go). People do not read more than 15 lines.
const (
	maxLines    = 15
	maxLine     = 256  // characters
	maxOfPolicy = 4    // lines with one certainty
	maxNotices  = 3    // lines
	maxNames    = 3    // in a warning
	maxReason   = 1024 // characters, in the audit log
)

// runbooksURL is for users without the command line tool.
const runbooksURL = "https://github.com/termguard/termguard/blob/main/docs/runbooks.md"

func warnings(r *question.Request, findings []policies.Finding, omitted int, notices []string, showNames bool) []string {
	var last []string
	for _, notice := range notices[:min(maxNotices, len(notices))] {
		last = append(last, warningLine(notice, ""))
	}
	if len(findings) > 0 {
		next := `run "kubectl termguard check ` + targetOf(r) + `" for evidence and the safe way out`
		if withLink := next + ", or see " + runbooksURL; utf8.RuneCountInString(warningLine(withLink, "")) < maxLine { // a truncated link is useless
			next = withLink
		}
		last = append(last, warningLine(next, ""))
	}
	var lines []string
	room := maxLines - len(last)
	all := findingLines(r, findings, showNames)
	for i, l := range all {
		if len(all)+min(omitted, 1) > room && i == room-1 {
			for _, rest := range all[i:] {
				omitted += rest.findings
			}
			break
		}
		lines = append(lines, l.text)
	}
	if omitted > 0 {
		lines = append(lines, warningLine(page.More(omitted, "finding"), ""))
	}
	return append(lines, last...)
}

type findingLine struct {
	text     string
	findings int
}

// Beyond maxOfPolicy, a policy's findings share a line with their number.
func findingLines(r *question.Request, findings []policies.Finding, showNames bool) (lines []findingLine) {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b policies.Finding) int {
		return cmp.Or(cmp.Compare(b.Certainty, a.Certainty), a.Severity.Compare(b.Severity)) // "will" is more than "may"
	})
	type group struct{ prefix, policy string }
	of := map[group][]int{}
	seen := map[string]bool{}
	for _, f := range sorted {
		key := f.Says() + "\x00" + f.Policy + "\x00" + f.Message
		if seen[key] {
			continue
		}
		seen[key] = true
		g := group{prefix(r, f), f.Policy}
		if all := of[g]; len(all) == maxOfPolicy {
			last := &lines[all[maxOfPolicy-1]]
			last.findings++
			last.text = warningLine(g.prefix+page.More(last.findings, "finding"), f.Policy)
			continue
		}
		of[g] = append(of[g], len(lines))
		lines = append(lines, findingLine{warningLine(g.prefix+f.Message+objectNames(r, f, showNames), f.Policy), 1})
	}
	return lines
}

// prefix is a finding's effect, none if informational. An edit of finalizers does not hang, but may be
// unsafe.
func prefix(r *question.Request, f policies.Finding) string {
	switch {
	case f.Severity == policies.Info:
		return ""
	case f.Kind == policies.KindHang && r.EditsFinalizers() && f.Certainty == policies.Will:
		return "unsafe: "
	case f.Kind == policies.KindHang && r.EditsFinalizers():
		return "may be unsafe: "
	default:
		return f.Says() + ": "
	}
}

// Only blockers in the request's namespace are named.
func objectNames(r *question.Request, f policies.Finding, show bool) string {
	if !show {
		return ""
	}
	namespace, name := r.Within(), r.Key().Name
	var names []string
	for _, o := range f.Objects {
		if o.Namespace == "" || o.Namespace != namespace || o.Resource == r.GroupResource().String() && o.Name == name {
			continue
		}
		if len(names) == maxNames {
			names = append(names, "…")
			break
		}
		names = append(names, o.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func warningLine(text, policy string) string {
	end := ""
	if policy != "" {
		end = policies.WarningEnd(policy)
	}
	return policies.WarningStart + printable.Cut(printable.Line(text), maxLine-utf8.RuneCountInString(policies.WarningStart+end)) + end
}

func targetOf(r *question.Request) string {
	key := r.Key()
	target := shell.Quote(r.GroupResource().String() + "/" + key.Name)
	if key.Namespace != "" {
		target += " -n " + shell.Quote(key.Namespace)
	}
	return target
}

func refusal(r *question.Request, why []policies.Finding, isTrusted bool) string {
	others := ""
	if n := len(why) - 1; n > 0 {
		others = " (" + page.More(n, "finding") + ")"
	}
	what := "deleting"
	if r.EditsFinalizers() {
		what = "changing the finalizers of"
	}
	force := fmt.Sprintf("kubectl annotate %s %s='REASON'", targetOf(r), AllowAnnotation)
	if !isTrusted {
		force = "contact an administrator whom termguard's configuration trusts (trustAnnotations)"
	}
	return printable.Line(fmt.Sprintf("termguard: %s %s is refused: %s%s%s [%s]. Evidence and the safe way out: kubectl termguard check %s, or see %s. To go ahead all the same: %s",
		what, r.GroupResource().String()+"/"+r.Key().Name, prefix(r, why[0]), printable.Cut(why[0].Message, maxLine), others, why[0].Policy, targetOf(r), runbooksURL, force))
}
