// Package lint evaluates policies about manifests, as if they were applied, or deleted alone, with their
// namespace or all at once. It never opens a network connection.
package lint

import "github.com/termguard/termguard/policies"

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
	Place  Place           `json:"place"`
	// Fingerprint is set by SetFingerprints.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Value of the finding's field, such as the name of a finalizer; "" if it is no scalar.
	Value string `json:"-"`
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

// Place is a place in a file.
type Place struct {
	File      string `json:"file"`   // as given or found, with forward slashes
	Line      int    `json:"line"`   // from 1
	Column    int    `json:"column"` // from 1, in characters
	EndColumn int    `json:"endColumn,omitempty"`
	Source    string `json:"source,omitempty"`   // the line, without its end
	Rendered  string `json:"rendered,omitempty"` // the template, as its source comment says
}

// Problem is an input that could not be read, or only in part.
type Problem struct {
	Place
	Message string `json:"message"`
}

// Mark ignores findings in lines From to To. Text follows "# termguard:ignore", or is the annotation's.
type Mark struct {
	Place
	Text     string
	From, To int
}

// Result is the result of a run, sorted by place, then policy.
type Result struct {
	Findings []Finding `json:"findings"`
	Problems []Problem `json:"problems"`
	Marks    []Mark    `json:"-"`
	// Notes apply to the whole run, such as skipped inputs and how to include them.
	Notes []string `json:"notes"`
	Counts
}

// Counts count the input.
type Counts struct {
	Files     int `json:"files"`
	Documents int `json:"documents"`
	Objects   int `json:"objects"`
	Skipped   int `json:"skipped"` // no Kubernetes objects
	Tests     int `json:"tests"`   // left out, as only tests read them
}
