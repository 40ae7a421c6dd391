// Package policies answers, in Rego, whether a deletion will finish.
//
// A policy is a folder: FOLDER/FOLDER.rego, package termguard.FOLDER, with its
// tests, fixtures and a generated README beside it. There is no registry: the
// folders are it. A policy offers the sets deny (it will hang) and warn (it may
// hang, will be slow, or is unwise) over input, data.cluster and data.params,
// whose shapes are in schema/. What is true of all its findings stands in the
// METADATA of its package.
//
// The package knows nothing of Kubernetes clients: facts come as plain maps.
package policies

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Tests are embedded with the rest, for a pattern cannot leave them out: they
// are a few kilobytes, and Load skips them.
//
//go:embed termguard.rego kinds.json schema/*.json */*.rego lib/*/*.rego
var embedded embed.FS

// Embedded are the policies in the binary.
func Embedded() fs.FS { return named{embedded, "policies"} }

// Digest tells sets of policies in the binary apart: "sha256:", and the SHA-256 of what
// is loaded of them, file by file.
func Digest() string {
	sum := sha256.New()
	// What is embedded can be read.
	_ = fs.WalkDir(embedded, ".", func(file string, d fs.DirEntry, _ error) error {
		if !d.IsDir() && !isTest(file) {
			text, _ := embedded.ReadFile(file)
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
		return nil
	})
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// Trigger is on what policies are asked: question.Trigger in fewer words, as METADATA has it.
type Trigger string

// The triggers.
const (
	Delete        Trigger = "delete"         // a DELETE, or the CREATE of an eviction
	FinalizerEdit Trigger = "finalizer-edit" // an UPDATE that changes finalizers, or of namespaces/finalize
	Apply         Trigger = "apply"          // a manifest that is about to be applied
)

// Triggers are all of them.
func Triggers() []Trigger { return []Trigger{Delete, FinalizerEdit, Apply} }

// Certainty is how sure a finding is.
type Certainty string

// How sure a finding is.
const (
	Will Certainty = "will" // from deny
	May  Certainty = "may"  // from warn
)

// Kind is what a finding is about.
type Kind string

// The kinds of findings.
const (
	KindHang      Kind = ""          // the deletion starts, and does not finish
	KindRefused   Kind = "refused"   // the API server refuses the request at once, and nothing happens
	KindForbidden Kind = "forbidden" // a rule of people's own says that it must not be
)

// findingKinds are those that a policy names; without one it is a hang.
var findingKinds = []string{string(KindRefused), string(KindForbidden)}

// Severity is how much a finding matters. Findings of severity Info do not
// touch the verdict.
type Severity string

// The severities, the gravest first.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
	Info   Severity = "info"
	// None is only of a Manifest: lint does not tell it.
	None Severity = "none"
)

var severities = []Severity{High, Medium, Low, Info}

// Policy is what the METADATA of a policy's package says.
type Policy struct {
	ID               string     `json:"id"` // kebab-case of Folder
	Title            string     `json:"title"`
	Description      string     `json:"description"`
	Severity         Severity   `json:"severity"`
	Triggers         []Trigger  `json:"triggers"`
	Resources        []string   `json:"resources,omitempty"` // plural, plural.group, or pods/eviction; all, if empty
	Needs            []string   `json:"needs,omitempty"`     // documents, of which one must be there
	ReliesOn         []Reliance `json:"reliesOn,omitempty"`
	Class            Class      `json:"-"`      // Broken, if empty
	Symptom          bool       `json:"-"`      // what it finds has a cause that another policy may tell
	Remedy           string     `json:"remedy"` // unless a finding brings its own
	Limits           string     `json:"limits"` // what the policy cannot see
	RelatedResources []Resource `json:"relatedResources"`
	// Aliases are policies that tell the same on another trigger: lint takes a wish
	// to ignore one of them for one about this policy, too.
	Aliases  []string `json:"aliases,omitempty"`
	Manifest Manifest `json:"manifest,omitzero"`
	// Custom is set for one that is not in the binary: whoever wrote it only advises.
	Custom bool `json:"-"`
	// ReadsObject is set for a custom one that may read more of the object than a snapshot
	// holds, and ReadsUser for one that may read who asks.
	ReadsObject bool   `json:"-"`
	ReadsUser   bool   `json:"-"`
	Folder      string `json:"folder"`
	File        string `json:"file"` // with the policy's METADATA
}

// ref is a rule of the policy.
func (p *Policy) ref(rule string) ast.Ref {
	return ast.MustParseRef("data.termguard." + p.Folder + "." + rule)
}

// sets are the names of those that the policy offers: deny, warn, or both.
func (p *Policy) sets(compiler *ast.Compiler) []string {
	return slices.DeleteFunc([]string{"deny", "warn"}, func(rule string) bool { return len(compiler.GetRulesExact(p.ref(rule))) == 0 })
}

// Manifest is how a finding is told to somebody who wrote a manifest, and can change
// no cluster. What is empty is told as to everybody else.
type Manifest struct {
	Severity Severity `json:"severity,omitempty"`
	Remedy   string   `json:"remedy,omitempty"` // a change to the manifest
	// Once tells findings with the same second object as one, in whatever files
	// they stand.
	Once bool `json:"once,omitempty"`
}

// Reliance names kinds that a policy must see: while one is hidden from the facts,
// the policy's silence means nothing.
type Reliance struct {
	// Kinds are resources, as plural or plural.group. $CONTENT are those that are
	// namespaced, $INSTANCES that of the definition under review, $REFERRERS those
	// whose objects may refer to the object under review, and $ELSEWHERE what rights hide
	// in other namespaces.
	Kinds []string `json:"kinds"`
	// Except are kinds that do not matter after all.
	Except []string `json:"except,omitempty"`
	// For are the resources that the policy is asked about when it relies on the
	// kinds; all that it is asked about, if empty. $FINALIZERS stands for every
	// object with finalizers, $CUSTOM for one of a kind that is not one of Kubernetes.
	For []string `json:"for,omitempty"`
}

// Resource is a source that a policy rests on.
type Resource struct {
	Ref         string `json:"ref"`
	Description string `json:"description,omitempty"`
}

// Object is a Kubernetes object.
type Object struct {
	Resource  string `json:"resource"` // plural, or plural.group
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Finding is one reason why a deletion does not finish.
type Finding struct {
	Policy    string    `json:"policy"`
	Title     string    `json:"title"`
	Certainty Certainty `json:"certainty"`
	Severity  Severity  `json:"severity"`
	Kind      Kind      `json:"kind,omitempty"`
	// Message is one sentence of at most MaxMessage characters.
	Message string `json:"message"`
	// Objects are the blockers, the most telling first.
	Objects  []Object `json:"objects"`
	Evidence []string `json:"evidence"`
	// EstimateSeconds is how long the deletion takes, where it completes.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// Field is a path in the manifest of Objects[0], as in
	// "spec.finalizers[1]"; "" where none is to blame.
	Field string `json:"field,omitempty"`
	// Remedy is the way out, in prose; Steps tell it step by step, where the
	// policy can.
	Remedy string `json:"remedy"`
	Steps  []Step `json:"steps,omitempty"`
	// Cause is what is to blame, where the policy tells.
	Cause Cause `json:"-"`
	// Manifest is how it is told of a manifest.
	Manifest Manifest `json:"-"`
	// Class, Symptom and Custom are those of the policy.
	Class   Class `json:"-"`
	Symptom bool  `json:"-"`
	Custom  bool  `json:"-"`
}

// Cause is what holds a deletion up, and may hold up others.
type Cause struct {
	// Title says what it is, without the objects that it holds.
	Title string `json:"title,omitempty"`
	// Finalizer is the one that is not removed, and Owner who should remove it, where that one is
	// to blame.
	Finalizer string `json:"finalizer,omitempty"`
	Owner     *Owner `json:"owner,omitempty"`
}

// Owner is who removes a finalizer, "" where nobody knows, and what is known of it.
type Owner struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Class is what is to be done about what a policy finds.
type Class string

// The classes.
const (
	Broken Class = "broken" // mend it
	Order  Class = "order"  // nothing is wrong: something else has to be deleted first
	Rule   Class = "rule"   // somebody, or Kubernetes, wants it so
)

// StepKind is what a step costs.
type StepKind string

// The kinds of steps, in the order in which they are tried.
const (
	Mend   StepKind = "mend"   // restores what the deletion waits for
	Remove StepKind = "remove" // gives up one thing that nobody is left for
	Force  StepKind = "force"  // gives up more than that: Do names the price
)

// StepKinds are all kinds of steps, the safest first.
func StepKinds() []StepKind { return []StepKind{Mend, Remove, Force} }

// Step is one thing to do so that the deletion finishes.
type Step struct {
	Kind StepKind `json:"kind"`
	Do   string   `json:"do"`
	// Command is a shell line that does it as it stands; "" where that takes
	// a person's judgement.
	Command string `json:"command,omitempty"`
	// Action is what Command does, where termguard can do it by itself. None is without
	// a Command.
	Action *Action `json:"action,omitempty"`
	// Hearsay is what the step rests on where a tenant can write that, as an Event; ""
	// where it rests on what only the cluster's own parts write.
	Hearsay string `json:"hearsay,omitempty"`
}

// Says is what a finding means, in front of its message: "will hang".
func (f Finding) Says() string {
	switch {
	case f.Kind == KindRefused:
		return string(f.Certainty) + " be refused"
	case f.Kind == KindForbidden && f.Certainty == Will:
		return "forbidden"
	case f.Kind == KindForbidden:
		return "may be forbidden"
	}
	return string(f.Certainty) + " hang"
}

// compare orders findings by what a reader needs first.
func (f Finding) compare(g Finding) int {
	certainty := func(c Certainty) int { return slices.Index([]Certainty{Will, May}, c) }
	return cmp.Or(
		cmp.Compare(certainty(f.Certainty), certainty(g.Certainty)),
		cmp.Compare(slices.Index(severities, f.Severity), slices.Index(severities, g.Severity)),
		cmp.Compare(f.Policy, g.Policy),
		cmp.Compare(f.Message, g.Message),
	)
}

// Result is what the policies say about one request.
type Result struct {
	// Findings are sorted: will before may, then by severity, policy, message.
	Findings []Finding
	// Omitted counts findings beyond MaxFindings of a policy.
	Omitted int
	// Errors are policies that failed, and findings that are malformed, each a
	// PolicyError. What the others found still counts.
	Errors []error
	// Unseen are the resources that matter to the request and are hidden from
	// the facts, each with the reason: "kialis.kiali.io: forbidden".
	Unseen []string
	// Readers are the custom policies that may concern the request, and read more of its
	// object than a snapshot holds, by ID; UserReaders those that read who asks.
	Readers, UserReaders []string
}

// OfStub is the result where no more of the object was known than a snapshot holds: what
// Readers found, or did not, says nothing, and is left out. where is what held no more, as
// in "a snapshot".
func (r Result) OfStub(where string) Result {
	return r.without(r.Readers, fmt.Sprintf("it reads the object, of which %s holds the name and the finalizers, no labels, annotations or spec: ask in the cluster", where))
}

// OfNobody is the result where it is not known who asks: what UserReaders found, or did
// not, says nothing, and is left out.
func (r Result) OfNobody() Result {
	return r.without(r.UserReaders, "it reads who asks, which is not known here: ask in the cluster, as whoever would delete")
}

// without is the result but for what some policies said, with why they count as not asked.
func (r Result) without(ids []string, why string) Result {
	of := func(id string) bool { return slices.Contains(ids, id) }
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return of(f.Policy) })
	r.Errors = slices.DeleteFunc(slices.Clone(r.Errors), func(err error) bool {
		var failed PolicyError
		return errors.As(err, &failed) && of(failed.Policy)
	})
	r.Unseen = slices.Clone(r.Unseen)
	for _, id := range ids {
		r.Unseen = append(r.Unseen, fmt.Sprintf("policy %s: not asked: %s", id, why))
	}
	return r
}

// PolicyError is what went wrong with one policy.
type PolicyError struct {
	Policy string
	Custom bool // as that of the policy
	Err    error
}

func (e PolicyError) Error() string { return "policy " + e.Policy + ": " + e.Err.Error() }

// Unwrap is for package errors.
func (e PolicyError) Unwrap() error { return e.Err }

// Whole tells whether all policies of the binary answered. What a custom one fails to say,
// or says that is no finding, takes nothing from what the others found.
func (r Result) Whole() bool {
	return !slices.ContainsFunc(r.Errors, func(err error) bool {
		var of PolicyError
		return !errors.Is(err, ErrMalformed) && !(errors.As(err, &of) && of.Custom)
	})
}

// Verdict is the answer in one word.
type Verdict string

// The verdicts.
const (
	Refused   Verdict = "refused"   // the request itself is refused, or forbidden: nothing starts
	Hangs     Verdict = "hangs"     // at least one "will"
	AtRisk    Verdict = "at-risk"   // only "may"
	Completes Verdict = "completes" // neither, and nothing that matters is unseen
	Unknown   Verdict = "unknown"   // otherwise
)

// Verdict weighs the findings. A policy that failed has seen nothing, so that
// without findings the verdict is Unknown.
func (r Result) Verdict() Verdict {
	verdict := Completes
	if len(r.Unseen) > 0 || len(r.Errors) > 0 {
		verdict = Unknown
	}
	for _, f := range r.Findings {
		switch {
		case f.Severity == Info:
		case f.Certainty == Will && f.Kind != KindHang:
			return Refused
		case f.Certainty == Will:
			verdict = Hangs
		case verdict != Hangs:
			verdict = AtRisk
		}
	}
	return verdict
}
