// Package check answers, for a person, whether a deletion will finish: it finds the object, evaluates the
// policies as the webhook would, and writes the answer as JSON, YAML or text.
package check
