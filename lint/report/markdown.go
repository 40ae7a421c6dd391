package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/lint"
)

// maxRows and maxCell, in characters, keep Markdown below the 1 MiB that GitHub
// takes of a step:
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
const (
	maxRows = 300
	maxCell = 400
)

// writeMarkdown writes the summary and a table, as for the page of a run of GitHub
// Actions.
func writeMarkdown(r Report, out io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### termguard lint\n\n%s\n", cell(r.Summary()))
	rows := 0
	row := func(severity string, p lint.Place, what, wayOut string) {
		if rows++; rows == 1 {
			b.WriteString("\n| severity | where | what | way out |\n|---|---|---|---|\n")
		}
		if rows <= maxRows {
			p.File = r.path(p.File)
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", severity, cell(where(p)), cell(what), cell(wayOut))
		}
	}
	for _, f := range r.Findings {
		row(string(f.Severity), f.Place, says(f)+" ["+f.Policy+"]", f.Remedy)
	}
	for _, p := range r.Problems {
		row("error", p.Place, p.Message, "")
	}
	if rows > maxRows {
		fmt.Fprintf(&b, "\n%d more are in the log.\n", rows-maxRows)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", cell(note))
	}
	_, err := out.Write(b.Bytes())
	return err
}

// cell is text in one line of a table.
func cell(text string) string {
	text = visible(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text))
	if runes := []rune(text); len(runes) > maxCell {
		text = string(runes[:maxCell-1]) + "…"
	}
	return printable.Markdown(text)
}
