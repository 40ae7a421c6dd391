package snapshots

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var errHeavy = fmt.Errorf("one object has more than %d MiB", longestLine>>20)

func readJSON(in io.Reader, next func() *document) error {
	bounded := &limited{in, longestLine, errHeavy}
	d := json.NewDecoder(bounded)
	value := func() (any, error) {
		bounded.left = longestLine
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		var value any
		return value, utiljson.Unmarshal(raw, &value)
	}
	items := func(of *document) error {
		for d.More() {
			item, err := value()
			if err != nil {
				return err
			}
			object, is := item.(map[string]any)
			if !is {
				continue
			}
			if err := of.item(object); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	}
	for {
		bounded.left = longestLine
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return asText(err)
		}
		of := next()
		fields := map[string]any{}
		switch token {
		case json.Delim('['):
			fields["items"] = nil
			err = items(of)
		case json.Delim('{'):
			err = jsonFields(d, fields, value, func() error { return items(of) })
		default:
			continue
		}
		if err == nil {
			err = of.end(fields)
		}
		if err != nil {
			return asText(err)
		}
	}
}

func jsonFields(d *json.Decoder, fields map[string]any, value func() (any, error), items func() error) error {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if name != "items" {
			if fields[name], err = value(); err != nil {
				return err
			}
			continue
		}
		fields[name] = nil
		begin, err := d.Token()
		if err == nil && begin == json.Delim('[') {
			err = items()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// asText explains the errors of a dump that was cut, or has logs.
func asText(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && strings.Contains(syntax.Error(), "invalid character '='") {
		return errors.New("it has logs of pods between the objects: write a folder, with kubectl cluster-info dump --output-directory")
	}
	return err
}

// readYAML reads the items of a list in kubectl's form one by one.
func readYAML(in *bufio.Reader, next func() *document) error {
	r := &yamlReader{next: next}
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return r.endDocument()
		}
		if err == nil {
			err = r.line(text)
		}
		if err != nil {
			return err
		}
	}
}

type yamlReader struct {
	next   func() *document
	of     *document
	head   bytes.Buffer // beside the items
	one    bytes.Buffer
	listed bool // in the items
	indent int  // of their dashes, -1 before the first
}

func (r *yamlReader) line(text []byte) error {
	if r.head.Len()+r.one.Len()+len(text) > longestLine {
		return errHeavy
	}
	content := bytes.TrimLeft(text, " ")
	depth := len(text) - len(content)
	item := bytes.HasPrefix(content, []byte("- ")) || bytes.Equal(content, []byte("-"))
	if bytes.HasPrefix(text, []byte("---")) || bytes.Equal(text, []byte("...")) {
		return r.endDocument()
	}
	if r.of == nil {
		if len(content) == 0 || content[0] == '#' {
			return nil
		}
		r.of = r.next()
		if item && depth == 0 {
			r.list()
		}
	}
	switch {
	case r.listed && item && (r.indent < 0 || depth == r.indent):
		r.indent = depth
		err := r.endItem()
		writeLine(&r.one, bytes.Replace(text, []byte("-"), []byte(" "), 1))
		return err
	case r.listed && (len(content) == 0 || text[0] == '#' || r.indent >= 0 && depth > r.indent):
		writeLine(&r.one, text)
		return nil
	}
	if err := r.endItem(); err != nil {
		return err
	}
	r.listed = false
	if bytes.Equal(bytes.TrimRight(text, " "), []byte("items:")) {
		r.list()
	} else {
		writeLine(&r.head, text)
	}
	return nil
}

func (r *yamlReader) list() {
	r.head.WriteString("items: null\n")
	r.listed, r.indent = true, -1
}

func writeLine(to *bytes.Buffer, text []byte) {
	to.Write(text)
	to.WriteByte('\n')
}

func (r *yamlReader) endItem() error {
	if r.one.Len() == 0 {
		return nil
	}
	value, err := fromYAML(r.one.Bytes())
	r.one.Reset()
	if err != nil {
		return err
	}
	if object, is := value.(map[string]any); is {
		return r.of.item(object)
	}
	return nil
}

func (r *yamlReader) endDocument() error {
	if r.of == nil {
		return nil
	}
	if err := r.endItem(); err != nil {
		return err
	}
	value, err := fromYAML(r.head.Bytes())
	of := r.of
	r.of, r.listed = nil, false
	r.head.Reset()
	if err != nil {
		return err
	}
	fields, is := value.(map[string]any)
	if !is {
		return nil
	}
	if items, is := fields["items"].([]any); is && len(items) > 0 { // not in kubectl's form
		for _, item := range items {
			if object, is := item.(map[string]any); is {
				if err := of.item(object); err != nil {
					return err
				}
			}
		}
	}
	return of.end(fields)
}

func fromYAML(text []byte) (value any, err error) {
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return value, utiljson.Unmarshal(converted, &value)
}
