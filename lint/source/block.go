package source

import (
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// parseBlock returns the root of a document in the YAML that most manifests are
// written in: ASCII, block mappings with plain keys, block sequences, literals,
// and on one line scalars, and sequences of them in brackets. It takes a fifth of the time of the parser of all of
// YAML, to which ok false leaves what is anything else, and what is broken. The
// nodes are those that it would make, but for comments, which lint does not read.
//
// The nodes are in slabs, which recycle takes back.
func parseBlock(text []byte) (root *yaml.Node, slabs []*slab, ok bool) {
	for _, c := range text {
		if c != '\n' && (c < ' ' || c > '~') {
			return nil, nil, false
		}
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return nil, nil, false // the end of a literal depends on it
	}
	p := &blockParser{text: string(text)}
	p.next()
	if p.indent == 0 && p.content() == "---" {
		p.next()
	}
	if p.indent != 0 {
		return nil, nil, false
	}
	root = p.mapping(0, 0)
	if p.failed || p.start < len(p.text) {
		recycle(p.slabs)
		return nil, nil, false
	}
	return root, p.slabs, true
}

// slab is nodes that are made, and done with, together: they were a seventh of what a
// run allocates.
type slab [64]yaml.Node

var slabs = sync.Pool{New: func() any { return new(slab) }}

// recycle has nodes used again, which nobody may hold any more.
func recycle(done []*slab) {
	for _, s := range done {
		clear(s[:])
		slabs.Put(s)
	}
}

// blockParser stands on a line that holds something, or behind the last.
type blockParser struct {
	text   string
	start  int // of the line, in text
	end    int // of it, where its line break is
	line   int // from 1
	indent int // of what it holds; -1 behind the last line
	at     int // offset at which its rest begins
	failed bool

	nodes []yaml.Node  // to hand out
	slabs []*slab      // that are in use
	stack []*yaml.Node // children of the nodes that are open
}

// maxBlocks bounds how deep blocks nest.
const maxBlocks = 100

// next goes on to the next line that holds more than a comment.
func (p *blockParser) next() {
	if p.line > 0 {
		p.start = min(p.end+1, len(p.text))
	}
	for p.start < len(p.text) {
		p.take()
		if rest := p.text[p.at:p.end]; rest != "" && rest[0] != '#' {
			return
		}
		p.start = p.end + 1
	}
	p.start, p.end, p.at, p.indent = len(p.text), len(p.text), len(p.text), -1
}

// take takes in the line that begins at start.
func (p *blockParser) take() {
	p.line++
	p.end = p.start + strings.IndexByte(p.text[p.start:], '\n')
	for p.at = p.start; p.at < p.end && p.text[p.at] == ' '; p.at++ {
	}
	p.indent = p.at - p.start
}

// content is what the line still holds, without what is behind it.
func (p *blockParser) content() string {
	rest := p.text[p.at:p.end]
	if i := strings.Index(rest, " #"); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimRight(rest, " ")
}

func (p *blockParser) fail() *yaml.Node {
	p.failed = true
	return &yaml.Node{}
}

// node is a new one at an offset of the line.
func (p *blockParser) node(kind yaml.Kind, tag string, at int) *yaml.Node {
	if len(p.nodes) == 0 {
		ahead := p.text[p.start:min(len(p.text), p.start+4096)]
		if n := 2 + strings.Count(ahead, "\n")*9/4; n < len(slab{}) {
			p.nodes = make([]yaml.Node, n)
		} else {
			s := slabs.Get().(*slab)
			p.slabs, p.nodes = append(p.slabs, s), s[:]
		}
	}
	n := &p.nodes[0]
	p.nodes = p.nodes[1:]
	n.Kind, n.Tag, n.Line, n.Column = kind, tag, p.line, at-p.start+1
	return n
}

// close gives a node the children that were collected since the stack had a length.
func (p *blockParser) close(n *yaml.Node, open int) *yaml.Node {
	n.Content = append(make([]*yaml.Node, 0, len(p.stack)-open), p.stack[open:]...)
	p.stack = p.stack[:open]
	return n
}

// mapping reads the entries in a column: the first is where the line stands.
func (p *blockParser) mapping(column, depth int) *yaml.Node {
	n, open := p.node(yaml.MappingNode, "!!map", p.at), len(p.stack)
	for first := true; !p.failed && (first || p.indent == column); first = false {
		length := 0
		for length < p.end-p.at && isKey(p.text[p.at+length]) {
			length++
		}
		behind := p.at + length
		if length == 0 || length > 256 || p.text[p.at] == '-' || behind == p.end || p.text[behind] != ':' || behind+1 < p.end && p.text[behind+1] != ' ' {
			return p.fail()
		}
		key := p.plain(p.text[p.at:behind])
		p.stack = append(p.stack, key)
		p.at = behind + 1
		p.stack = append(p.stack, p.value(column, depth, true))
	}
	if p.indent > column {
		return p.fail()
	}
	return p.close(n, open)
}

// sequence reads the items in a column: the first is where the line stands.
func (p *blockParser) sequence(column, depth int) *yaml.Node {
	n, open := p.node(yaml.SequenceNode, "!!seq", p.at), len(p.stack)
	for !p.failed && p.indent == column && p.item() {
		p.at++
		p.stack = append(p.stack, p.value(column, depth, false))
	}
	if p.indent > column {
		return p.fail()
	}
	return p.close(n, open)
}

// item tells whether the rest of the line is one of a sequence.
func (p *blockParser) item() bool {
	return p.at < p.end && p.text[p.at] == '-' && (p.at+1 == p.end || p.text[p.at+1] == ' ')
}

// value reads what stands behind a key or a dash, of a block in a column.
func (p *blockParser) value(column, depth int, ofKey bool) *yaml.Node {
	if depth > maxBlocks {
		return p.fail()
	}
	indicator := p.at
	p.blanks()
	if p.at == p.end || p.text[p.at] == '#' && p.at > indicator {
		empty := p.node(yaml.ScalarNode, "!!null", indicator)
		p.next()
		switch {
		case p.indent > column && p.item(), ofKey && p.indent == column && p.item():
			return p.sequence(p.indent, depth+1)
		case p.indent > column:
			return p.mapping(p.indent, depth+1)
		}
		return empty
	}
	switch c := p.text[p.at]; {
	case c == '|':
		return p.literal(column)
	case c == '"' || c == '\'':
		return p.quoted(c)
	case c == '{' || c == '[':
		return p.flow()
	case !isFirst(c) && !(c == '-' && p.at+1 < p.end && p.text[p.at+1] != ' '):
		return p.fail()
	}
	plain := p.content()
	if strings.Contains(plain, ": ") || strings.HasSuffix(plain, ":") {
		if ofKey {
			return p.fail()
		}
		return p.mapping(p.at-p.start, depth+1)
	}
	n := p.plain(plain)
	p.next()
	return n
}

// plain is a scalar without quotes, which stands where the line does.
func (p *blockParser) plain(value string) *yaml.Node {
	n := p.node(yaml.ScalarNode, "!!str", p.at)
	n.Value = value
	switch first := value[0]; {
	case '0' <= first && first <= '9':
		n.Tag = number(value)
	case first == '.' && len(value) > 1 && strings.IndexByte("0123456789iInN_+-", value[1]) < 0: // as .spec
	case first == '.', first == '+', first == '-' && len(value) > 1 && (value[1] == '.' || value[1] == '_' || '0' <= value[1] && value[1] <= '9'):
		n.Tag = resolvedTag(value)
	case strings.IndexByte("tTfFnN~", first) >= 0 && len(value) <= len("false"):
		switch value {
		case "true", "True", "TRUE", "false", "False", "FALSE":
			n.Tag = "!!bool"
		case "null", "Null", "NULL", "~":
			n.Tag = "!!null"
		}
	}
	return n
}

// number is the tag of a plain scalar that starts with a digit.
func number(value string) string {
	decimal := strings.TrimLeft(value, "0123456789") == ""
	switch {
	case decimal && len(value) < 19 && (value[0] != '0' || len(value) == 1):
		return "!!int"
	case strings.Count(value, ".") > 1: // as 1.15.1
	case len(value) > 4 && value[4] == '-', strings.Trim(value, "0123456789abcdefABCDEFxXoO_.+-") == "":
		return resolvedTag(value) // a time, or of another base
	}
	return "!!str" // as 500m
}

// resolvedTag is what the parser of all of YAML makes of a scalar that may be a number.
func resolvedTag(value string) string {
	var document yaml.Node
	if yaml.Unmarshal([]byte(value), &document) != nil || len(document.Content) == 0 {
		return "!!str"
	}
	return document.Content[0].Tag
}

// quoted reads a scalar in quotes without escapes, and what is behind it.
func (p *blockParser) quoted(quote byte) *yaml.Node {
	return p.last(p.enclosed(quote))
}

// enclosed reads a scalar in quotes without escapes.
func (p *blockParser) enclosed(quote byte) *yaml.Node {
	n := p.node(yaml.ScalarNode, "!!str", p.at)
	n.Style = yaml.DoubleQuotedStyle
	if quote == '\'' {
		n.Style = yaml.SingleQuotedStyle
	}
	length := strings.IndexByte(p.text[p.at+1:p.end], quote)
	if length < 0 {
		return p.fail()
	}
	n.Value = p.text[p.at+1 : p.at+1+length]
	p.at += length + 2
	if quote == '"' && strings.IndexByte(n.Value, '\\') >= 0 {
		return p.fail()
	}
	return n
}

// last is a node behind which the line holds nothing but a comment.
func (p *blockParser) last(n *yaml.Node) *yaml.Node {
	if p.failed || p.at < p.end && p.text[p.at] != ' ' || p.content() != "" {
		return p.fail() // as with '' in it, or : behind it
	}
	p.next()
	return n
}

// flow reads what stands in brackets on one line: nothing, or a sequence of scalars.
func (p *blockParser) flow() *yaml.Node {
	n, open := p.node(yaml.SequenceNode, "!!seq", p.at), len(p.stack)
	n.Style = yaml.FlowStyle
	switch p.content() {
	case "{}":
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		p.next()
		return n
	case "[]":
		p.next()
		return n
	}
	if p.text[p.at] == '{' {
		return p.fail()
	}
	for first := true; first || p.at < p.end && p.text[p.at] == ','; first = false {
		p.at++
		p.blanks()
		p.stack = append(p.stack, p.inFlow())
		p.blanks()
	}
	if p.failed || p.at == p.end || p.text[p.at] != ']' {
		return p.fail()
	}
	p.at++
	return p.last(p.close(n, open))
}

// inFlow reads a scalar of a sequence in brackets.
func (p *blockParser) inFlow() *yaml.Node {
	if p.at < p.end && (p.text[p.at] == '"' || p.text[p.at] == '\'') {
		return p.enclosed(p.text[p.at])
	}
	length := 0
	for p.at+length < p.end && isKey(p.text[p.at+length]) {
		length++
	}
	if length == 0 || p.text[p.at] == '-' {
		return p.fail()
	}
	n := p.plain(p.text[p.at : p.at+length])
	p.at += length
	return n
}

func (p *blockParser) blanks() {
	for p.at < p.end && p.text[p.at] == ' ' {
		p.at++
	}
}

// literal reads the lines of one below a block in a column.
func (p *blockParser) literal(column int) *yaml.Node {
	n := p.node(yaml.ScalarNode, "!!str", p.at)
	n.Style = yaml.LiteralStyle
	header := strings.TrimRight(p.text[p.at:p.end], " ")
	if header != "|" && header != "|-" {
		return p.fail()
	}
	var value strings.Builder
	indent, breaks := 0, 0 // those that nothing has followed yet
	ended := false
	for p.start = p.end + 1; p.start < len(p.text); p.start = p.end + 1 {
		p.take()
		blank := p.at == p.end
		if blank && indent == 0 && p.indent > column+1 {
			return p.fail() // more spaces, it may be, than the first line has
		}
		if blank && (indent == 0 || p.indent <= indent) {
			breaks++
			continue
		}
		if indent == 0 && p.indent > column {
			indent = p.indent
		}
		if ended = indent == 0 || !blank && p.indent < indent; ended {
			break
		}
		for ; breaks > 0; breaks-- {
			value.WriteByte('\n')
		}
		value.WriteString(p.text[p.start+indent : p.end])
		breaks = 1
	}
	if indent == 0 {
		return p.fail()
	}
	if header == "|" {
		value.WriteByte('\n')
	}
	n.Value = value.String()
	if !ended || p.text[p.at] == '#' {
		p.next()
	}
	return n
}

// isKey tells of which characters plain keys consist here.
func isKey(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '/' || c == '-'
}

// isFirst tells with which characters plain scalars start here.
func isFirst(c byte) bool { return c != '-' && isKey(c) || strings.IndexByte("$+(~\\;^", c) >= 0 }
