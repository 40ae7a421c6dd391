package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// width bounds the lines of remedies, in characters.
const width = 100

// maxSource bounds the shown part of a line, in characters.
const maxSource = 160

// Text returns the format for people. It begins and ends with the summary: some readers see only the end.
func Text(color bool) Format {
	return func(r Report, out io.Writer) error {
		p := &page.Page{}
		if len(r.Findings)+len(r.Problems) > 1 {
			p.Line("%s", r.Summary())
			p.Blank()
		}
		places := map[string]string{} // of remedies: each is written once, and --explain shows the policy's
		for _, f := range r.Findings {
			wayOut := f.Remedy
			if first, again := places[f.Remedy]; !again {
				places[f.Remedy] = placeText(f.Place)
			} else if wayOut = "as at " + first; r.explains(f) {
				wayOut = "as above; see termguard lint --explain " + f.Policy
			}
			addFinding(p, f, wayOut)
		}
		for _, problem := range r.Problems {
			p.Verdict(placeText(problem.Place)+": ", "error:", page.Bad, " "+problem.Message)
			addSource(p, problem.Place, page.Bad)
			p.Blank()
		}
		for _, note := range r.Notes {
			p.Filled("", "  ", "note: "+note, width)
		}
		p.Line("%s", r.Summary())
		return p.Write(out, page.Style{Color: color})
	}
}

// explains reports whether a finding's remedy is its policy's.
func (r Report) explains(f lint.Finding) bool {
	return slices.ContainsFunc(r.Policies, func(p policies.Policy) bool {
		return p.ID == f.Policy && slices.Contains([]string{p.Remedy, p.Manifest.Remedy}, f.Remedy)
	})
}

func addFinding(p *page.Page, f lint.Finding, wayOut string) {
	tone := map[string]page.Tone{"error": page.Bad, "warning": page.Doubtful}[level(f)]
	p.Verdict(placeText(f.Place)+": ", string(f.Severity)+":", tone, fmt.Sprintf(" %s [%s]", headline(f), f.Policy))
	addSource(p, f.Place, tone)
	if f.Place.Rendered != "" {
		p.Line("  rendered from %s", f.Place.Rendered)
	}
	if moment := occasion(f); moment != "" {
		p.Line("  %s", moment)
	}
	for _, e := range f.Evidence {
		p.Filled("  because: ", "    ", e, width)
	}
	if wayOut != "" {
		p.Filled("  way out: ", "    ", wayOut, width)
	}
	p.Blank()
}

// addSource shows a place's line, and marks the place.
func addSource(p *page.Page, at files.Place, tone page.Tone) {
	if at.Source == "" || at.Line < 1 {
		return
	}
	line := []rune(at.Source)
	from := min(max(at.Column-1, 0), len(line))
	if len(line) > maxSource {
		start := max(0, min(from-maxSource/4, len(line)-maxSource))
		line, from = line[start:start+maxSource], from-start
		if start > 0 {
			line, from = append([]rune("…"), line...), from+1
		}
	}
	p.Excerpt(at.Line, string(line), from, max(min(at.EndColumn-at.Column, len(line)-from), 1), tone)
}

// Problem returns a problem in one line.
func Problem(p files.Problem) string {
	return printable.But(placeText(p.Place)+": error: "+p.Message, "\t")
}

// placeText returns file:line:col, as editors understand it.
func placeText(p files.Place) string {
	file := p.File
	if file == "-" {
		file = stdin
	}
	switch {
	case p.Line < 1:
		return file
	case p.Column < 1:
		return fmt.Sprintf("%s:%d", file, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
}
