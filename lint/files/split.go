package files

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

type document struct {
	text   []byte
	offset int // in the file's text
	line   int // the first in the file, from 1
	// source is the FILE of Helm's comment "# Source: FILE".
	source string
	// shortened says that a CustomResourceDefinition's schemas, most bytes of real manifests, were left out.
	// Their lines are empty, to keep the numbers of others.
	shortened bool

	content    bool // more than comments
	definition bool
	schema     int // indentation of a left out schema, or -1
}

var (
	documentStart = []byte("---")
	documentEnd   = []byte("...")
	schemaKey     = []byte("openAPIV3Schema:")
	sourceComment = []byte("# Source: ")
)

// split yields the non-empty documents. Markers are at the start of a line, even within a scalar (YAML 1.2.2,
// section 9.1.3, production c-forbidden).
func split(text []byte, line int, keepSchemas bool) iter.Seq[document] {
	return func(yield func(document) bool) {
		d := document{line: line, schema: -1}
		offset := 0
		finish := func() bool {
			if !d.shortened {
				d.text = text[d.offset:offset]
			}
			return !d.content || yield(d)
		}
		for content := range bytes.Lines(text) {
			end := marker(content, documentEnd)
			if end || marker(content, documentStart) && line > d.line {
				if !finish() {
					return
				}
				d = document{offset: offset, line: line, schema: -1}
			}
			if !end {
				d.add(text[d.offset:offset], content, keepSchemas)
			}
			offset += len(content)
			line++
			if end {
				d.offset, d.line = offset, line
			}
		}
		finish()
	}
}

func (d *document) add(before, line []byte, keepSchemas bool) {
	var trimmed []byte
	if !d.content || d.definition { // else nothing depends on it
		trimmed = trim(bytes.TrimPrefix(line, documentStart))
	}
	if d.schema >= 0 && (len(trimmed) == 0 || indentation(line) > d.schema) {
		d.text = append(d.text, '\n')
		return
	}
	d.schema = -1
	d.content = d.content || len(trimmed) > 0
	switch {
	case d.source == "" && bytes.HasPrefix(line, sourceComment):
		d.source = string(bytes.TrimSpace(line[len(sourceComment):]))
	case keepSchemas:
	case bytes.HasPrefix(line, []byte("kind:")):
		d.definition = bytes.Equal(bytes.Trim(trim(line[5:]), `"'`), []byte("CustomResourceDefinition"))
	case d.definition && bytes.Equal(trimmed, schemaKey):
		if !d.shortened {
			d.text, d.shortened = bytes.Clone(before), true
		}
		d.schema = indentation(line)
		line = slices.Concat(line[:d.schema], schemaKey, []byte(" {}\n"))
	}
	if d.shortened {
		d.text = append(d.text, line...)
	}
}

func marker(line, mark []byte) bool {
	return bytes.HasPrefix(line, mark) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0)
}

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
