package config

import (
	"fmt"
	"path"
	"slices"
)

// Trust says whose annotations count, for AllowAnnotation and owners of finalizers. On cluster-scoped objects
// other than Namespaces they always do: only cluster administrators can set them.
type Trust struct {
	// Namespaces are names or patterns ("team-*"). They include the annotations on the Namespace itself.
	Namespaces []string `json:"namespaces,omitempty"`
	// Subjects are users and groups whose AllowAnnotation counts everywhere.
	Subjects []string `json:"subjects,omitempty"`
}

// TrustAll is the default.
var TrustAll = Trust{Namespaces: []string{"*"}}

func (t Trust) check() error {
	for _, pattern := range t.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("trustAnnotations.namespaces: %q: %w", pattern, err)
		}
	}
	return nil
}

// TrustsNamespace reports whether annotations count in a namespace, "" for cluster-scoped objects.
func (t Trust) TrustsNamespace(namespace string) bool {
	return namespace == "" || slices.ContainsFunc(t.Namespaces, func(pattern string) bool {
		matches, _ := path.Match(pattern, namespace) // valid
		return matches
	})
}

// TrustsUser reports whether the user or one of the groups is a subject.
func (t Trust) TrustsUser(user string, groups []string) bool {
	return slices.ContainsFunc(t.Subjects, func(subject string) bool {
		return subject == user || slices.Contains(groups, subject)
	})
}
