package config

import (
	"fmt"
	"path"
	"slices"
)

// Trust restricts whose annotations count: AllowAnnotation, and the annotation that declares a finalizer's
// owner. On cluster-scoped objects other than Namespaces they always count, because only cluster
// administrators can set them.
type Trust struct {
	// Namespaces are the namespaces whose annotations count, as names or patterns ("team-*"). They include
	// the annotations on the Namespace itself.
	Namespaces []string `json:"namespaces,omitempty"`
	// Subjects are users and groups whose AllowAnnotation counts everywhere.
	Subjects []string `json:"subjects,omitempty"`
}

// Everybody is the default: all annotations count.
var Everybody = Trust{Namespaces: []string{"*"}}

func (t Trust) check() error {
	for _, pattern := range t.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("trustAnnotations.namespaces: %q: %w", pattern, err)
		}
	}
	return nil
}

// Place reports whether annotations count in a namespace, "" for cluster-scoped objects.
func (t Trust) Place(namespace string) bool {
	return namespace == "" || slices.ContainsFunc(t.Namespaces, func(pattern string) bool {
		matches, _ := path.Match(pattern, namespace) // the patterns are valid
		return matches
	})
}

// Person reports whether the user or one of the groups is a subject.
func (t Trust) Person(user string, groups []string) bool {
	return slices.ContainsFunc(t.Subjects, func(subject string) bool {
		return subject == user || slices.Contains(groups, subject)
	})
}
