package source

import (
	"bytes"
	"regexp"
)

// directives are what other template languages have where YAML has nothing: Go and
// Helm, Jinja, ERB, Terraform, FreeMarker.
var directives = [][]byte{[]byte("{{"), []byte("{%"), []byte("<%"), []byte("%{"), []byte("<#")}

// placeholder is what some tool fills in before anybody applies the file: ${x}, $x,
// %x%, %X, %%x%%, @x@, !X!, <x: y>, [[x]], {x}, {x[y]}, REPLACE_X, ****.
var placeholder = regexp.MustCompile(`\$\{[^}\n]*\}|\$[A-Za-z_]\w*|%{1,2}[A-Za-z_]\w*%{1,2}|%[A-Z][A-Z0-9_]*\b|![A-Z][A-Z0-9_]*!|\bREPLACE_[A-Z0-9_]+\b|@[A-Za-z_][\w.-]*@|<[A-Za-z_][^<>\n]*>|\*{3,}|\[\[[^\]\n]*\]\]|\{[A-Za-z_][\w.-]*(?:\[[\w.-]+\])*\}`)

// alone is a line that holds nothing else.
var alone = regexp.MustCompile(`(?m)^[ \t]*(?:` + placeholder.String() + `)[ \t]*\r?$`)

// fallback is a shell's ${x:-y}, where y takes several lines.
var fallback = regexp.MustCompile(`\$\{[A-Za-z_]\w*:?[-=+?][^{}]*\}`)

// template tells whether a text that is no YAML becomes some when it is rendered: it
// holds directives, or it parses once its placeholders are filled in.
func template(text []byte) bool {
	for _, directive := range directives {
		if bytes.Contains(text, directive) {
			return true
		}
	}
	if !placeholder.Match(text) {
		return false
	}
	_, err := parse(fallback.ReplaceAll(placeholder.ReplaceAll(alone.ReplaceAll(text, nil), []byte("x")), nil))
	return err == nil
}
