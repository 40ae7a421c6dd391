// Package policies evaluates, in Rego, whether a deletion will finish.
//
// A policy is FOLDER/FOLDER.rego, package termguard.FOLDER, with tests, fixtures and a generated README. It
// defines the sets deny (it will hang) and warn (it may hang, will be slow, or is unwise) over input,
// data.cluster and data.params, with schemas in schema/. METADATA applies to all its findings.
//
// The package does not depend on Kubernetes clients: facts are plain maps.
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

// Tests are embedded, too: a pattern cannot exclude them.
//
//go:embed termguard.rego kinds.json schema/*.json */*.rego lib/*/*.rego
var embedded embed.FS

func Embedded() fs.FS { return namedFS{embedded, "policies"} }

// Digest is the SHA-256 of the built-in policies.
func Digest() string {
	sum := sha256.New()
	_ = fs.WalkDir(embedded, ".", func(file string, d fs.DirEntry, _ error) error {
		if !d.IsDir() && !isTest(file) {
			text, _ := embedded.ReadFile(file)
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
		return nil
	})
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// Trigger is an operation to evaluate, as METADATA has it (see question.Trigger).
type Trigger string

const (
	Delete        Trigger = "delete"         // a DELETE, or the CREATE of an eviction
	FinalizerEdit Trigger = "finalizer-edit" // an UPDATE that changes finalizers, or of namespaces/finalize
	Apply         Trigger = "apply"          // a manifest, before it is applied
)

func Triggers() []Trigger { return []Trigger{Delete, FinalizerEdit, Apply} }

// Certainty is how sure a finding is.
type Certainty string

const (
	Will Certainty = "will" // from deny
	May  Certainty = "may"  // from warn
)

// Kind is the effect that a finding predicts.
type Kind string

const (
	KindHang      Kind = ""          // the deletion starts, and does not finish
	KindRefused   Kind = "refused"   // nothing happens
	KindForbidden Kind = "forbidden" // a user's own rule forbids it
)

var findingKinds = []string{string(KindRefused), string(KindForbidden)}

// Severity is how much a finding matters. Info does not affect the verdict.
type Severity string

// The severities, the highest first.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
	Info   Severity = "info"
	// None is only for a Manifest: lint does not report it.
	None Severity = "none"
)

var severities = []Severity{High, Medium, Low, Info}

// Policy is METADATA.
type Policy struct {
	ID               string     `json:"id"` // kebab-case of Folder
	Title            string     `json:"title"`
	Description      string     `json:"description"`
	Severity         Severity   `json:"severity"`
	Triggers         []Trigger  `json:"triggers"`
	Resources        []string   `json:"resources,omitempty"` // plural, plural.group, or pods/eviction; all, if empty
	Needs            []string   `json:"needs,omitempty"`     // documents, one of which must exist
	ReliesOn         []Reliance `json:"reliesOn,omitempty" yaml:"relies_on"`
	Class            Class      `json:"-"`      // Broken, if empty
	Symptom          bool       `json:"-"`      // another policy may report the cause
	Remedy           string     `json:"remedy"` // unless a finding has its own
	Limits           string     `json:"limits"` // facts that it cannot see
	RelatedResources []Resource `json:"relatedResources"`
	// Aliases are policies with the same findings on another trigger: lint's ignores for one apply to this one.
	Aliases  []string `json:"aliases,omitempty"`
	Manifest Manifest `json:"manifest,omitzero"`
	// Custom policies are not built in: their authors only advise.
	Custom bool `json:"-"`
	// ReadsObject says that a custom policy may read more than a snapshot holds, and ReadsUser the user.
	ReadsObject bool   `json:"-"`
	ReadsUser   bool   `json:"-"`
	Folder      string `json:"folder"`
	File        string `json:"file"`
}

func (p *Policy) ref(rule string) ast.Ref {
	return ast.MustParseRef("data.termguard." + p.Folder + "." + rule)
}

func (p *Policy) sets(compiler *ast.Compiler) []string {
	return slices.DeleteFunc([]string{"deny", "warn"}, func(rule string) bool { return len(compiler.GetRulesExact(p.ref(rule))) == 0 })
}

// Manifest overrides a finding for authors of manifests, who cannot change the cluster.
type Manifest struct {
	Severity Severity `json:"severity,omitempty"`
	Remedy   string   `json:"remedy,omitempty"` // a change to the manifest
	// Once merges findings with the same second object across files.
	Once bool `json:"once,omitempty"`
}

// Reliance names kinds that a policy must see: while one is hidden, the absence of findings means nothing.
type Reliance struct {
	// Kinds are plural or plural.group, or placeholders.
	Kinds  []string `json:"kinds"`
	Except []string `json:"except,omitempty"`
	// For limits it to requests about these resources; all, if empty.
	For []string `json:"for,omitempty"`
}

// Resource is a source of a policy.
type Resource struct {
	Ref         string `json:"ref"`
	Description string `json:"description,omitempty"`
}

// Object names a Kubernetes object.
type Object struct {
	Resource  string `json:"resource"` // plural, or plural.group
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Ref returns the object as kubectl takes it.
func (o Object) Ref() string { return o.In("") }

// In is Ref without the namespace home.
func (o Object) In(home string) string {
	text := o.Resource
	if o.Name != "" {
		text += "/" + o.Name
	}
	if o.Namespace != "" && o.Namespace != home {
		text += " -n " + o.Namespace
	}
	return text
}

// Finding is one reason why a deletion does not finish.
type Finding struct {
	Policy    string    `json:"policy"`
	Title     string    `json:"title"`
	Certainty Certainty `json:"certainty"`
	Severity  Severity  `json:"severity"`
	Kind      Kind      `json:"kind,omitempty"`
	// Message is one sentence, up to MaxMessage characters.
	Message string `json:"message"`
	// Objects are the blockers, the most important first.
	Objects  []Object `json:"objects"`
	Evidence []string `json:"evidence"`
	// EstimateSeconds is how long the deletion takes, if it completes.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// Field is a path in the manifest of Objects[0], such as "spec.finalizers[1]".
	Field string `json:"field,omitempty"`
	// Remedy is the solution in prose, and Steps step by step.
	Remedy string `json:"remedy"`
	Steps  []Step `json:"steps,omitempty"`
	// Cause is what the policy blames, as far as it says.
	Cause    Cause    `json:"cause,omitzero"`
	Manifest Manifest `json:"-"`
	// Class, Symptom and Custom are the policy's.
	Class   Class `json:"-"`
	Symptom bool  `json:"-"`
	Custom  bool  `json:"-"`
}

// Cause blocks a deletion, and may block others.
type Cause struct {
	// Title does not name the blocked objects.
	Title string `json:"title,omitempty"`
	// Object is the object to blame, and Node the name of a node on which something is wrong.
	Object *Object `json:"object,omitempty"`
	Node   string  `json:"node,omitempty"`
	// Finalizer is the blocking finalizer, and Owner its owner.
	Finalizer string `json:"finalizer,omitempty"`
	Owner     *Owner `json:"owner,omitempty"`
	// Refusal is a webhook or admission policy, as the facts name it: webhook/TYPE/….
	Refusal string `json:"refusal,omitempty"`
	// Declared says that an annotation names the owner, which a tenant may have written.
	Declared bool `json:"declared,omitempty"`
	// Consequence: the finding only counts what other causes hold. Elapsed: its message says how long the target
	// has been Terminating.
	Consequence bool `json:"consequence,omitempty"`
	Elapsed     bool `json:"elapsed,omitempty"`
}

// Owner removes a finalizer; its Name is "" if unknown.
type Owner struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

type Class string

const (
	Broken Class = "broken" // repair it
	Order  Class = "order"  // delete something else first; nothing is wrong
	Rule   Class = "rule"   // a user or Kubernetes prevents it on purpose
)

// StepKind is the cost of a step.
type StepKind string

// The kinds of steps, in the order to try them.
const (
	Mend   StepKind = "mend"   // restores a prerequisite of the deletion
	Remove StepKind = "remove" // gives up one thing without an owner
	Force  StepKind = "force"  // gives up more: Do names the price
)

// StepKinds returns the safest first.
func StepKinds() []StepKind { return []StepKind{Mend, Remove, Force} }

// Step is a step towards the end of the deletion.
type Step struct {
	Kind StepKind `json:"kind"`
	Do   string   `json:"do"` // with the promise
	// Act is Do without Then.
	Then Promise `json:"then,omitempty"`
	Act  string  `json:"-"`
	// Command is a complete shell line; "" if the step takes human judgement.
	Command string `json:"command,omitempty"`
	// Action is the operation of Command, if termguard can execute it.
	Action *Action `json:"action,omitempty"`
	// Hearsay is the source of the step if a tenant can write it, such as an Event.
	Hearsay string `json:"hearsay,omitempty"`
}

// Promise follows a step if nothing else blocks.
type Promise string

const (
	DeleteAgain    Promise = "again"  // the user deletes again
	FinishesItself Promise = "itself" // the begun deletion finishes
)

var promises = map[Promise]string{DeleteAgain: ", then delete again", FinishesItself: ", and the deletion finishes by itself"}

func (s Step) WithPromise(then Promise) Step {
	s.Then, s.Act, s.Do = then, s.Do, s.Do+promises[then]
	return s
}

func (s Step) WithoutPromise() string { return cmp.Or(s.Act, s.Do) }

// Says is the verdict in front of a message: "will hang".
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

// Compare is negative if s is the higher severity.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(severities, s), slices.Index(severities, other))
}

func (f Finding) compare(g Finding) int {
	certainty := func(c Certainty) int { return slices.Index([]Certainty{Will, May}, c) }
	return cmp.Or(
		cmp.Compare(certainty(f.Certainty), certainty(g.Certainty)),
		f.Severity.Compare(g.Severity),
		cmp.Compare(f.Policy, g.Policy),
		cmp.Compare(f.Message, g.Message),
	)
}

// Result is the policies' answer about one request.
type Result struct {
	// Findings are sorted as compare does.
	Findings []Finding
	Omitted  int
	// Errors are PolicyErrors; other findings still count.
	Errors []error
	// Unseen are hidden resources that matter.
	Unseen []Unseen
	// Readers are relevant custom policies with ReadsObject, and UserReaders with ReadsUser.
	Readers, UserReaders []string
}

// WithoutObject omits Readers' answers, which need more than the source (where) has.
func (r Result) WithoutObject(where string) Result {
	return r.without(r.Readers, fmt.Sprintf("it reads the object, and %s has only its name and finalizers: check in the cluster", where))
}

// WithoutUser omits UserReaders' answers, for an unknown user.
func (r Result) WithoutUser() Result {
	return r.without(r.UserReaders, "it reads the user, who is unknown here: check in the cluster, as the user who would delete")
}

func (r Result) without(ids []string, why string) Result {
	of := func(id string) bool { return slices.Contains(ids, id) }
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return of(f.Policy) })
	r.Errors = slices.DeleteFunc(slices.Clone(r.Errors), func(err error) bool {
		var failed PolicyError
		return errors.As(err, &failed) && of(failed.Policy)
	})
	r.Unseen = slices.Clone(r.Unseen)
	for _, id := range ids {
		r.Unseen = append(r.Unseen, Unseen{What: "policy " + id, Reason: "not evaluated: " + why})
	}
	return r
}

type PolicyError struct {
	Policy string
	Custom bool // as in Policy
	Err    error
}

func (e PolicyError) Error() string { return "policy " + e.Policy + ": " + e.Err.Error() }

func (e PolicyError) Unwrap() error { return e.Err }

// Complete reports whether all built-in policies were evaluated.
func (r Result) Complete() bool {
	return !slices.ContainsFunc(r.Errors, func(err error) bool {
		var of PolicyError
		return !errors.Is(err, ErrMalformed) && !(errors.As(err, &of) && of.Custom)
	})
}

// Verdict is the answer in one word.
type Verdict string

const (
	Refused   Verdict = "refused"   // or forbidden: nothing starts
	Hangs     Verdict = "hangs"     // at least one "will"
	AtRisk    Verdict = "at-risk"   // only "may"
	Completes Verdict = "completes" // nothing relevant is unseen
	Unknown   Verdict = "unknown"   // otherwise
)

// verdicts begin with the best.
var verdicts = []Verdict{Completes, Unknown, AtRisk, Hangs, Refused}

// Compare is positive if v is worse than other.
func (v Verdict) Compare(other Verdict) int {
	return cmp.Compare(slices.Index(verdicts, v), slices.Index(verdicts, other))
}

func Worst(first Verdict, others ...Verdict) Verdict {
	for _, other := range others {
		if other.Compare(first) > 0 {
			first = other
		}
	}
	return first
}

// Verdict is Unknown without findings if a policy failed.
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
