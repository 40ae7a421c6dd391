package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// document is the text of one YAML document, or of a whole JSON file.
type document struct {
	text []byte
	line int // of text's first line, in the file, from 1
	cuts []cut
	// source is the FILE of a comment "# Source: FILE", as Helm writes it.
	source string
}

// cut is a subtree that was left out of a document's text.
type cut struct {
	at    int // offset in the text after which it is missing
	lines int
}

var (
	errBinary    = errors.New("not text in UTF-8: it contains a zero byte")
	errEncrypted = errors.New("encrypted by git-crypt")
	errLarge     = fmt.Errorf("a document of more than %d MiB, which is no object: split it", maxDocument>>20)

	documentStart  = []byte("---")
	documentEnd    = []byte("...")
	schemaKey      = []byte("openAPIV3Schema:")
	sourceComment  = []byte("# Source: ")
	gitCryptHeader = []byte("\x00GITCRYPT\x00") // the first bytes of a git-crypt file (github.com/AGWA/git-crypt, commands.cpp)
	byteOrderMark  = []byte("\xef\xbb\xbf")
)

// maxDocument bounds a document, in bytes without cuts: parsed, it takes up to fifty times as much. An object
// has 3 MiB at most (k8s.io/apiserver, pkg/server, MaxRequestBodyBytes), a List any number of them.
const maxDocument = 32 << 20

// splitter finds the documents in a stream. Markers are at the start of a line, even within a scalar (YAML
// 1.2.2, section 9.1.3, production c-forbidden), so that it needs no parser.
type splitter struct {
	in *bufio.Reader
	// keepSchemas keeps the schemas of CustomResourceDefinitions: most of the bytes of real manifests, and read
	// by no policy.
	keepSchemas bool

	line    int // of the next one
	buffer  []byte
	pending []byte // a line that belongs to the next document
}

func newSplitter(in io.Reader, keepSchemas bool) *splitter {
	s := &splitter{in: bufio.NewReader(in), keepSchemas: keepSchemas, line: 1}
	if mark, _ := s.in.Peek(2); utf16Encodings[string(mark)] != nil {
		_, _ = s.in.Discard(len(mark)) // it is buffered
		s.in = bufio.NewReader(transform.NewReader(s.in, utf16Encodings[string(mark)].NewDecoder()))
	}
	return s
}

// utf16Encodings is UTF-16, by byte order mark. PowerShell's > writes it, and kubectl reads it
// (k8s.io/cli-runtime, resource/visitor.go, FileVisitor).
var utf16Encodings = map[string]encoding.Encoding{
	"\xff\xfe": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"\xfe\xff": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
}

// next returns the next non-empty document, or io.EOF. Its text is valid until the next call.
func (s *splitter) next() (document, error) {
	for {
		d, content, err := s.document()
		if err != nil || content {
			return d, err
		}
	}
}

// document reads up to the next marker, and reports whether it has more than comments.
func (s *splitter) document() (d document, content bool, err error) {
	s.buffer = s.buffer[:0]
	d.line = s.line
	var definition bool // it is a CustomResourceDefinition
	skip := -1          // indentation of the subtree that is left out
	atEnd, large := false, false
	defer func() {
		if large && err == nil {
			d.text, err = nil, errLarge // and the next documents are still read
		}
	}()
	for !atEnd {
		line, err := s.read()
		if err != nil && (!errors.Is(err, io.EOF) || len(s.buffer) == 0 && len(line) == 0) {
			return d, false, err
		}
		if len(line) == 0 {
			break
		}
		switch {
		case marker(line, documentStart):
			if s.line-1 > d.line { // it is not the first one
				s.pending = bytes.Clone(line)
				s.line--
				d.text = s.buffer
				return d, content, nil
			}
			content = content || len(trim(line[3:])) > 0
		case marker(line, documentEnd):
			atEnd = true
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
			if s.keepSchemas {
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
	d.text = s.buffer
	return d, content, nil
}

// read returns the next line with its end, cut short if it is longer than maxDocument.
func (s *splitter) read() (line []byte, err error) {
	if s.pending != nil {
		line, s.pending = s.pending, nil
	} else {
		line, err = s.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long := bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = s.in.ReadSlice('\n')
				if len(long) <= maxDocument {
					long = append(long, line...)
				}
			}
			line = long
		}
		if bytes.IndexByte(line, 0) >= 0 {
			if s.line == 1 && bytes.HasPrefix(line, gitCryptHeader) {
				return nil, errEncrypted
			}
			return nil, errBinary
		}
	}
	if s.line == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	s.line++
	return line, err
}

// marker reports whether a line is "---" or "...", alone or before white space.
func marker(line, mark []byte) bool {
	return bytes.HasPrefix(line, mark) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0)
}

// trim returns a line without surrounding white space and trailing comment.
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
