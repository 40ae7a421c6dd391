package snapshots

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"
)

const (
	// longestWord bounds a kept string of a spec: names are no longer (RFC 1123).
	longestWord = 253
	maxDeep     = 64
)

// confidential are parts of names of fields and variables whose values are left out.
var confidential = []string{"password", "passwd", "passphrase", "token", "credential", "apikey", "api_key", "accesskey", "access_key", "privatekey", "private_key", "secretkey", "secret_key", "clientsecret", "client_secret", "connectionstring", "dsn"}

// trim leaves out values that may be confidential, and all of Secrets except metadata and type.
func trim(o *unstructured.Unstructured, resource schema.GroupResource) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	if annotations, _ := metadata["annotations"].(map[string]any); annotations != nil {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
	if fields, _ := metadata["managedFields"].([]any); fields != nil {
		for _, entry := range fields {
			trimFields(entry)
		}
	}
	switch {
	case resource == schema.GroupResource{Resource: "secrets"}:
		for key := range o.Object {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "type"}, key) {
				delete(o.Object, key)
			}
		}
	case resource == schema.GroupResource{Resource: "configmaps"}: // those that are read whole are read for their data
	default:
		for key, value := range o.Object {
			if key != "metadata" && key != "status" {
				o.Object[key] = trimmed(value, key, strings.Contains(resource.Group, "admissionregistration.k8s.io") || resource.Resource == "events", 0)
			}
		}
	}
}

// trimFields leaves the finalizers and the status of a manager's fields.
func trimFields(entry any) {
	fields, _ := entry.(map[string]any)
	owned, _ := fields["fieldsV1"].(map[string]any)
	metadata, _ := owned["f:metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(key string, _ any) bool { return key != "f:finalizers" })
	maps.DeleteFunc(owned, func(key string, _ any) bool { return key != "f:status" && (key != "f:metadata" || len(metadata) == 0) })
	if len(owned) == 0 {
		delete(fields, "fieldsV1")
	}
}

// trimmed leaves out confidential values; texts are kept where expressions are.
func trimmed(value any, key string, texts bool, depth int) any {
	switch value := value.(type) {
	case map[string]any:
		if depth > maxDeep {
			return nil
		}
		name, _ := value["name"].(string) // of a variable
		for key, below := range value {
			if key == "value" && isConfidential(name) {
				value[key] = ""
				continue
			}
			value[key] = trimmed(below, key, texts || key == "caBundle" || key == "openAPIV3Schema", depth+1)
		}
		delete(value, "openAPIV3Schema")
	case []any:
		runs := key == "args" || key == "command" // its texts show what it does
		for i := range value {
			if text, is := value[i].(string); is && runs {
				value[i] = argument(text, i > 0 && isSecretFlag(value[i-1]))
				continue
			}
			value[i] = trimmed(value[i], key, texts, depth+1)
		}
	case string:
		if !texts && (isConfidential(key) || !isWord(value)) {
			return ""
		}
	}
	return value
}

func argument(text string, confidential bool) string {
	if confidential {
		return ""
	}
	words := strings.Split(text, " ")
	for i, w := range words {
		if name, _, assigns := strings.Cut(w, "="); assigns && isConfidential(name) {
			words[i] = name + "="
		} else if i > 0 && isSecretFlag(words[i-1]) {
			words[i] = ""
		}
	}
	return strings.Join(words, " ")
}

func isSecretFlag(argument any) bool {
	text, _ := argument.(string)
	return strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && isConfidential(text)
}

// isConfidential reports whether values of a name may be confidential: not if it names an object.
func isConfidential(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return !strings.HasSuffix(name, "name") && !strings.HasSuffix(name, "ref") && slices.ContainsFunc(confidential, func(part string) bool { return strings.Contains(name, part) })
}

// isWord reports whether a text may be a name, a number, a version, an image or an option.
func isWord(text string) bool {
	return len(text) <= longestWord && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}
