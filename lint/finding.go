package lint

import (
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

// Question is an operation that is evaluated about an object.
type Question string

const (
	DeleteObject    Question = "delete" // this object is deleted later
	DeleteNamespace Question = "delete-namespace"
	DeleteSet       Question = "delete-set" // kubectl delete -f runs on the whole set
	ApplyObject     Question = "apply"
)

// Finding is a policy's finding at a place.
type Finding struct {
	policies.Finding
	Question Question `json:"question"`
	// Target is the object that is deleted or applied.
	Target policies.Object `json:"target"`
	// Object is the object of the manifest at the finding's place.
	Object policies.Object `json:"object"`
	Place  files.Place     `json:"place"`
	// Fingerprint is set by SetFingerprints.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Kustomization is the folder that the object was rendered from, or "".
	Kustomization string `json:"-"`
	// Set numbers the sets of a run.
	Set int64 `json:"-"`
}

// AtLeast reports whether a finding has at least a severity; none has "never".
func (f Finding) AtLeast(severity string) bool {
	limit := policies.Severity(severity)
	return limit.Compare(policies.None) != 0 && f.Severity.Compare(limit) <= 0
}
