package files

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Place is a place in a file.
type Place struct {
	File      string `json:"file"`   // as given or found, with forward slashes
	Line      int    `json:"line"`   // from 1
	Column    int    `json:"column"` // from 1, in characters
	EndColumn int    `json:"endColumn,omitempty"`
	Source    string `json:"source,omitempty"`   // the line, without its end
	Rendered  string `json:"rendered,omitempty"` // the template, as its source comment says

	// Value is an existing field's scalar, set by Find.
	Value string `json:"-"`
}

// Compare orders places by file and line.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column), cmp.Compare(p.Rendered, q.Rendered))
}

type Text struct {
	File   *File
	Source string // the file that it was rendered from, as a comment says, or ""
	bytes  []byte
	line   int   // the first, in the file
	starts []int // set on first use
}

// maxLine bounds a line, in bytes, in positions: a file without line breaks may have any number of objects.
const maxLine = 64 << 10

// place takes a line and column of the document, and returns the file's.
func (t *Text) place(line, column, width int) Place {
	if line > t.last() { // its end, which is not on the line of the next document
		line, column = t.last(), len(t.bytes)
	}
	p := Place{File: t.File.Name, Line: t.fileLine(line), Column: max(column, 1), Rendered: t.Source}
	p.EndColumn = p.Column + width
	if text := t.lineText(line); len(text) <= maxLine {
		p.Source = string(text)
		end := utf8.RuneCount(text) + 1
		p.Column, p.EndColumn = min(p.Column, end), min(p.EndColumn, end)
	}
	return t.File.place(p)
}

// place returns, for a rendered file, the first line of the template, if that exists, else of the rendered file:
// the exact line is unknown.
func (f *File) place(p Place) Place {
	if f.Rendered == "" {
		return p
	}
	at := Place{File: f.Name, Line: 1, Column: 1, Source: p.Source, Rendered: cmp.Or(p.Rendered, path.Base(f.Name)), Value: p.Value}
	if _, inside, ok := strings.Cut(p.Rendered, "/"); ok { // CHART/templates/FILE
		if _, err := os.Stat(filepath.Join(f.Rendered, filepath.FromSlash(inside))); err == nil {
			at.File = path.Join(path.Dir(f.Name), inside)
		}
	}
	return at
}

func (t *Text) fileLine(line int) int { return t.line + min(line, t.last()) - 1 }

func (t *Text) lines() []int {
	if t.starts == nil {
		t.starts = lineStarts(t.bytes)
	}
	return t.starts
}

// last returns the last line that is not empty.
func (t *Text) last() int {
	end := len(bytes.TrimRight(t.bytes, "\r\n"))
	return sort.SearchInts(t.lines(), end+1)
}

// lineText omits the line's end.
func (t *Text) lineText(line int) []byte {
	start, end := t.lines()[line-1], len(t.bytes)
	if line < len(t.starts) {
		end = t.starts[line] - 1
	}
	return bytes.TrimSuffix(t.bytes[start:end], []byte("\r"))
}

func lineStarts(text []byte) []int {
	starts := append(make([]int, 0, bytes.Count(text, []byte("\n"))+1), 0)
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// Object is a Kubernetes object in a document.
type Object struct {
	*Text
	APIVersion, Kind, Namespace, Name string
	Written                           string
	// From and To are lines of the file.
	From, To int

	node *yaml.Node
}

// Value returns the object, or just the given keys, as the API server would read it.
func (o *Object) Value(keys ...string) (map[string]any, error) {
	node := o.node
	if len(keys) > 0 {
		node = &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range keys {
			if key, value := step(o.node, key); value != nil {
				node.Content = append(node.Content, key, value)
			}
		}
	}
	return mapping(node, 0)
}

// Find returns the place of a field such as "spec.finalizers[1]" or `metadata.annotations["a.b/c"]`, of
// its longest prefix in the object, or of the name.
func (o *Object) Find(field string) (p Place, exact bool) {
	segments := splitField(field)
	node, at, matched := o.node, o.node, 0
	for _, segment := range segments {
		key, value := step(node, segment)
		if value == nil {
			break
		}
		node, at = value, value
		if key != nil && value.Kind != yaml.ScalarNode {
			at = key // mappings and lists start after their key
		}
		matched++
	}
	exact = matched > 0 && matched == len(segments)
	if matched <= 1 && !exact {
		return o.namePlace(), false // the position of metadata or spec alone says nothing
	}
	p = o.nodePlace(at)
	if exact && at.Kind == yaml.ScalarNode {
		p.Value = strings.Clone(at.Value)
	}
	return p, exact
}

func (o *Object) namePlace() Place {
	for _, path := range [][]string{{"metadata", "name"}, {"metadata", "generateName"}, {"kind"}} {
		if node := o.at(path...); node != nil {
			return o.nodePlace(node)
		}
	}
	return o.nodePlace(o.node)
}

func (o *Object) at(path ...string) *yaml.Node {
	node := o.node
	for _, key := range path {
		_, node = step(node, key)
	}
	return node
}

func (o *Object) nodePlace(node *yaml.Node) Place {
	width := 0
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		width = utf8.RuneCountInString(node.Value)
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			width += 2
		}
	}
	return o.place(node.Line, node.Column, max(width, 1))
}

// step returns a node's entry for an index, or for a key: the last one counts. key is nil for items of lists.
func step(node *yaml.Node, segment string) (key, value *yaml.Node) {
	switch {
	case node == nil:
	case node.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(segment); err == nil && i >= 0 && i < len(node.Content) {
			return nil, node.Content[i]
		}
	case node.Kind == yaml.MappingNode:
		for i := len(node.Content) - 2; i >= 0; i -= 2 {
			if k := node.Content[i]; k.Kind == yaml.ScalarNode && k.Value == segment {
				return k, node.Content[i+1]
			}
		}
	}
	return nil, nil
}

var segment = regexp.MustCompile(`\["(.*?)"\]|\[([^\]]*)\]|([^.\[]+)`)

func splitField(field string) (segments []string) {
	for _, match := range segment.FindAllStringSubmatch(field, -1) {
		segments = append(segments, match[1]+match[2]+match[3])
	}
	return segments
}

func extents(node *yaml.Node, last int, visit func(node *yaml.Node, from, to int)) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			to := lastLine(node, i, i+2, last)
			visit(node.Content[i+1], node.Content[i].Line, to)
			extents(node.Content[i+1], to, visit)
		}
	case yaml.SequenceNode:
		eachItem(node, last, func(item *yaml.Node, from, to int) {
			visit(item, from, to)
			extents(item, to, visit)
		})
	}
}

// Mark is a comment or annotation that ignores findings.
type Mark struct {
	Place
	Text     string // behind "# termguard:ignore", or of the annotation
	From, To int    // of the file
}

var ignore = []byte("termguard:ignore")

// IgnoreAnnotation ignores findings about its object.
const IgnoreAnnotation = "termguard.dev/ignore"

// marks finds "# termguard:ignore TEXT". A trailing comment applies to its entry with everything below it,
// one on its own line to the next entry, and before the first to the document.
func (t *Text) marks(root *yaml.Node) []Mark {
	if !bytes.Contains(t.bytes, ignore) {
		return nil
	}
	last := map[int]int{}     // of the outermost entry, by its first line
	scalars := map[int]bool{} // lines within scalars that contain the marker, and are no comments
	extents(root, t.last(), func(node *yaml.Node, from, to int) {
		if _, exists := last[from]; !exists {
			last[from] = to
		}
		block := node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
		quoted := node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
		if node.Kind != yaml.ScalarNode || !block && !quoted || !strings.Contains(node.Value, string(ignore)) {
			return
		}
		line := node.Line
		if block {
			line++ // a comment may follow its indicator
		}
		for ; line <= to; line++ {
			scalars[line] = true
		}
	})
	var marks []Mark
	following := len(t.lines()) // the next line with content
	for line := len(t.lines()); line > 0; line-- {
		text := t.lineText(line)
		before, comment, ok := cutIgnore(text)
		if ok && !scalars[line] {
			from, ownLine := line, len(bytes.TrimSpace(before)) == 0
			if ownLine {
				from = following
			}
			to := max(from, last[from])
			if ownLine && from <= root.Line {
				from, to = 1, t.last()
			}
			column := utf8.RuneCount(before) + 1
			marks = append(marks, Mark{
				Place: t.place(line, column, utf8.RuneCount(text)+1-column),
				Text:  comment, From: t.fileLine(from), To: t.fileLine(to),
			})
		}
		if len(trim(text)) > 0 && !marker(text, documentStart) {
			following = line
		}
	}
	slices.Reverse(marks)
	return marks
}

func cutIgnore(line []byte) (before []byte, text string, ok bool) {
	before, after, ok := bytes.Cut(line, ignore)
	hash := bytes.LastIndexByte(before, '#')
	if hash < 0 || len(bytes.TrimLeft(before[hash:], "# ")) > 0 || hash > 0 && before[hash-1] != ' ' && before[hash-1] != '\t' {
		return nil, "", false
	}
	return before[:hash], strings.TrimSpace(string(after)), ok
}

// objectsIn also reads Lists and streams. plain counts other values.
func objectsIn(t *Text, root *yaml.Node, from, last, depth int) (all []*Object, plain int) {
	add := func(list *yaml.Node, depth int) {
		eachItem(list, last, func(node *yaml.Node, from, to int) {
			objects, n := objectsIn(t, node, from, to, depth)
			all, plain = append(all, objects...), plain+n
		})
	}
	if root.Kind == yaml.SequenceNode && root.Tag == stream {
		add(root, depth)
		return all, plain
	}
	if root.Kind != yaml.MappingNode {
		return nil, 1
	}
	o := &Object{Text: t, node: root}
	o.APIVersion, o.Kind = text(root, "apiVersion"), text(root, "kind")
	if o.APIVersion == "" || o.Kind == "" || strings.Count(o.APIVersion, "/") > 1 {
		return nil, 1 // a fully encrypted file
	}
	if _, items := step(root, "items"); items != nil && strings.HasSuffix(o.Kind, "List") && depth < 3 {
		if items.Kind == yaml.SequenceNode {
			add(items, depth+1)
		}
		return all, plain
	}
	_, metadata := step(root, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return nil, 1 // a kustomization or a kubeconfig
	}
	o.Name, o.Namespace = text(metadata, "name"), text(metadata, "namespace")
	if o.Name == "" {
		o.Name = text(metadata, "generateName")
	}
	o.Written = o.APIVersion
	o.From, o.To = t.fileLine(from), t.fileLine(last)
	return []*Object{o}, 0
}

func eachItem(list *yaml.Node, last int, visit func(node *yaml.Node, from, to int)) {
	for i, item := range list.Content {
		visit(item, item.Line, lastLine(list, i, i+1, last))
	}
}

// lastLine returns the last line of a child: the one before the next child, or last.
func lastLine(parent *yaml.Node, child, next, last int) int {
	if next >= len(parent.Content) {
		return last
	}
	return max(parent.Content[child].Line, parent.Content[next].Line-1)
}

func text(node *yaml.Node, key string) string {
	_, v := step(node, key)
	if v == nil || v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return ""
	}
	return v.Value
}

func (o *Object) annotationMarks() []Mark {
	value := o.at("metadata", "annotations", IgnoreAnnotation)
	if value == nil || value.Kind != yaml.ScalarNode {
		return nil
	}
	return []Mark{{Place: o.nodePlace(value), Text: strings.Clone(strings.TrimSpace(value.Value)), From: o.From, To: o.To}}
}

// HasHook reports whether Helm applies an object only at one of these events
// (helm.sh/docs/topics/charts_hooks).
func (o *Object) HasHook(events ...string) bool {
	return slices.ContainsFunc(strings.Split(text(o.at("metadata", "annotations"), "helm.sh/hook"), ","), func(event string) bool {
		return slices.Contains(events, strings.TrimSpace(event))
	})
}

// IsRecord reports whether an object is never applied: with a resourceVersion, which the API server rejects
// on create; with only a status, which tests compare with (a namespace has little else); or a chart's test,
// which only helm test applies (helm.sh/docs/topics/chart_tests).
func (o *Object) IsRecord() bool {
	if text(o.at("metadata"), "resourceVersion") != "" || o.HasHook("test", "test-success", "test-failure") {
		return true
	}
	if o.Kind == "Namespace" {
		return false
	}
	status := o.at("status")
	if status == nil || len(status.Content) == 0 {
		return false
	}
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, o.node.Content[i].Value) {
			return false
		}
	}
	return true
}

func (o *Object) Finalizers() []string {
	list := o.at("metadata", "finalizers")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	var names []string
	for _, item := range list.Content {
		if item.Kind == yaml.ScalarNode {
			names = append(names, strings.Clone(item.Value))
		}
	}
	return slices.Clip(names)
}
