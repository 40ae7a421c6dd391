// Package source reads manifests: it finds files, splits them into documents, and locates the fields of each
// Kubernetes object.
package source

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// File is one input.
type File struct {
	// Name is the file's name in findings, with forward slashes.
	Name string
	// Path is its location, "" for input without a file; then Content is all of it.
	Path    string
	Content []byte
	// Rendered is the folder that Content was rendered from, "" for a file of its own.
	Rendered string
	// FromSearch says that a search found the file: text in it that is neither readable nor like an object is
	// ignored.
	FromSearch bool
	// KeepSchemas keeps parts that no built-in policy reads: the schemas of CustomResourceDefinitions.
	KeepSchemas bool
}

func (f *File) open() (io.ReadCloser, error) {
	if f.Path == "" {
		return io.NopCloser(bytes.NewReader(f.Content)), nil
	}
	return os.Open(f.Path)
}

// Problem is an input that cannot be read, or only in part.
type Problem struct {
	Position
	Message string
}

// Contents are the contents of a document.
type Contents struct {
	Objects  []*Object
	Plain    int // values that are no Kubernetes objects
	Marks    []Mark
	Problems []Problem
	// Template says that it is a template, which is not YAML yet.
	Template bool
	// Snippet says that the text with Problems is no manifest anyway.
	Snippet bool
}

// Contains reports which words the text of a file holds, without splitting it, through a buffer. An unreadable
// file holds none, and words longer than the buffer are not found.
func (f *File) Contains(buffer []byte, words ...string) []bool {
	matches := make([]bool, len(words))
	in, err := f.open()
	if err != nil {
		return matches
	}
	defer in.Close()
	longest := 0
	for _, word := range words {
		longest = max(longest, len(word))
	}
	for overlap := 0; err == nil && slices.Contains(matches, false) && overlap < len(buffer); {
		var n int
		n, err = in.Read(buffer[overlap:])
		text := buffer[:overlap+n]
		for i, word := range words {
			matches[i] = matches[i] || bytes.Contains(text, []byte(word))
		}
		overlap = copy(buffer, text[max(0, len(text)-longest+1):])
	}
	return matches
}

// Read yields the contents of each non-empty document of a file. A broken document hides no other.
func (f *File) Read() iter.Seq[Contents] { return f.ReadContaining("") }

// ReadContaining is Read for the documents whose text holds a word: the others are not parsed.
func (f *File) ReadContaining(word string) iter.Seq[Contents] {
	return func(yield func(Contents) bool) {
		in, err := f.open()
		if err != nil {
			yield(Contents{Problems: []Problem{{Position: Position{Line: 1, Column: 1}, Message: reason(err)}}})
			return
		}
		defer in.Close()
		s := newSplitter(in, f.KeepSchemas)
		objects := false // before
		for {
			d, err := s.next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case errors.Is(err, errEncrypted):
				yield(Contents{Plain: 1})
				return
			case errors.Is(err, errLarge):
				if !yield(Contents{Problems: []Problem{{Position: Position{Line: d.line, Column: 1}, Message: reason(err)}}}) {
					return
				}
				continue
			case err != nil:
				yield(Contents{Problems: []Problem{{Position: Position{Line: s.line, Column: 1}, Message: reason(err)}}})
				return
			case !bytes.Contains(d.text, []byte(word)):
				continue
			}
			d.text = bytes.Clone(d.text)
			root, err := parse(d.text)
			if err != nil && len(d.cuts) > 0 { // the cut may be the cause: read it and the rest whole
				if document, readErr := f.rereadWhole(d.line); readErr == nil {
					d, s.keepSchemas = document, true
					root, err = parse(d.text)
				}
			}
			c := f.contents(d, root, err)
			objects = objects || len(c.Objects) > 0
			c.Snippet = c.Snippet && !objects // after objects it was meant to be one more
			if !yield(c) {
				return
			}
		}
	}
}

// reason returns an error of reading a file without the file's name, which its place has.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return "cannot be read: " + err.Error()
}

// contents returns the contents of a document, parsed or not.
func (f *File) contents(d document, root *yaml.Node, err error) (c Contents) {
	t := &Text{File: f, bytes: d.text, line: d.line, cuts: d.cuts, source: d.source}
	if err != nil {
		var syntax *syntaxError
		switch {
		case isTemplate(d.text):
			c.Template = true
		case f.isSettings() && !looksLikeObject(d.text):
			c.Plain = 1
		case f.FromSearch && errors.As(err, &syntax) && (brokenExample.MatchString(f.Name) || !looksLikeObject(d.text)):
			c.Plain, c.Snippet = 1, true
			fallthrough
		case errors.As(err, &syntax):
			c.Problems = append(c.Problems, Problem{t.position(syntax.line, syntax.column, 1), "invalid YAML: " + syntax.message})
		}
		return c
	}
	if root == nil {
		return c
	}
	c.Objects, c.Plain = objects(t, root)
	if t.bomb {
		return Contents{Plain: 1, Problems: []Problem{{t.position(root.Line, root.Column, 1), errBomb.Error()}}}
	}
	if bytes.Contains(d.text, []byte("{{")) && hasTemplateKey(root, 0) {
		return Contents{Template: true}
	}
	c.Marks = t.marks(root)
	if len(c.Objects) == 0 {
		return c
	}
	for _, o := range c.Objects {
		c.Marks = append(c.Marks, o.annotationMarks()...)
	}
	return c
}

// hiddenFile matches the path of files that begin with a dot, or are in such a folder.
var hiddenFile = regexp.MustCompile(`(^|/)\.[^./]`)

// brokenExample matches the path of files that are broken on purpose, for a test or a text.
var brokenExample = regexp.MustCompile(`(^|/)(fail(s|ed|ing|ures?)?|invalid|broken|malformed|bad|snippets?|keps?)/`)

// isSettings reports whether a file is, by its name, probably for another tool, such as tsconfig.json and
// devcontainer.json, which may hold comments, or .releaserc.yml.
func (f *File) isSettings() bool {
	return strings.HasSuffix(f.Name, ".json") || hiddenFile.MatchString(f.Name)
}

// looksLikeObject reports whether an unreadable text was probably an object: settings have an apiVersion,
// too, without a kind.
func looksLikeObject(text []byte) bool {
	return bytes.Contains(text, []byte("apiVersion")) && kindKey.Match(text)
}

var kindKey = regexp.MustCompile(`\bkind["']?\s*:`)

// hasTemplateKey reports whether a key is a mapping, as YAML reads {{ .Values.name }}.
func hasTemplateKey(node *yaml.Node, depth int) bool {
	if depth > maxDepth {
		return false
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.MappingNode || hasTemplateKey(child, depth+1) {
			return true
		}
	}
	return false
}

// rereadWhole reads the document again that starts in a line, without cuts.
func (f *File) rereadWhole(line int) (document, error) {
	in, err := f.open()
	if err != nil {
		return document{}, err
	}
	defer in.Close()
	s := newSplitter(in, true)
	for {
		d, err := s.next()
		if d.line == line || err != nil && !errors.Is(err, errLarge) {
			d.text = bytes.Clone(d.text)
			return d, err
		}
	}
}

// Size returns the bytes of the document's text.
func (t *Text) Size() int { return len(t.bytes) }

// Source returns the file that the object was rendered from, as a comment says, or "".
func (o *Object) Source() string { return o.Text.source }
