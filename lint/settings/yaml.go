package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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

type reader struct {
	file string
	root *yaml.Node
	errs []*Error
}

func (r *reader) errorf(at *yaml.Node, format string, args ...any) {
	e := &Error{File: r.file, Message: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = at.Line, at.Column
	}
	r.errs = append(r.errs, e)
}

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

func (r *reader) decodingErrors(err error) {
	var all *yaml.LoadErrors
	if !errors.As(err, &all) {
		r.errorf(r.root, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	for _, e := range all.Errors {
		r.errs = append(r.errs, &Error{r.file, e.Mark.Line, e.Mark.Column, e.Message})
	}
}

func (r *reader) unknownKeys(unknown map[string]yaml.Node, mapping any, path ...string) {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.Indirect(reflect.ValueOf(mapping)).Type()) {
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if field.IsExported() && name != "-" && options == "" {
			names = append(names, cmp.Or(name, strings.ToLower(field.Name)))
		}
	}
	slices.Sort(names)
	for key := range unknown {
		in := ""
		if len(path) > 0 {
			in = " in " + path[0]
		}
		r.errorf(r.key(append(path, key)...), "unknown key %q%s%s", key, in, cmp.Or(nearest.Hint(key, names), "; there are "+strings.Join(names, ", ")))
	}
}

func (r *reader) oneOf(value string, values []string, path ...string) {
	if value != "" && !slices.Contains(values, value) {
		r.errorf(r.value(path...), "%s: %q is not %s", strings.Join(path, "."), value, Or(values))
	}
}

func (r *reader) value(path ...string) *yaml.Node {
	_, value := r.find(path)
	return value
}

func (r *reader) key(path ...string) *yaml.Node {
	key, _ := r.find(path)
	return key
}

func (r *reader) find(path []string) (key, value *yaml.Node) {
	key, value = r.root, resolve(r.root)
	for _, name := range path {
		children := value.Content
		if value.Kind == yaml.SequenceNode {
			n, _ := strconv.Atoi(name)
			value = resolve(children[n])
			continue
		}
		for i := 0; i+1 < len(children); i += 2 {
			if children[i].Value == name {
				key, value = children[i], resolve(children[i+1])
			}
		}
	}
	return key, value
}

func toJSON[T any](value T) (converted T, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	return converted, kjson.UnmarshalCaseSensitivePreserveInts(text, &converted)
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
