package files

import (
	"bytes"
	"regexp"
)

// directives are of Go and Helm, Jinja, ERB, Terraform, FreeMarker.
var directives = [][]byte{[]byte("{{"), []byte("{%"), []byte("<%"), []byte("%{"), []byte("<#")}

// placeholder matches text that a tool replaces.
var placeholder = regexp.MustCompile(`\$\{[^}\n]*\}|\$[A-Za-z_]\w*|%{1,2}[A-Za-z_]\w*%{1,2}|%[A-Z][A-Z0-9_]*\b|![A-Z][A-Z0-9_]*!|\bREPLACE_[A-Z0-9_]+\b|@[A-Za-z_][\w.-]*@|<[A-Za-z_][^<>\n]*>|\*{3,}|\[\[[^\]\n]*\]\]|\{[A-Za-z_][\w.-]*(?:\[[\w.-]+\])*\}`)

var placeholderLine = regexp.MustCompile(`(?m)^[ \t]*(?:` + placeholder.String() + `)[ \t]*\r?$`)

// shellDefault matches a shell's ${x:-y} with a y of several lines.
var shellDefault = regexp.MustCompile(`\$\{[A-Za-z_]\w*:?[-=+?][^{}]*\}`)

// isTemplate reports whether a text has directives, or is YAML once its placeholders are filled in.
func isTemplate(text []byte) bool {
	for _, directive := range directives {
		if bytes.Contains(text, directive) {
			return true
		}
	}
	if !placeholder.Match(text) {
		return false
	}
	_, err := parse(shellDefault.ReplaceAll(placeholder.ReplaceAll(placeholderLine.ReplaceAll(text, nil), []byte("x")), nil))
	return err == nil
}
