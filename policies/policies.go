// Package policies evaluates, in Rego, whether a deletion will finish.
//
// A policy is a folder: FOLDER/FOLDER.rego, package termguard.FOLDER, with tests, fixtures and a generated
// README. It defines the sets deny (it will hang) and warn (it may hang, will be slow, or is unwise) over
// input, data.cluster and data.params, with schemas in schema/. The METADATA of its package applies to all
// its findings.
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

// Tests are embedded, too, since a pattern cannot exclude them: they are a few kilobytes, and Load skips
// them.
//
//go:embed termguard.rego kinds.json schema/*.json */*.rego lib/*/*.rego
var embedded embed.FS

// Embedded returns the built-in policies.
func Embedded() fs.FS { return namedFS{embedded, "policies"} }

// Digest identifies the built-in policies by the SHA-256 of their files.
func Digest() string {
	sum := sha256.New()
	// Embedded files can be read.
	_ = fs.WalkDir(embedded, ".", func(file string, d fs.DirEntry, _ error) error {
		if !d.IsDir() && !isTest(file) {
			text, _ := embedded.ReadFile(file)
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
		return nil
	})
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// Trigger is an operation that policies are evaluated about, as METADATA has it (see question.Trigger).
type Trigger string

const (
	Delete        Trigger = "delete"         // a DELETE, or the CREATE of an eviction
	FinalizerEdit Trigger = "finalizer-edit" // an UPDATE that changes finalizers, or of namespaces/finalize
	Apply         Trigger = "apply"          // a manifest that is about to be applied
)

// Triggers returns all triggers.
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
	KindRefused   Kind = "refused"   // the API server refuses the request: nothing happens
	KindForbidden Kind = "forbidden" // a user's own rule forbids it
)

// findingKinds are the kinds that a policy can name.
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

// Policy is the METADATA of a policy's package.
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
	// Aliases are policies with the same findings on another trigger: lint's ignores for one apply to this
	// policy, too.
	Aliases  []string `json:"aliases,omitempty"`
	Manifest Manifest `json:"manifest,omitzero"`
	// Custom policies are not built in: their authors only advise.
	Custom bool `json:"-"`
	// ReadsObject says that a custom policy may read more of the object than a snapshot holds, and ReadsUser
	// that it may read the user.
	ReadsObject bool   `json:"-"`
	ReadsUser   bool   `json:"-"`
	Folder      string `json:"folder"`
	File        string `json:"file"` // with METADATA
}

func (p *Policy) ref(rule string) ast.Ref {
	return ast.MustParseRef("data.termguard." + p.Folder + "." + rule)
}

// sets returns deny, warn, or both.
func (p *Policy) sets(compiler *ast.Compiler) []string {
	return slices.DeleteFunc([]string{"deny", "warn"}, func(rule string) bool { return len(compiler.GetRulesExact(p.ref(rule))) == 0 })
}

// Manifest overrides parts of a finding for authors of manifests, who cannot change the cluster.
type Manifest struct {
	Severity Severity `json:"severity,omitempty"`
	Remedy   string   `json:"remedy,omitempty"` // a change to the manifest
	// Once merges findings with the same second object across files.
	Once bool `json:"once,omitempty"`
}

// Reliance names kinds that a policy must see: while one is hidden, the absence of findings means nothing.
type Reliance struct {
	// Kinds are plural or plural.group. $CONTENT are namespaced ones, $INSTANCES custom resources of the
	// definition under review, $REFERRERS resources that may refer to the object, and $ELSEWHERE resources
	// hidden in other namespaces.
	Kinds  []string `json:"kinds"`
	Except []string `json:"except,omitempty"`
	// For limits it to requests about these resources; all, if empty. $FINALIZERS are objects with finalizers,
	// $CUSTOM custom resources.
	For []string `json:"for,omitempty"`
}

// Resource is a source that a policy is based on.
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
	// EstimateSeconds is for a deletion that completes.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// Field is a path in the manifest of Objects[0], such as "spec.finalizers[1]".
	Field string `json:"field,omitempty"`
	// Remedy is the solution in prose, Steps step by step.
	Remedy   string   `json:"remedy"`
	Steps    []Step   `json:"steps,omitempty"`
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
	// Object is to blame, or something on Node is.
	Object *Object `json:"object,omitempty"`
	Node   string  `json:"node,omitempty"`
	// Finalizer and Owner are set if they are the cause.
	Finalizer string `json:"finalizer,omitempty"`
	Owner     *Owner `json:"owner,omitempty"`
	// Refusal is the refusing webhook or admission policy, as the facts name it: webhook/TYPE/….
	Refusal string `json:"refusal,omitempty"`
	// Declared says that an annotation names the owner, which a tenant may have written.
	Declared bool `json:"declared,omitempty"`
	// Consequence: the finding only counts what other causes hold. Elapsed: its message says how long the object
	// has been Terminating.
	Consequence bool `json:"consequence,omitempty"`
	Elapsed     bool `json:"elapsed,omitempty"`
}

// Owner removes a finalizer; its Name is "" if unknown.
type Owner struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Class says how to deal with a finding.
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
	Mend   StepKind = "mend"   // restores the prerequisites of the deletion
	Remove StepKind = "remove" // gives up one thing without an owner
	Force  StepKind = "force"  // gives up more: Do names the price
)

// StepKinds returns all kinds of steps, the safest first.
func StepKinds() []StepKind { return []StepKind{Mend, Remove, Force} }

// Step is a step towards the end of the deletion.
type Step struct {
	Kind StepKind `json:"kind"`
	Do   string   `json:"do"` // with the promise
	// Then follows if nothing else blocks; Act is Do without it.
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
	Again  Promise = "again"  // the user deletes again
	Itself Promise = "itself" // the begun deletion finishes
)

var promises = map[Promise]string{Again: ", then delete again", Itself: ", and the deletion finishes by itself"}

// Promising returns the step with a promise.
func (s Step) Promising(then Promise) Step {
	s.Then, s.Act, s.Do = then, s.Do, s.Do+promises[then]
	return s
}

// Alone returns Do without the promise.
func (s Step) Alone() string { return cmp.Or(s.Act, s.Do) }

// Says returns the verdict in front of a message: "will hang".
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
	// Findings are sorted: will before may, then by severity, policy, message.
	Findings []Finding
	// Omitted counts findings beyond MaxFindings of a policy.
	Omitted int
	// Errors are failed policies and malformed findings, each a PolicyError. Other findings still count.
	Errors []error
	// Unseen are hidden resources that matter to the request.
	Unseen []Unseen
	// Readers are custom policies that may concern the request and read more of its object than a snapshot
	// holds; UserReaders read the user.
	Readers, UserReaders []string
}

// OfStub returns the result without Readers' answers, which need more of the object than its source (where)
// has.
func (r Result) OfStub(where string) Result {
	return r.without(r.Readers, fmt.Sprintf("it reads the object, of which %s holds the name and the finalizers, no labels, annotations or spec: ask in the cluster", where))
}

// OfNobody returns the result without UserReaders' answers, for an unknown user.
func (r Result) OfNobody() Result {
	return r.without(r.UserReaders, "it reads who asks, which is not known here: ask in the cluster, as whoever would delete")
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
		r.Unseen = append(r.Unseen, Unseen{What: "policy " + id, Reason: "not asked: " + why})
	}
	return r
}

// PolicyError is an error of one policy.
type PolicyError struct {
	Policy string
	Custom bool // as in Policy
	Err    error
}

func (e PolicyError) Error() string { return "policy " + e.Policy + ": " + e.Err.Error() }

func (e PolicyError) Unwrap() error { return e.Err }

// Whole reports whether all built-in policies were evaluated; failures of custom ones do not affect other
// findings.
func (r Result) Whole() bool {
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
	Completes Verdict = "completes" // neither, and nothing relevant is unseen
	Unknown   Verdict = "unknown"   // otherwise
)

// verdicts are all, the best first.
var verdicts = []Verdict{Completes, Unknown, AtRisk, Hangs, Refused}

// Compare is positive if v is worse than other.
func (v Verdict) Compare(other Verdict) int {
	return cmp.Compare(slices.Index(verdicts, v), slices.Index(verdicts, other))
}

// Worst returns the worst of several verdicts.
func Worst(first Verdict, others ...Verdict) Verdict {
	for _, other := range others {
		if other.Compare(first) > 0 {
			first = other
		}
	}
	return first
}

// Verdict sums up the findings. Without any, a failed policy makes it Unknown.
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
