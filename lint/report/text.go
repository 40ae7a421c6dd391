package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Text writes a report for people.
type Text struct {
	Color bool
}

// width bounds the lines of remedies, in characters.
const width = 100

// maxSource bounds the shown part of a line, in characters.
const maxSource = 160

// Write begins and ends with the summary: some readers see only the end.
func (t Text) Write(r Report, out io.Writer) error {
	var b bytes.Buffer
	// A remedy is written once; --explain shows the policy's.
	places := map[string]string{}
	if len(r.Findings)+len(r.Problems) > 1 {
		fmt.Fprintf(&b, "%s\n\n", r.Summary())
	}
	for _, f := range r.Findings {
		wayOut := f.Remedy
		if first, ok := places[f.Remedy]; ok {
			wayOut = "as at " + first
			if slices.ContainsFunc(r.Policies, func(p policies.Policy) bool {
				return p.ID == f.Policy && slices.Contains([]string{p.Remedy, p.Manifest.Remedy}, f.Remedy)
			}) {
				wayOut = "as above; see termguard lint --explain " + f.Policy
			}
		} else {
			places[f.Remedy] = placeText(f.Place)
		}
		t.finding(&b, f, wayOut)
		b.WriteByte('\n')
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s: %s %s\n", t.bold(placeText(p.Place)), t.paint(red, "error:"), toPrintable(p.Message))
		t.source(&b, p.Place, red)
		b.WriteByte('\n')
	}
	for _, note := range r.Notes {
		b.WriteString(fill("note: "+toPrintable(note), "", "  "))
	}
	fmt.Fprintln(&b, r.Summary())
	_, err := out.Write(b.Bytes())
	return err
}

func (t Text) finding(b *bytes.Buffer, f lint.Finding, wayOut string) {
	color := colors[level(f)]
	fmt.Fprintf(b, "%s: %s: %s %s\n", t.bold(placeText(f.Place)), t.paint(color, string(f.Severity)), toPrintable(headline(f)), t.paint(faint, "["+f.Policy+"]"))
	t.source(b, f.Place, color)
	if f.Place.Rendered != "" {
		fmt.Fprintf(b, "  rendered from %s\n", toPrintable(f.Place.Rendered))
	}
	if moment := occasion(f); moment != "" {
		fmt.Fprintf(b, "  %s\n", toPrintable(moment))
	}
	for _, e := range f.Evidence {
		b.WriteString(fill(toPrintable(e), "  because: ", "    "))
	}
	if wayOut != "" {
		b.WriteString(fill(toPrintable(wayOut), "  way out: ", "    "))
	}
}

func (t Text) source(b *bytes.Buffer, p files.Place, color string) {
	if p.Source == "" || p.Line < 1 {
		return
	}
	line := []rune(toPrintable(p.Source))
	from := min(max(p.Column-1, 0), len(line))
	length := max(p.EndColumn-p.Column, 1)
	cut := ""
	if len(line) > maxSource {
		start := max(0, min(from-maxSource/4, len(line)-maxSource))
		line, from = line[start:start+maxSource], from-start
		if start > 0 {
			cut = "…"
		}
	}
	number := fmt.Sprintf("%5d", p.Line)
	fmt.Fprintf(b, "%s %s%s\n", t.paint(faint, number+" |"), cut, string(line))
	pad := strings.Map(func(r rune) rune { // keep tabs, so that the caret is below its text
		if r == '\t' {
			return r
		}
		return ' '
	}, cut+string(line[:from]))
	length = max(min(length, len(line)-from), 1)
	fmt.Fprintf(b, "%s %s%s\n", t.paint(faint, strings.Repeat(" ", len(number))+" |"), pad, t.paint(color, "^"+strings.Repeat("~", length-1)))
}

// Problem returns a problem in one line.
func Problem(p files.Problem) string {
	return placeText(p.Place) + ": error: " + toPrintable(p.Message)
}

// placeText returns file:line:col, as editors understand it.
func placeText(p files.Place) string {
	file := toPrintable(p.File)
	if p.File == "-" {
		file = stdin
	}
	switch {
	case p.Line < 1:
		return file
	case p.Column < 1:
		return fmt.Sprintf("%s:%d", file, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
	}
}

func fill(text, first, rest string) string { return page.Fill(text, first, rest, width) }

// Escapes of ECMA-48.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	faint  = "\x1b[2m"
	strong = "\x1b[1m"
	normal = "\x1b[0m"
)

var colors = map[string]string{"error": red, "warning": yellow, "note": blue}

func (t Text) paint(color, text string) string {
	if !t.Color {
		return text
	}
	return color + text + normal
}

func (t Text) bold(text string) string { return t.paint(strong, text) }
