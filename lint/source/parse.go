package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// syntaxError is an error at a line of a document's text.
type syntaxError struct {
	line    int // from 1
	column  int // from 1; 0 if unknown
	message string
}

func (e *syntaxError) Error() string { return e.message }

// parse returns the root of a document; nil for an empty one.
func parse(text []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, &syntaxError{line: 1, message: fmt.Sprintf("the YAML parser failed: %v", r)}
		}
	}()
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		if root, err := parseJSON(text); err == nil {
			return root, nil
		}
		// Flow-style YAML, or broken: the YAML parser knows the place.
	}
	var document yaml.Node
	err = yaml.Unmarshal(text, &document)
	for range maxComments {
		at := closeComment(err, text)
		if at < 0 {
			break
		}
		text = slices.Insert(bytes.Clone(text), at, ' ')
		document = yaml.Node{}
		err = yaml.Unmarshal(text, &document)
	}
	if err != nil {
		return nil, explainError(err, text)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return document.Content[0], nil
}

// maxComments bounds a document's comments without a space before them: each takes another parse.
const maxComments = 64

// closeComment returns the offset of a comment that the parser rejects for lack of a space before it, as
// kubectl does not; -1 for other errors.
func closeComment(err error, text []byte) int {
	var load *yaml.LoadError
	if !errors.As(err, &load) || !strings.Contains(load.Message, "comment without preceding whitespace") {
		return -1
	}
	starts := lineStarts(text)
	if load.Mark.Line > len(starts) {
		return -1
	}
	at := starts[load.Mark.Line-1]
	for column := 1; column < load.Mark.Column && at < len(text); column++ {
		_, n := utf8.DecodeRune(text[at:])
		at += n
	}
	return at
}

// explainError rewrites the parser's error for people, with its place.
func explainError(err error, text []byte) error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &syntaxError{line: 1, message: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	mark, message := load.Mark, load.Message
	switch {
	case strings.Contains(message, "end of stream") && load.ContextMark.Line > 0:
		mark = load.ContextMark // where the quotes were opened
		message = "the quotes that are opened here are not closed"
	case strings.Contains(message, "could not find expected ':'") && load.ContextMark.Line > 0:
		mark = load.ContextMark
		message = "a key without a colon"
	case (strings.Contains(message, "',' or ']'") || strings.Contains(message, "',' or '}'")) && load.ContextMark.Line > 0 && load.ContextMark.Line < mark.Line:
		mark = load.ContextMark
		message = "the bracket that is opened here is not closed"
	case strings.Contains(message, "cannot start any token"):
		if starts := lineStarts(text); bytes.HasPrefix(bytes.TrimLeft(text[starts[min(mark.Line, len(starts))-1]:], " "), []byte("\t")) {
			message = "a tab cannot indent: use spaces"
		}
	}
	return &syntaxError{line: max(mark.Line, 1), column: mark.Column, message: message}
}

// ErrTemplate is returned for an object that is valid YAML, but a template.
var ErrTemplate = errors.New("a mapping as key, as in a template")

var (
	errBomb  = errors.New("its aliases expand to more than 100000 nodes: write out what they stand for")
	errCycle = errors.New("an alias stands inside the anchor that it refers to")
	errDepth = errors.New("it nests deeper than 1000 levels")
)

// expander turns nodes into the values that the API server would see.
type expander struct {
	text       *Text
	aliasNodes int // nodes that aliases have added
	aliases    []*yaml.Node
	depth      int
	hasNull    bool // there was a null
}

// add counts nodes that aliases add to an object, and to its document.
func (e *expander) add(n int) error {
	e.aliasNodes += n
	e.text.aliasNodes += n
	if e.aliasNodes > maxExpanded || e.text.aliasNodes > maxExpanded+4*len(e.text.bytes) {
		return errBomb
	}
	return nil
}

const maxDepth = 1000

func (e *expander) value(node *yaml.Node) (any, error) {
	if e.depth++; e.depth > maxDepth {
		return nil, errDepth
	}
	defer func() { e.depth-- }()
	if len(e.aliases) > 0 {
		if err := e.add(1); err != nil {
			return nil, err
		}
	}
	switch node.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(node.Content)/2)
		return m, e.fill(m, node, false)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, child := range node.Content {
			var err error
			if list[i], err = e.value(child); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.AliasNode:
		if slices.Contains(e.aliases, node.Alias) {
			return nil, errCycle
		}
		e.aliases = append(e.aliases, node.Alias)
		defer func() { e.aliases = e.aliases[:len(e.aliases)-1] }()
		return e.value(node.Alias)
	}
	return scalar(node), nil
}

// fill puts the entries of a mapping into m: first its own, then merged ones
// (https://yaml.org/type/merge.html). Nulls are left out: to the API server they are absent.
func (e *expander) fill(m map[string]any, node *yaml.Node, merged bool) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return ErrTemplate
		}
		if isMerge(key) {
			continue
		}
		if _, ok := m[key.Value]; ok && merged {
			continue
		}
		v, err := e.value(node.Content[i+1])
		if err != nil {
			return err
		}
		e.hasNull = e.hasNull || v == nil
		m[strings.Clone(key.Value)] = v
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if isMerge(node.Content[i]) {
			if err := e.merge(m, node.Content[i+1]); err != nil {
				return err
			}
		}
	}
	if e.hasNull && !merged {
		maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	}
	return nil
}

func (e *expander) merge(m map[string]any, node *yaml.Node) error {
	if e.depth++; e.depth > maxDepth {
		return errDepth
	}
	defer func() { e.depth-- }()
	if err := e.add(1); err != nil {
		return err
	}
	switch node.Kind {
	case yaml.AliasNode:
		if slices.Contains(e.aliases, node.Alias) {
			return errCycle
		}
		e.aliases = append(e.aliases, node.Alias)
		defer func() { e.aliases = e.aliases[:len(e.aliases)-1] }()
		return e.merge(m, node.Alias)
	case yaml.SequenceNode:
		for _, child := range node.Content {
			if err := e.merge(m, child); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if err := e.add(len(node.Content)); err != nil {
			return err
		}
		return e.fill(m, node, true)
	}
	return nil
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Tag == "!!merge" || key.Tag == "" || key.Style == 0)
}

// scalar returns a value as JSON has it. Other types, such as a time, stay text.
func scalar(node *yaml.Node) any {
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if node.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if node.Decode(&i) == nil {
			return i
		}
		var f float64
		if node.Decode(&f) == nil {
			return f
		}
	case "!!float":
		var f float64
		if node.Decode(&f) == nil && f-f == 0 { // JSON has neither NaN nor infinity
			return f
		}
	}
	return strings.Clone(node.Value) // it may share memory with the document
}
