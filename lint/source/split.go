package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// document is the text of one YAML document, or of all that a JSON file holds.
type document struct {
	text   []byte
	offset int64 // of text, in the file
	line   int   // of text's first line, in the file, from 1
	size   int64 // of what stands in the file for it
	cuts   []cut
	// source is what a comment "# Source: FILE" says, as Helm writes it.
	source string
	// wide is what the file is in, nil for UTF-8.
	wide encoding.Encoding
}

// cut is a subtree that was left out of a document's text.
type cut struct {
	at    int // offset in the text, behind which it is missing
	lines int
}

var (
	errBinary = errors.New("not text in UTF-8: it contains a zero byte")
	errSealed = errors.New("encrypted by git-crypt")
	errLarge  = fmt.Errorf("a document of more than %d MiB, which is no object: split it", maxDocument>>20)

	documentStart = []byte("---")
	documentEnd   = []byte("...")
	schemaKey     = []byte("openAPIV3Schema:")
	sourceComment = []byte("# Source: ")
	sealed        = []byte("\x00GITCRYPT\x00") // with which git-crypt begins a file (github.com/AGWA/git-crypt, commands.cpp)
	byteOrderMark = []byte("\xef\xbb\xbf")
)

// maxDocument bounds a document, in bytes without what is cut out: what is parsed of
// it takes up to fifty times as much. An object has 3 MiB at most
// (k8s.io/apiserver, pkg/server, MaxRequestBodyBytes), a List any number of them.
const maxDocument = 32 << 20

// splitter finds the documents in a stream. Markers stand at the beginning of a
// line, whatever scalar the line is in (YAML 1.2.2, section 9.1.3, production
// c-forbidden), so that no parser is needed.
type splitter struct {
	in *bufio.Reader
	// whole keeps the schemas of CustomResourceDefinitions, which are most of
	// the bytes of real manifests and which no policy reads.
	whole bool

	line   int   // of the next one
	offset int64 // of the next line
	buffer []byte
	held   []byte            // a line that belongs to the next document
	wide   encoding.Encoding // of the file, nil for UTF-8
}

// splitters are used again: a buffer for each file would be most of what a run
// allocates.
var splitters = sync.Pool{New: func() any { return &splitter{in: bufio.NewReaderSize(nil, 64<<10)} }}

// maxKept bounds the buffer that a splitter keeps for the next file, in bytes.
const maxKept = 256 << 10

// newSplitter splits what in holds; close it when done.
func newSplitter(in io.Reader, whole bool) *splitter {
	s := splitters.Get().(*splitter)
	s.in.Reset(in)
	*s = splitter{in: s.in, whole: whole, line: 1, buffer: s.buffer[:0]}
	if mark, _ := s.in.Peek(2); wide[string(mark)] != nil {
		s.wide, s.offset = wide[string(mark)], int64(len(mark))
		_, _ = s.in.Discard(len(mark)) // it is buffered
		s.in = bufio.NewReaderSize(transform.NewReader(s.in, s.wide.NewDecoder()), 64<<10)
	}
	return s
}

// wide is UTF-16, by the byte order mark that a file begins with. PowerShell writes it
// where > redirects, and kubectl reads it (k8s.io/cli-runtime, resource/visitor.go,
// FileVisitor).
var wide = map[string]encoding.Encoding{
	"\xff\xfe": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"\xfe\xff": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
}

// size is how many bytes of the file a text is.
func (s *splitter) size(text []byte) int64 {
	if s.wide == nil {
		return int64(len(text))
	}
	units := 0
	for _, r := range string(text) {
		units += utf16.RuneLen(r)
	}
	return int64(2 * units)
}

func (s *splitter) close() {
	s.in.Reset(nil)
	if cap(s.buffer) > maxKept {
		s.buffer = nil
	}
	s.held = nil
	splitters.Put(s)
}

// next returns the next document that holds anything; io.EOF behind the last.
// Its text is valid until next is called again.
func (s *splitter) next() (document, error) {
	for {
		d, content, err := s.document()
		if err != nil || content {
			return d, err
		}
	}
}

// document reads up to the next marker, and tells whether there is more than
// comments in it.
func (s *splitter) document() (d document, content bool, err error) {
	s.buffer = s.buffer[:0]
	d.line, d.offset, d.wide = s.line, s.offset, s.wide
	var definition bool // it is a CustomResourceDefinition
	skip := -1          // indentation of what is being left out
	ended, large := false, false
	defer func() {
		if large && err == nil {
			d.text, err = nil, errLarge // and what follows is read on
		}
	}()
	for !ended {
		line, start, err := s.read()
		if err != nil && (!errors.Is(err, io.EOF) || len(s.buffer) == 0 && len(line) == 0) {
			return d, false, err
		}
		if len(line) == 0 {
			break
		}
		switch {
		case marker(line, documentStart):
			if start > d.offset {
				s.unread(line, start)
				d.text, d.size = s.buffer, start-d.offset
				return d, content, nil
			}
			content = content || len(trim(line[3:])) > 0
		case marker(line, documentEnd):
			ended = true
			continue
		case skip >= 0:
			if blank := trim(line); len(blank) == 0 || indentation(line) > skip {
				d.cuts[len(d.cuts)-1].lines++
				continue
			}
			skip = -1
			fallthrough
		default:
			trimmed := trim(line)
			content = content || len(trimmed) > 0
			if d.source == "" && len(trimmed) == 0 && bytes.HasPrefix(line, sourceComment) {
				d.source = string(bytes.TrimSpace(line[len(sourceComment):]))
			}
			if s.whole {
				break
			}
			if bytes.HasPrefix(line, []byte("kind:")) {
				definition = bytes.Equal(bytes.Trim(trim(line[5:]), `"'`), []byte("CustomResourceDefinition"))
			}
			if definition && bytes.HasPrefix(trimmed, schemaKey) && len(trim(trimmed[len(schemaKey):])) == 0 {
				skip = indentation(line)
				s.buffer = append(s.buffer, line[:skip+len(schemaKey)]...)
				s.buffer = append(s.buffer, " {}\n"...)
				d.cuts = append(d.cuts, cut{at: len(s.buffer) - 1})
				continue
			}
		}
		if large = large || len(s.buffer)+len(line) > maxDocument; !large {
			s.buffer = append(s.buffer, line...)
		}
	}
	d.text, d.size = s.buffer, s.offset-d.offset
	return d, content, nil
}

// read returns the next line with its end, and where it starts. One that is longer
// than a document may be is cut short behind that.
func (s *splitter) read() (line []byte, start int64, err error) {
	if s.held != nil {
		line, s.held = s.held, nil
	} else {
		line, err = s.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long := bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = s.in.ReadSlice('\n')
				if len(long) <= maxDocument {
					long = append(long, line...)
				} else {
					s.offset += s.size(line)
				}
			}
			line = long
		}
		if bytes.IndexByte(line, 0) >= 0 {
			if s.offset == 0 && bytes.HasPrefix(line, sealed) {
				return nil, s.offset, errSealed
			}
			return nil, s.offset, errBinary
		}
	}
	start = s.offset
	if start == 0 && bytes.HasPrefix(line, byteOrderMark) {
		line, start = line[len(byteOrderMark):], int64(len(byteOrderMark))
		s.offset = start
	}
	s.offset += s.size(line)
	s.line++
	return line, start, err
}

func (s *splitter) unread(line []byte, start int64) {
	s.held, s.offset = bytes.Clone(line), start
	s.line--
}

// marker tells whether a line is "---" or "...", alone or before white space.
func marker(line, mark []byte) bool {
	return bytes.HasPrefix(line, mark) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0)
}

// trim is a line without white space around it, and without a comment that
// takes up all the rest of it.
func trim(line []byte) []byte {
	line = bytes.TrimSpace(line)
	if len(line) > 0 && line[0] == '#' {
		return nil
	}
	if i := bytes.Index(line, []byte(" #")); i >= 0 {
		return bytes.TrimSpace(line[:i])
	}
	return line
}

func indentation(line []byte) int {
	return len(line) - len(bytes.TrimLeft(line, " "))
}
