// Package files finds manifests, splits them into documents, and locates the fields of each object.
package files

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

type File struct {
	// Name is the name in findings, with forward slashes.
	Name string
	// Path is "" for input without a file; then Content is all of it.
	Path    string
	Content []byte
	// Rendered is the folder that Content was rendered from, or "".
	Rendered string
	// FromSearch ignores text that is neither readable nor like an object.
	FromSearch bool
	// Buffer, if not nil, holds the text until the next file is read into it.
	Buffer *bytes.Buffer
	// KeepSchemas keeps the schemas of CustomResourceDefinitions, which no built-in policy reads.
	KeepSchemas bool
}

// maxFile bounds a file, and maxDocument a document, in bytes: parsed, it takes up to fifty times as much. An
// object has 3 MiB at most (k8s.io/apiserver, pkg/server, MaxRequestBodyBytes), a List any number of them.
const maxFile, maxDocument = 64 << 20, 32 << 20

var (
	errBinary      = errors.New("not text in UTF-8: it contains a zero byte")
	errLarge       = fmt.Errorf("a document of more than %d MiB, which is no object: split it", maxDocument>>20)
	errLargeFile   = fmt.Errorf("more than %d MiB: split it", maxFile>>20)
	gitCryptHeader = []byte("\x00GITCRYPT\x00") // of git-crypt (github.com/AGWA/git-crypt, commands.cpp)
)

// text returns UTF-8, in which only LF and CRLF end a line.
func (f *File) text() ([]byte, error) {
	text := f.Content
	if f.Path != "" {
		in, err := os.Open(f.Path)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return nil, err
		}
		if info.Size() > maxFile {
			return nil, errLargeFile
		}
		buffer := cmp.Or(f.Buffer, &bytes.Buffer{})
		buffer.Reset()
		buffer.Grow(int(info.Size()) + bytes.MinRead)
		if _, err := buffer.ReadFrom(io.LimitReader(in, maxFile+1)); err != nil {
			return nil, err
		}
		if text = buffer.Bytes(); len(text) > maxFile {
			return nil, errLargeFile
		}
	}
	if len(text) > 0 && text[0] >= 0xef { // a byte order mark: PowerShell's > writes UTF-16, and kubectl reads it (k8s.io/cli-runtime, resource/visitor.go, FileVisitor)
		decoded, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), text)
		if err != nil {
			return nil, err
		}
		text = decoded
	}
	return unifyBreaks(text), nil
}

// unifyBreaks replaces YAML 1.1's other line breaks (section 4.1.4), in equal length: NEL, LS and PS, which
// editors do not count as lines, by spaces, and CR by LF.
func unifyBreaks(text []byte) []byte {
	for _, space := range [][2]string{{"\u0085", "\u00a0"}, {"\u2028", "\u2002"}, {"\u2029", "\u2002"}} {
		if bytes.Contains(text, []byte(space[0])) {
			text = bytes.ReplaceAll(text, []byte(space[0]), []byte(space[1]))
		}
	}
	if !bytes.ContainsRune(text, '\r') {
		return text
	}
	text = bytes.Clone(text)
	for i, c := range text {
		if c == '\r' && !bytes.HasPrefix(text[i+1:], []byte("\n")) {
			text[i] = '\n'
		}
	}
	return text
}

// Problem is an input that cannot be read, or only in part.
type Problem struct {
	Place
	Message string `json:"message"`
}

type Contents struct {
	Objects  []*Object
	Plain    int // no Kubernetes objects
	Marks    []Mark
	Problems []Problem
	// Template says that it is not YAML yet.
	Template bool
	// Snippet says that the text with Problems is no manifest anyway.
	Snippet bool
}

// Contains returns false for an unreadable file.
func (f *File) Contains(word string) bool {
	text, err := f.text()
	return err == nil && bytes.Contains(text, []byte(word))
}

// ContainsAny returns a function that reports whether a text holds one of the words.
func ContainsAny(words ...string) func(text []byte) bool {
	return func(text []byte) bool {
		return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
	}
}

// Read yields the contents of each non-empty document. A broken one hides no other.
func (f *File) Read() iter.Seq[Contents] {
	return f.ReadMatching(func([]byte) bool { return true })
}

// ReadMatching is Read without parsing files and documents that do not match.
func (f *File) ReadMatching(matches func(text []byte) bool) iter.Seq[Contents] {
	return func(yield func(Contents) bool) {
		unreadable := func(line int, err error) Contents {
			return Contents{Problems: []Problem{{f.place(Place{File: f.Name, Line: line, Column: 1}), reason(err)}}}
		}
		text, err := f.text()
		switch {
		case err != nil:
			yield(unreadable(1, err))
			return
		case bytes.HasPrefix(text, gitCryptHeader):
			yield(Contents{Plain: 1})
			return
		case !matches(text):
			return
		}
		objects := false // before
		for d := range split(text, 1, f.KeepSchemas) {
			var c Contents
			if zero := bytes.IndexByte(d.text, 0); zero >= 0 {
				yield(unreadable(d.line+bytes.Count(d.text[:zero], []byte("\n")), errBinary))
				return
			} else if len(d.text) > maxDocument {
				c = unreadable(d.line, errLarge)
			} else if matches(d.text) {
				c = f.contents(text, d)
			} else {
				continue
			}
			objects = objects || len(c.Objects) > 0
			c.Snippet = c.Snippet && !objects // after objects it was meant to be one more
			if !yield(c) {
				return
			}
		}
	}
}

// reason omits the file's name, which its place has.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return "cannot be read: " + err.Error()
}

func (f *File) contents(text []byte, d document) (c Contents) {
	root, err := parse(d.text)
	if err != nil && d.shortened { // what was left out may be the cause
		for whole := range split(text[d.offset:], d.line, true) {
			d = whole
			break
		}
		root, err = parse(d.text)
	}
	t := &Text{File: f, bytes: d.text, line: d.line, Source: d.source}
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
			c.Problems = append(c.Problems, Problem{t.place(syntax.line, syntax.column, 1), "invalid YAML: " + syntax.message})
		}
		return c
	}
	if root == nil {
		return c
	}
	c.Objects, c.Plain = objectsIn(t, root, root.Line, t.last(), 0)
	if bytes.Contains(d.text, []byte("{{")) && hasTemplateKey(root, 0) {
		return Contents{Template: true}
	}
	c.Marks = t.marks(root)
	for _, o := range c.Objects {
		c.Marks = append(c.Marks, o.annotationMarks()...)
	}
	return c
}

var hiddenFile = regexp.MustCompile(`(^|/)\.[^./]`)

// brokenExample matches files that are broken on purpose.
var brokenExample = regexp.MustCompile(`(^|/)(fail(s|ed|ing|ures?)?|invalid|broken|malformed|bad|snippets?|keps?)/`)

// isSettings reports whether a file is probably another tool's, such as .releaserc.yml, or tsconfig.json with
// comments.
func (f *File) isSettings() bool {
	return strings.HasSuffix(f.Name, ".json") || hiddenFile.MatchString(f.Name)
}

// looksLikeObject is for unreadable text: settings have an apiVersion, too, without a kind.
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

// Size is in bytes.
func (t *Text) Size() int { return len(t.bytes) }
