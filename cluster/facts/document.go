package facts

import (
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Document is the document that policies read, as JSON decodes it; one part writes each section.
type Document map[string]any

// Child returns the map at path, made if missing.
func (d Document) Child(path ...string) map[string]any {
	node := map[string]any(d)
	for _, key := range path {
		next, ok := node[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			node[key] = next
		}
		node = next
	}
	return node
}

// Put sets the value at path, of at least two elements.
func (d Document) Put(value any, path ...string) {
	d.Child(path[:len(path)-1]...)[path[len(path)-1]] = value
}

// Prune deletes the entry at path, and then empty maps above it, except the section.
func (d Document) Prune(path ...string) { prune(d, path...) }

func prune(node map[string]any, path ...string) {
	below, ok := node[path[0]].(map[string]any)
	if !ok {
		return
	}
	if len(path) == 2 {
		delete(below, path[1])
		return
	}
	prune(below, path[1:]...)
	if inner, ok := below[path[1]].(map[string]any); ok && len(inner) == 0 {
		delete(below, path[1])
	}
}

// Lookup returns the value at path, or nil.
func Lookup(doc map[string]any, path ...string) any {
	var node any = doc
	for _, key := range path {
		switch inner := node.(type) {
		case map[string]any:
			node = inner[key]
		case Section:
			node = inner.Get(key)
		default:
			return nil
		}
	}
	if section, is := node.(Section); is {
		return section.All()
	}
	return node
}

// List returns strings as the document has them.
func List[T ~string](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// Set puts a value into a record if has is set.
func Set(record map[string]any, key string, value any, has bool) {
	if has {
		record[key] = value
	}
}

// Timestamp returns a time as the document has it; "" for none.
func Timestamp(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// MaxText bounds the message of an event, in bytes; the API allows 1024 (pkg/apis/core/validation/events.go,
// NoteLengthLimit).
const MaxText = 512

// Shorten cuts a text to at most limit bytes, between characters.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// Or returns *p, or otherwise if p is nil.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// NamespaceOf returns the first part of "namespace/name".
func NamespaceOf(name string) string {
	namespace, _, _ := strings.Cut(name, "/")
	return namespace
}
