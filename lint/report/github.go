package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/lint/files"
)

// writeGitHub writes workflow commands, for annotations (docs.github.com, "Workflow commands for GitHub
// Actions").
func writeGitHub(r Report, out io.Writer) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		lines := append([]string{headline(f)}, details(f, occasion(f), "because: ", "way out: ")...)
		command := map[string]string{"error": "error", "warning": "warning", "note": "notice"}[level(f)]
		r.command(&b, command, f.Place, f.Policy, strings.Join(lines, "\n"))
	}
	for _, p := range r.Problems {
		r.command(&b, "error", p.Place, "broken input", p.Message)
	}
	for _, note := range r.Notes {
		r.command(&b, "notice", files.Place{}, "termguard", note)
	}
	_, err := out.Write(b.Bytes())
	return err
}

func (r Report) command(b *bytes.Buffer, command string, p files.Place, title, message string) {
	var properties []string
	add := func(key, value string) {
		properties = append(properties, key+"="+propertyEscaper.Replace(toPrintableLines(value)))
	}
	if p.File != "" && p.File != "-" {
		add("file", r.path(p.File))
	}
	if p.Line > 0 {
		add("line", fmt.Sprint(p.Line))
		if p.Column > 0 {
			add("col", fmt.Sprint(p.Column))
		}
		if p.EndColumn > p.Column {
			add("endColumn", fmt.Sprint(p.EndColumn))
		}
	}
	add("title", title)
	fmt.Fprintf(b, "::%s %s::%s\n", command, strings.Join(properties, ","), dataEscaper.Replace(toPrintableLines(message)))
}

// The runner unescapes them (github.com/actions/toolkit, packages/core/src/command.ts).
var (
	dataEscaper     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscaper = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
