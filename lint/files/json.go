package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// parseJSON returns nodes with positions. Several values, as kubectl and jq write them, become a sequence.
func parseJSON(text []byte) (*yaml.Node, error) {
	b := &jsonBuilder{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1, column: 1}
	b.decoder.UseNumber()
	var values []*yaml.Node
	for {
		node, err := b.value()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		values = append(values, node)
	}
	switch len(values) {
	case 0:
		return nil, io.ErrUnexpectedEOF
	case 1:
		return values[0], nil
	}
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: stream, Line: values[0].Line, Column: values[0].Column, Content: values}, nil
}

// stream tags consecutive values.
const stream = "!stream"

type jsonBuilder struct {
	text         []byte
	decoder      *json.Decoder
	at           int // position of line and column
	line, column int
	depth        int
}

var errEnd = errors.New("end of array or object")

func (b *jsonBuilder) value() (*yaml.Node, error) {
	b.advance(int(b.decoder.InputOffset()))
	for b.at < len(b.text) && bytes.IndexByte([]byte(" \t\r\n,:"), b.text[b.at]) >= 0 {
		b.advance(b.at + 1)
	}
	node := &yaml.Node{Line: b.line, Column: b.column}
	token, err := b.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '}' || t == ']' {
			return nil, errEnd
		}
		if b.depth++; b.depth > maxDepth {
			return nil, errDepth
		}
		defer func() { b.depth-- }()
		node.Kind, node.Tag, node.Style = yaml.MappingNode, "!!map", yaml.FlowStyle
		if t == '[' {
			node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		}
		for {
			child, err := b.value()
			if errors.Is(err, errEnd) {
				return node, nil
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
	case string:
		node.Kind, node.Tag, node.Value, node.Style = yaml.ScalarNode, "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		node.Kind, node.Tag, node.Value = yaml.ScalarNode, "!!float", t.String()
		if _, err := strconv.ParseInt(node.Value, 10, 64); err == nil {
			node.Tag = "!!int"
		}
	case bool:
		node.Kind, node.Tag, node.Value = yaml.ScalarNode, "!!bool", strconv.FormatBool(t)
	case nil:
		node.Kind, node.Tag, node.Value = yaml.ScalarNode, "!!null", "null"
	}
	return node, nil
}

func (b *jsonBuilder) advance(to int) {
	for b.at < to {
		r, n := utf8.DecodeRune(b.text[b.at:])
		b.at += n
		b.column++
		if r == '\n' {
			b.line, b.column = b.line+1, 1
		}
	}
}
