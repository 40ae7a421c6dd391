// Package redact removes names from a snapshot, so that it can be shared.
package redact

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// public are names that every cluster has.
var public = []string{"", "default", "kube-system", "kube-public", "kube-node-lease", "kubernetes", "termguard-system", "termguard"}

// Contents of a string in the facts, as "holds" in its schema or, for keys of maps, "keys" with one entry per
// level. A string without either is treated as a name, so that new fields are redacted by default. Entries
// such as "word/name" describe parts between slashes; the last one repeats.
const (
	nameOf     = "name"       // chosen by a user: replaced
	wordOf     = "word"       // of Kubernetes, a program or a definition: kept
	textOf     = "text"       // a sentence: names known from other fields are replaced in it
	expression = "expression" // CEL: quoted strings are replaced
	keyOf      = "key"        // kept if it belongs to Kubernetes, otherwise replaced
)

var (
	word = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._-]*`)
	// own matches keys of Kubernetes itself.
	own = regexp.MustCompile(`^([a-z0-9.-]+\.)?(kubernetes|k8s)\.io/`)
	// file matches a path, and folder the path elements that reveal nothing about a cluster.
	file   = regexp.MustCompile(`(/[^\s/'":,]+){2,}`)
	folder = regexp.MustCompile(`^(var|lib|run|proc|sys|fs|cgroup|etc|mnt|tmp|kubelet|containerd|pods|volumes|mount|kubernetes\.io~[a-z-]+|\d+)?$`)
	// object matches an object as evidence names it: "Deployment ops/web", "Deployment/ops/web".
	object = regexp.MustCompile(`(?:Deployment|StatefulSet|DaemonSet|pod|account|Service|lease|Node|node)[ /]([a-z0-9][a-z0-9.-]*)(?:/([a-z0-9][a-z0-9.-]*))?|held by ([^\s,]+)`)
	// quoted matches a string in CEL.
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	// operations are strings of Kubernetes itself that CEL may quote.
	operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}
)

// Write writes a snapshot to out, with names replaced as by Snapshot under a random key that is discarded.
func Write(out io.Writer, schema []byte, snapshot func(io.Writer) error) error {
	var text bytes.Buffer
	if err := snapshot(&text); err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	redacted, err := Snapshot(text.Bytes(), schema, key)
	if err != nil {
		return err
	}
	if _, err := out.Write(redacted); err != nil {
		return fmt.Errorf("write the redacted snapshot: %w", err)
	}
	return nil
}

// Snapshot replaces the names of objects and namespaces in a snapshot by hashes: the same name by the same
// hash for one key, which should be new for each snapshot. schema is the schema of the facts, which tells
// names from other strings. Kinds, API groups, finalizers, versions and images stay, and so may names that
// appear only in messages.
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
	r.value(doc, shape, nil) // collects the names for r.text
	r.complete = true
	out, err := json.MarshalIndent(r.value(doc, shape, nil), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the redacted snapshot: %w", err)
	}
	return append(out, '\n'), nil
}

type redactor struct {
	names       map[string]bool // collected so far
	complete    bool            // whether names is complete
	key         []byte
	definitions map[string]any
}

// value returns a copy of a node without names. keys describe the keys of the maps below.
func (r *redactor) value(node any, schema map[string]any, keys []any) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = r.definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	if of, ok := schema["keys"].([]any); ok {
		keys = of
	}
	if schema["holds"] == wordOf {
		return node
	}
	switch node := node.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		others, data := schema["additionalProperties"].(map[string]any)
		key, below := any(nameOf), []any(nil)
		if len(keys) > 0 {
			key, below = keys[0], keys[1:]
		}
		redacted := make(map[string]any, len(node))
		for name, value := range node {
			if of, ok := properties[name].(map[string]any); ok {
				redacted[name] = r.value(value, of, nil)
			} else if data {
				redacted[r.string(name, key)] = r.value(value, others, below)
			} else { // part of an object from the API
				redacted[name] = r.value(value, nil, nil)
			}
		}
		return redacted
	case []any:
		items, _ := schema["items"].(map[string]any)
		redacted := make([]any, len(node))
		for i, item := range node {
			redacted[i] = r.value(item, items, nil)
		}
		return redacted
	case string:
		if schema["enum"] != nil {
			return node
		}
		return r.string(node, schema["holds"])
	}
	return node
}

// string redacts a string; what describes its contents.
func (r *redactor) string(text string, what any) string {
	switch what {
	case wordOf:
		return text
	case keyOf:
		if own.MatchString(text) {
			return text
		}
	case textOf:
		return r.text(text)
	case expression:
		return quoted.ReplaceAllStringFunc(text, func(literal string) string {
			if inside := literal[1 : len(literal)-1]; !slices.Contains(operations, inside) {
				return literal[:1] + r.name(inside) + literal[:1]
			}
			return literal
		})
	}
	pattern, _ := what.(string)
	kinds := strings.Split(cmp.Or(pattern, nameOf), "/")
	parts := strings.Split(text, "/")
	for i, part := range parts {
		if kinds[min(i, len(kinds)-1)] != wordOf {
			parts[i] = r.name(part)
		}
	}
	return strings.Join(parts, "/")
}

func (r *redactor) name(name string) string {
	if slices.Contains(public, name) {
		return name
	}
	r.names[name] = true
	return r.hash(name)
}

// text replaces the names in a text: whole words, and parts between dots.
func (r *redactor) text(text string) string {
	if !r.complete {
		for _, match := range object.FindAllStringSubmatch(text, -1) {
			for _, name := range match[1:] {
				r.name(name)
			}
		}
		for _, path := range file.FindAllString(text, -1) {
			for _, part := range strings.Split(path, "/") {
				if !folder.MatchString(part) {
					r.name(part)
				}
			}
		}
		return text
	}
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
