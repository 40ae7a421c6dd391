package config

import (
	"fmt"
	"path"
	"slices"
)

// Trust says whose annotations count: AllowAnnotation, and the one that declares
// who removes finalizers. Those of objects in no namespace but Namespaces
// themselves always do: only who may edit what all share can set them.
type Trust struct {
	// Namespaces are those where annotations count, by name or as a pattern
	// ("team-*"). A Namespace is in itself.
	Namespaces []string `json:"namespaces,omitempty"`
	// Subjects are users and groups whose requests heed AllowAnnotation
	// everywhere.
	Subjects []string `json:"subjects,omitempty"`
}

// Everybody is trusted where nothing is configured.
var Everybody = Trust{Namespaces: []string{"*"}}

func (t Trust) check() error {
	for _, pattern := range t.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("trustAnnotations.namespaces: %q: %w", pattern, err)
		}
	}
	return nil
}

// Place tells whether annotations count on the objects of a namespace, "" for
// those in none.
func (t Trust) Place(namespace string) bool {
	return namespace == "" || slices.ContainsFunc(t.Namespaces, func(pattern string) bool {
		matches, _ := path.Match(pattern, namespace) // patterns were checked
		return matches
	})
}

// Person tells whether a user is among the subjects, or in a group that is.
func (t Trust) Person(user string, groups []string) bool {
	return slices.ContainsFunc(t.Subjects, func(subject string) bool {
		return subject == user || slices.Contains(groups, subject)
	})
}
