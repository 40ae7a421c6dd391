// Package redact takes names out of a snapshot, so that it can be shown to others.
package redact

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// public are names that every cluster has.
var public = []string{"", "default", "kube-system", "kube-public", "kube-node-lease", "kubernetes", "termguard-system", "termguard"}

// unnamed are sections in which "name" is no name of an object.
var unnamed = map[string]bool{"crds": true, "version": true, "webhooks": true, "admissionpolicies": true}

var (
	word = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9.-]*`)
	// object is an object as evidence names it: "Deployment ops/web".
	object = regexp.MustCompile(`(?:Deployment|StatefulSet|DaemonSet|pod|account|Service|lease|Node|node) ([a-z0-9][a-z0-9.-]*)(?:/([a-z0-9][a-z0-9.-]*))?`)
)

// Write writes to out what snapshot writes, with names replaced as by Snapshot, under
// a key that nobody keeps.
func Write(out io.Writer, schema []byte, snapshot func(io.Writer) error) error {
	var text bytes.Buffer
	if err := snapshot(&text); err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	redacted, err := Snapshot(text.Bytes(), schema, key)
	if err != nil {
		return err
	}
	if _, err := out.Write(redacted); err != nil {
		return fmt.Errorf("write the redacted snapshot: %w", err)
	}
	return nil
}

// Snapshot replaces the names of objects and namespaces in a snapshot, wherever they
// stand, by hashes: the same name by the same hash within one key, which is to be a new
// one for each snapshot. schema is that of the facts: it tells names from the words of
// the document. Kinds, API groups, finalizers, versions and images stay, and so may
// names that only a message tells.
func Snapshot(text, schema, key []byte) ([]byte, error) {
	var doc, shape map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("redact the snapshot: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("redact the snapshot: text after its end")
	}
	if err := json.Unmarshal(schema, &shape); err != nil {
		return nil, fmt.Errorf("read the schema of the facts: %w", err)
	}
	r := &redactor{names: map[string]bool{}, key: key}
	r.definitions, _ = shape["definitions"].(map[string]any)
	r.collect(doc)
	out, err := json.MarshalIndent(r.value(doc, shape), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the redacted snapshot: %w", err)
	}
	return append(out, '\n'), nil
}

type redactor struct {
	names       map[string]bool
	key         []byte
	definitions map[string]any
}

// collect finds the names that the document knows.
func (r *redactor) collect(doc map[string]any) {
	for _, section := range []string{"namespaces", "nodes", "counts", "finalized", "pods", "needs", "inUse"} {
		of, _ := doc[section].(map[string]any)
		for name, below := range of {
			r.names[name] = true
			if below, ok := below.(map[string]any); ok && section == "pods" {
				for pod := range below {
					r.names[pod] = true
				}
			}
			if below, ok := below.(map[string]any); ok && section == "inUse" {
				for _, objects := range below {
					objects, _ := objects.(map[string]any)
					for object := range objects {
						r.names[object] = true
					}
				}
			}
		}
	}
	removers, _ := doc["removers"].(map[string]any)
	for _, below := range removers {
		below, _ := below.(map[string]any)
		for what := range below { // RESOURCE/NAME
			if _, name, found := strings.Cut(what, "/"); found {
				r.names[name] = true
			}
		}
	}
	for section, below := range doc {
		r.find(below, !unnamed[section])
	}
	for _, name := range public {
		delete(r.names, name)
	}
	// An object may be named like a resource or a part of its group: those stay.
	counts, _ := doc["counts"].(map[string]any)
	for _, resources := range counts {
		resources, _ := resources.(map[string]any)
		for resource := range resources {
			for part := range strings.SplitSeq(resource, ".") {
				delete(r.names, part)
			}
		}
	}
}

func (r *redactor) find(node any, named bool) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			text, isText := value.(string)
			if isText && named && (key == "name" || key == "namespace" || key == "node") || isText && key == "namespace" {
				r.names[text] = true
			}
			if list, ok := value.([]any); ok && (key == "names" || key == "mutual") {
				for _, item := range list {
					name, _ := item.(string)
					for part := range strings.SplitSeq(name, "/") { // NAMESPACE/NAME of what is elsewhere
						r.names[part] = true
					}
				}
			}
			r.find(value, named || key == "service")
		}
	case []any:
		for _, item := range node {
			r.find(item, named)
		}
	case string:
		for _, found := range object.FindAllStringSubmatch(node, -1) {
			r.names[found[1]] = true
			if found[2] != "" {
				r.names[found[2]] = true
			}
		}
	}
}

// value is a copy of a part of the document without names. Keys that the schema lists
// are words of the document.
func (r *redactor) value(node any, schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = r.definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	switch node := node.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		others, data := schema["additionalProperties"].(map[string]any)
		redacted := make(map[string]any, len(node))
		for key, value := range node {
			if below, known := properties[key].(map[string]any); known {
				redacted[key] = r.value(value, below)
			} else if data {
				redacted[r.text(key)] = r.value(value, others)
			} else { // a part of an object as the API has it
				redacted[key] = r.value(value, nil)
			}
		}
		return redacted
	case []any:
		items, _ := schema["items"].(map[string]any)
		redacted := make([]any, len(node))
		for i, item := range node {
			redacted[i] = r.value(item, items)
		}
		return redacted
	case string:
		if schema["enum"] != nil {
			return node
		}
		return r.text(node)
	}
	return node
}

// text replaces the names in a text: whole words, and what stands between dots.
func (r *redactor) text(text string) string {
	return word.ReplaceAllStringFunc(text, func(word string) string {
		if r.names[word] {
			return r.hash(word)
		}
		parts := strings.Split(word, ".")
		for i, part := range parts {
			if r.names[part] {
				parts[i] = r.hash(part)
			}
		}
		return strings.Join(parts, ".")
	})
}

func (r *redactor) hash(name string) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(name))
	return "x" + hex.EncodeToString(mac.Sum(nil))[:10]
}
