package source

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"

	"go.yaml.in/yaml/v4"
)

// Position is a place in a file.
type Position struct {
	Line, Column int // from 1; the column in characters
	EndColumn    int // behind the last character, on the same line; 0 where unknown
	Text         string
}

// Text is the text of a document, and where it stands in its file.
type Text struct {
	File   *File
	bytes  []byte
	line   int
	offset int64
	size   int64
	cuts   []cut
	source string
}

// Line of the file on which the document starts.
func (t *Text) Line() int { return t.line }

// position turns a line and column, as YAML counts them within the document,
// into those of the file, which only LF separates.
func (t *Text) position(line, column, width int) Position {
	start, end := lineBounds(t.bytes, line)
	at := start
	for ; column > 1 && at < end; column-- {
		_, n := utf8.DecodeRune(t.bytes[at:])
		at += n
	}
	return t.at(at, width)
}

// at is the position of an offset in the document's text.
func (t *Text) at(offset, width int) Position {
	if offset >= len(t.bytes) { // its end, which is not on the line of what follows
		offset = len(bytes.TrimRight(t.bytes, "\r\n"))
	}
	p := Position{Line: t.line + bytes.Count(t.bytes[:offset], []byte("\n"))}
	for _, c := range t.cuts {
		if c.at < offset {
			p.Line += c.lines
		}
	}
	start := bytes.LastIndexByte(t.bytes[:offset], '\n') + 1
	end := len(t.bytes)
	if i := bytes.IndexByte(t.bytes[start:], '\n'); i >= 0 {
		end = start + i
	}
	line := bytes.TrimSuffix(t.bytes[start:end], []byte("\r"))
	p.Text = string(line)
	p.Column = utf8.RuneCount(t.bytes[start:min(offset, start+len(line))]) + 1
	if width > 0 {
		p.EndColumn = min(p.Column+width, utf8.RuneCount(line)+1)
	}
	return p
}

// Object is a Kubernetes object in a document.
type Object struct {
	*Text
	APIVersion, Kind, Namespace, Name string
	// From and To are the first and the last line of the file that it is on.
	From, To int

	node *yaml.Node
}

// Value is the object as the API server would read it: all of it, or just the
// given keys.
func (o *Object) Value(keys ...string) (map[string]any, error) {
	m := map[string]any{}
	e := newExpander()
	if len(keys) == 0 {
		return m, e.fill(m, o.node, false)
	}
	for _, key := range keys {
		if _, node := step(o.node, key); node != nil {
			value, err := e.value(node)
			if err != nil {
				return nil, err
			}
			m[key] = value
		}
	}
	return m, nil
}

// Find returns the position of a field, as in "spec.finalizers[1]" or
// `metadata.annotations["a.b/c"]`, or of the last of it that the object has; of
// its name, where it has nothing of it.
func (o *Object) Find(field string) (p Position, exact bool) {
	segments := splitField(field)
	node, at, matched := o.node, o.node, 0
	for _, segment := range segments {
		key, value := step(node, segment)
		if value == nil {
			break
		}
		node, at = value, value
		if key != nil && value.Kind != yaml.ScalarNode {
			at = key // a mapping or a list stands behind its key
		}
		matched++
	}
	exact = matched > 0 && matched == len(segments)
	if matched <= 1 && !exact {
		return o.named(), false // all of its metadata or spec says nothing
	}
	return o.nodePosition(at), exact
}

// named is the position of the object's name; of its kind, where it has none.
func (o *Object) named() Position {
	if _, metadata := step(o.node, "metadata"); metadata != nil {
		for _, key := range []string{"name", "generateName"} {
			if _, name := step(metadata, key); name != nil {
				return o.nodePosition(name)
			}
		}
	}
	if _, kind := step(o.node, "kind"); kind != nil {
		return o.nodePosition(kind)
	}
	return o.nodePosition(o.node)
}

func (o *Object) nodePosition(node *yaml.Node) Position {
	line, column := node.Line, node.Column
	width := 0
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		width = utf8.RuneCountInString(node.Value)
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			width += 2
		}
	}
	return o.position(line, column, max(width, 1))
}

// step returns the entry of a node that a key or an index leads to, through
// aliases and merged mappings. key is nil for items of lists.
func step(node *yaml.Node, segment string) (key, value *yaml.Node) {
	for depth := 0; node != nil && node.Kind == yaml.AliasNode; node = node.Alias {
		if depth++; depth > 10 {
			return nil, nil
		}
	}
	if node == nil {
		return nil, nil
	}
	switch node.Kind {
	case yaml.SequenceNode:
		i, err := strconv.Atoi(segment)
		if err != nil || i < 0 || i >= len(node.Content) {
			return nil, nil
		}
		return nil, node.Content[i]
	case yaml.MappingNode:
		return entry(node, segment, 0)
	}
	return nil, nil
}

// entry finds a key of a mapping: the last of its own, for that is the one that
// counts, or else of what it merges.
func entry(node *yaml.Node, name string, depth int) (key, value *yaml.Node) {
	if depth > 10 {
		return nil, nil
	}
	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		if k := node.Content[i]; k.Kind == yaml.ScalarNode && k.Value == name && !isMerge(k) {
			return k, node.Content[i+1]
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if !isMerge(node.Content[i]) {
			continue
		}
		merged := []*yaml.Node{node.Content[i+1]}
		if merged[0].Kind == yaml.SequenceNode {
			merged = merged[0].Content
		}
		for _, m := range merged {
			if m.Kind == yaml.AliasNode {
				m = m.Alias
			}
			if m != nil && m.Kind == yaml.MappingNode {
				if k, v := entry(m, name, depth+1); v != nil {
					return k, v
				}
			}
		}
	}
	return nil, nil
}

// splitField splits a field path at dots and brackets.
func splitField(field string) []string {
	var segments []string
	for field != "" {
		switch {
		case field[0] == '.':
			field = field[1:]
		case strings.HasPrefix(field, `["`):
			end := strings.Index(field, `"]`)
			if end < 0 {
				return append(segments, field)
			}
			segments, field = append(segments, field[2:end]), field[end+2:]
		case field[0] == '[':
			end := strings.IndexByte(field, ']')
			if end < 0 {
				return append(segments, field)
			}
			segments, field = append(segments, field[1:end]), field[end+1:]
		default:
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			segments, field = append(segments, field[:end]), field[end:]
		}
	}
	return segments
}

// extent is where a node begins and ends, in lines as YAML counts them within
// the document: it ends where the next begins.
func extents(node *yaml.Node, last int, visit func(key, node *yaml.Node, from, to int)) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			to := last
			if i+2 < len(node.Content) {
				to = max(node.Content[i].Line, node.Content[i+2].Line-1)
			}
			visit(node.Content[i], node.Content[i+1], node.Content[i].Line, to)
			extents(node.Content[i+1], to, visit)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			to := last
			if i+1 < len(node.Content) {
				to = max(item.Line, node.Content[i+1].Line-1)
			}
			visit(nil, item, item.Line, to)
			extents(item, to, visit)
		}
	}
}

// Mark is a comment or annotation that asks not to hear something.
type Mark struct {
	Position
	Text     string
	From, To int // lines of the file that it holds for
}

var ignore = []byte("termguard:ignore")

// IgnoreAnnotation is the annotation of objects that findings are not wanted of.
const IgnoreAnnotation = "termguard.dev/ignore"

// marks finds the comments "# termguard:ignore TEXT" of a document. One behind
// something holds for the entry that it stands behind, with all that is below
// it; one on a line of its own for the entry that follows, or, before the first,
// for the whole document.
func (t *Text) marks(root *yaml.Node) []Mark {
	if !bytes.Contains(t.bytes, ignore) {
		return nil
	}
	var found []Mark
	lines := 1
	for start, end := lineBounds(t.bytes, lines); ; start, end = lineBounds(t.bytes, lines) {
		if m, ok := t.mark(root, lines, start, end); ok {
			found = append(found, m)
		}
		if end >= len(t.bytes) {
			return found
		}
		lines++
	}
}

func (t *Text) mark(root *yaml.Node, line, start, end int) (Mark, bool) {
	text := t.bytes[start:end]
	at := bytes.Index(text, ignore)
	if at < 0 {
		return Mark{}, false
	}
	hash := bytes.LastIndexByte(text[:at], '#')
	if hash < 0 || len(bytes.TrimLeft(text[hash:at], "# ")) > 0 || hash > 0 && text[hash-1] != ' ' && text[hash-1] != '\t' || inScalar(root, t.bytes, line, start+hash) {
		return Mark{}, false
	}
	own := len(bytes.TrimSpace(text[:hash])) == 0
	target := line
	if own {
		for target++; ; target++ {
			from, to := lineBounds(t.bytes, target)
			if to >= len(t.bytes) || len(trim(t.bytes[from:to])) > 0 && !marker(t.bytes[from:to], documentStart) {
				break
			}
		}
	}
	last := t.last()
	from, to := target, target
	if own && target <= root.Line {
		from, to = 1, last
	} else {
		done := false
		extents(root, last, func(_, _ *yaml.Node, first, end int) {
			if first == target && !done {
				from, to, done = first, end, true
			}
		})
	}
	return Mark{
		Position: t.at(start+hash, utf8.RuneCount(text[hash:])),
		Text:     strings.TrimSpace(string(text[at+len(ignore):])),
		From:     t.position(from, 1, 0).Line,
		To:       t.position(to, 1, 0).Line,
	}, true
}

// inScalar tells whether an offset is within a scalar rather than in a comment.
func inScalar(root *yaml.Node, text []byte, line, offset int) bool {
	inside := false
	last := bytes.Count(text, []byte("\n")) + 2
	extents(root, last, func(_, node *yaml.Node, _, to int) {
		if node.Kind != yaml.ScalarNode || line < node.Line || line > to {
			return
		}
		switch {
		case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
			inside = inside || line > node.Line && bytes.Contains([]byte(node.Value), ignore)
		case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && bytes.Contains([]byte(node.Value), ignore):
			inside = true
		}
	})
	_ = offset
	return inside
}

// objects finds the Kubernetes objects below the root of a document: itself, or
// the items of a List, or the values of a stream. plain counts what is none.
func objects(t *Text, root *yaml.Node) (found []*Object, plain int) {
	return objectsIn(t, root, root.Line, t.last(), 0)
}

// last is the last line of a document's text that holds anything.
func (t *Text) last() int {
	return bytes.Count(bytes.TrimRight(t.bytes, "\r\n"), []byte("\n")) + 1
}

func objectsIn(t *Text, root *yaml.Node, from, last, depth int) (found []*Object, plain int) {
	if root.Kind == yaml.SequenceNode && root.Tag == stream {
		eachItem(root, last, func(node *yaml.Node, from, to int) {
			objects, n := objectsIn(t, node, from, to, depth)
			found, plain = append(found, objects...), plain+n
		})
		return found, plain
	}
	if root.Kind != yaml.MappingNode {
		return nil, 1
	}
	o := &Object{Text: t, node: root}
	o.APIVersion, o.Kind = interned(text(root, "apiVersion")), interned(text(root, "kind"))
	if o.APIVersion == "" || o.Kind == "" {
		return nil, 1
	}
	if _, items := step(root, "items"); items != nil && strings.HasSuffix(o.Kind, "List") && depth < 3 {
		if items.Kind == yaml.SequenceNode {
			eachItem(items, last, func(node *yaml.Node, from, to int) {
				objects, n := objectsIn(t, node, from, to, depth+1)
				found, plain = append(found, objects...), plain+n
			})
		}
		return found, plain
	}
	_, metadata := step(root, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode && metadata.Kind != yaml.AliasNode {
		return nil, 1 // as a kustomization or a kubeconfig
	}
	o.Name, o.Namespace = text(metadata, "name"), interned(text(metadata, "namespace"))
	if o.Name == "" {
		o.Name = text(metadata, "generateName")
	}
	o.From, o.To = t.position(from, 1, 0).Line, t.position(last, 1, 0).Line
	return []*Object{o}, 0
}

// interned is a text that many objects share.
func interned(text string) string { return unique.Make(text).Value() }

func eachItem(list *yaml.Node, last int, visit func(node *yaml.Node, from, to int)) {
	for i, item := range list.Content {
		to := last
		if i+1 < len(list.Content) {
			to = max(item.Line, list.Content[i+1].Line-1)
		}
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		visit(item, item.Line, to)
	}
}

// text is the scalar that a key of a mapping holds, "" if none.
func text(node *yaml.Node, key string) string {
	_, v := step(node, key)
	for depth := 0; v != nil && v.Kind == yaml.AliasNode && depth < 10; depth++ {
		v = v.Alias
	}
	if v == nil || v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return ""
	}
	return v.Value
}

// annotationMarks are those that the object's own annotation makes.
func (o *Object) annotationMarks() []Mark {
	_, metadata := step(o.node, "metadata")
	_, annotations := step(metadata, "annotations")
	_, value := step(annotations, IgnoreAnnotation)
	if value == nil || value.Kind != yaml.ScalarNode {
		return nil
	}
	return []Mark{{Position: o.nodePosition(value), Text: strings.TrimSpace(value.Value), From: o.From, To: o.To}}
}

// Finalizers are those that the manifest gives the object.
func (o *Object) Finalizers() []string {
	_, metadata := step(o.node, "metadata")
	_, list := step(metadata, "finalizers")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	var names []string
	for _, item := range list.Content {
		if item.Kind == yaml.ScalarNode {
			names = append(names, item.Value)
		}
	}
	return slices.Clip(names)
}
