// Package lint asks the policies about manifests: if this is deleted later, if
// its namespace is, if kubectl delete -f runs on all of it, and if it is
// applied. It never opens a network connection.
package lint

import "github.com/termguard/termguard/policies"

// Question is what was asked about an object.
type Question string

// The questions.
const (
	DeleteObject    Question = "delete"           // if this object is deleted later
	DeleteNamespace Question = "delete-namespace" // if its namespace is deleted
	DeleteSet       Question = "delete-set"       // if kubectl delete -f runs on the whole set
	ApplyObject     Question = "apply"            // if it is applied
)

// Finding is what a policy says, at the place in a file where it says it.
type Finding struct {
	policies.Finding
	Question Question `json:"question"`
	// Target is what the question is about: what is deleted, or applied.
	Target policies.Object `json:"target"`
	// Object is the object of the manifest that the finding stands at.
	Object policies.Object `json:"object"`
	Place  Place           `json:"place"`
	// Value is what the field of the finding holds, as the name of a finalizer; ""
	// where that is no scalar.
	Value string `json:"-"`
	// Kustomization is the folder of the one that the object was rendered from, "" where it
	// is in a file of its own.
	Kustomization string `json:"-"`
}

// Place is where something stands in a file.
type Place struct {
	File      string `json:"file"`   // as given or found, with forward slashes
	Line      int    `json:"line"`   // from 1, in the file
	Column    int    `json:"column"` // from 1, in characters
	EndColumn int    `json:"endColumn,omitempty"`
	Source    string `json:"source,omitempty"`   // the line, without its end
	Rendered  string `json:"rendered,omitempty"` // the template that it was rendered from, as its source comment says
}

// Problem is an input that could not be read, or only in part. Others are
// reported all the same.
type Problem struct {
	Place
	Message string `json:"message"`
}

// Mark is a wish of the manifests' author not to hear something: the text of a
// "# termguard:ignore" comment after that word, or the value of the annotation
// termguard.dev/ignore. It holds for places in File from line From to line To.
type Mark struct {
	Place
	Text     string
	From, To int
}

// Result is what a run found. It is sorted by place, then policy.
type Result struct {
	Findings []Finding `json:"findings"`
	Problems []Problem `json:"problems"`
	Marks    []Mark    `json:"-"`
	// Notes are said once for the run: what was skipped and how to have it
	// looked at, what only a cluster can tell.
	Notes     []string `json:"notes"`
	Files     int      `json:"files"`
	Documents int      `json:"documents"`
	Objects   int      `json:"objects"`
	Skipped   int      `json:"skipped"` // documents that are no Kubernetes objects
	Tests     int      `json:"tests"`   // files and objects left out, for only tests read them
}
