package files

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

type syntaxError struct {
	line    int // from 1
	column  int // 0 if unknown
	message string
}

func (e *syntaxError) Error() string { return e.message }

// parse returns nil for an empty document.
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
	root = document.Content[0]
	if bytes.IndexByte(text, '&') >= 0 || bytes.Contains(text, []byte("<<")) {
		in := inliner{sizes: map[*yaml.Node]int{}, limit: maxExpanded + 4*len(text)}
		if _, err := in.inline(root); err != nil {
			return nil, &syntaxError{line: root.Line, column: root.Column, message: err.Error()}
		}
	}
	return root, nil
}

// maxComments bounds comments without a space before them: each takes another parse.
const maxComments = 64

// closeComment returns the offset of a comment that the parser, unlike kubectl, rejects for lack of a space
// before it, or -1.
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

// ErrTemplate is for valid YAML that is a template.
var ErrTemplate = errors.New("a mapping as key, as in a template")

var (
	errBomb  = errors.New("its aliases expand to more than 100000 nodes: write them out")
	errCycle = errors.New("an alias stands inside the anchor that it refers to")
	errDepth = errors.New("it nests deeper than 1000 levels")
)

// maxExpanded bounds, in nodes, the expansion of aliases beyond four times a document's bytes: a bomb repeats
// itself by powers of ten.
const maxExpanded = 100_000

// inliner replaces aliases by copies, at their own place, and merge keys by the entries that a mapping lacks
// (https://yaml.org/type/merge.html).
type inliner struct {
	sizes map[*yaml.Node]int // nodes below each, with aliases'; 0 while counting
	limit int
}

func (in *inliner) inline(node *yaml.Node) (size int, err error) {
	if size, seen := in.sizes[node]; seen && size == 0 {
		return 0, errCycle
	} else if seen {
		return size, nil
	}
	in.sizes[node] = 0
	size = 1
	merges := false
	for i, child := range node.Content {
		target := child
		if child.Kind == yaml.AliasNode {
			target = child.Alias
		}
		below, err := in.inline(target)
		if err != nil {
			return 0, err
		}
		if target != child {
			copied := *target
			copied.Line, copied.Column = child.Line, child.Column
			node.Content[i] = &copied
		}
		merges = merges || node.Kind == yaml.MappingNode && i%2 == 0 && isMerge(child)
		if size += below; size > in.limit {
			return 0, errBomb
		}
	}
	if merges {
		if size += in.merge(node); size > in.limit {
			return 0, errBomb
		}
	}
	in.sizes[node] = size
	return size, nil
}

func (in *inliner) merge(node *yaml.Node) (steps int) {
	var own, sources []*yaml.Node
	keys := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case !isMerge(key):
			own = append(own, key, value)
			keys[key.Value] = true
		case value.Kind == yaml.SequenceNode:
			sources = append(sources, value.Content...)
		default:
			sources = append(sources, value)
		}
	}
	for _, source := range sources {
		if source.Kind != yaml.MappingNode {
			continue
		}
		steps += len(source.Content)
		for i := 0; i+1 < len(source.Content); i += 2 {
			if key := source.Content[i]; !keys[key.Value] {
				keys[key.Value] = true
				own = append(own, key, source.Content[i+1])
			}
		}
	}
	node.Content = own
	return steps
}

const maxDepth = 1000

func value(node *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch node.Kind {
	case yaml.MappingNode:
		return mapping(node, depth)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, child := range node.Content {
			var err error
			if list[i], err = value(child, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return scalar(node), nil
}

// mapping omits nulls, as the API server does.
func mapping(node *yaml.Node, depth int) (map[string]any, error) {
	m := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, ErrTemplate
		}
		v, err := value(node.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if v == nil {
			delete(m, key.Value)
		} else {
			m[strings.Clone(key.Value)] = v
		}
	}
	return m, nil
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Tag == "!!merge" || key.Tag == "" || key.Style == 0)
}

// scalar returns a value as JSON has it; other types, such as a time, stay text.
func scalar(node *yaml.Node) any {
	var value any
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		_ = node.Decode(&value) // else it stays text
	}
	switch value := value.(type) {
	case bool:
		return value
	case int:
		return int64(value)
	case int64:
		return value
	case uint64:
		return float64(value)
	case float64:
		if value-value == 0 { // JSON has neither NaN nor infinity
			return value
		}
	}
	return strings.Clone(node.Value) // it may share memory with the document
}
