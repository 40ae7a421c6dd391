package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/internal/nearest"
)

// Error is an error at a place in a configuration.
type Error struct {
	File         string
	Line, Column int // from 1; 0 for the whole file
	Message      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// reader reads nodes, and collects their errors.
type reader struct {
	file string
	errs []*Error
}

func (r *reader) errorf(at *yaml.Node, format string, args ...any) {
	e := &Error{File: r.file, Message: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = at.Line, at.Column
	}
	r.errs = append(r.errs, e)
}

// err returns the errors in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var errs []error
	for _, e := range r.errs {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// object reads a mapping with the keys of fields. where names it in errors; "" is the document.
func (r *reader) object(n *yaml.Node, where string, fields map[string]func(value *yaml.Node)) {
	r.entries(n, where, func(key, value *yaml.Node) {
		read, ok := fields[key.Value]
		if !ok {
			in := ""
			if where != "" {
				in = " in " + where
			}
			names := slices.Sorted(maps.Keys(fields))
			hint := nearest.Hint(key.Value, names)
			if hint == "" {
				hint = "; there are " + strings.Join(names, ", ")
			}
			r.errorf(key, "unknown key %q%s%s", key.Value, in, hint)
			return
		}
		read(value)
	})
}

// entries calls each for the entries of a mapping. A null, as in "ignore:" without a value, is empty.
func (r *reader) entries(n *yaml.Node, where string, each func(key, value *yaml.Node)) {
	n = resolve(n)
	switch {
	case n.Tag == "!!null":
		return
	case n.Kind != yaml.MappingNode:
		r.errorf(n, "%s: want keys with values, got %s", cmp.Or(where, "the document"), kindOf(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			r.errorf(key, "want a plain key, got %s", kindOf(key))
			continue
		}
		if line, ok := first[key.Value]; ok {
			r.errorf(key, "key %q stands here twice, first in line %d: remove one", key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		each(key, resolve(value))
	}
}

// items calls each for the items of a list.
func (r *reader) items(n *yaml.Node, where string, each func(*yaml.Node)) {
	n = resolve(n)
	switch {
	case n.Tag == "!!null":
		return
	case n.Kind != yaml.SequenceNode:
		r.errorf(n, "%s: want a list, got %s", where, kindOf(n))
		return
	}
	for _, item := range n.Content {
		each(resolve(item))
	}
}

// text reads a non-empty scalar. YAML numbers and dates are text here: kubernetesVersion: 1.30 means 1.30.
func (r *reader) text(n *yaml.Node, where string) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.errorf(n, "%s: want text, got %s", where, kindOf(n))
		return ""
	case strings.TrimSpace(n.Value) == "":
		r.errorf(n, "%s: want text, got none", where)
		return ""
	}
	return n.Value
}

// texts reads a list of texts.
func (r *reader) texts(n *yaml.Node, where string) []string {
	var texts []string
	r.items(n, where, func(item *yaml.Node) {
		if s := r.text(item, where); s != "" {
			texts = append(texts, s)
		}
	})
	return texts
}

// any reads a value of any shape, as JSON has it. Recursive and exploding aliases are errors of Decode.
func (r *reader) any(n *yaml.Node, where string) any {
	var value any
	err := n.Decode(&value)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(value); err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(text, &value)
		}
	}
	if err != nil {
		r.errorf(n, "%s: %s", where, strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	return value
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}
