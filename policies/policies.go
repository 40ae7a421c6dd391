// Package policies evaluates, in Rego, whether a deletion will finish.
//
// A policy is a folder: FOLDER/FOLDER.rego, package termguard.FOLDER, with its tests, fixtures and a
// generated README. The folders are the registry. A policy defines the sets deny (it will hang) and warn (it
// may hang, will be slow, or is unwise) over input, data.cluster and data.params, whose schemas are in
// schema/. The METADATA of its package applies to all its findings.
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

// Digest identifies the built-in policies: "sha256:", and the SHA-256 of the loaded files.
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

// Trigger is an operation that policies are evaluated about: question.Trigger in fewer words, as METADATA has
// it.
type Trigger string

// The triggers.
const (
	Delete        Trigger = "delete"         // a DELETE, or the CREATE of an eviction
	FinalizerEdit Trigger = "finalizer-edit" // an UPDATE that changes finalizers, or of namespaces/finalize
	Apply         Trigger = "apply"          // a manifest that is about to be applied
)

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{Delete, FinalizerEdit, Apply} }

// Certainty is how sure a finding is.
type Certainty string

// The certainties.
const (
	Will Certainty = "will" // from deny
	May  Certainty = "may"  // from warn
)

// Kind is the effect that a finding predicts.
type Kind string

// The kinds of findings.
const (
	KindHang      Kind = ""          // the deletion starts, and does not finish
	KindRefused   Kind = "refused"   // the API server refuses the request at once, and nothing happens
	KindForbidden Kind = "forbidden" // a user's own rule forbids it
)

// findingKinds are the kinds that a policy can name; the default is a hang.
var findingKinds = []string{string(KindRefused), string(KindForbidden)}

// Severity is how much a finding matters. Findings of severity Info do not affect the verdict.
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
	Symptom          bool       `json:"-"`      // its findings have a cause that another policy may report
	Remedy           string     `json:"remedy"` // unless a finding has its own
	Limits           string     `json:"limits"` // the facts that the policy cannot see
	RelatedResources []Resource `json:"relatedResources"`
	// Aliases are policies with the same findings on another trigger: lint's ignores for one apply to this
	// policy, too.
	Aliases  []string `json:"aliases,omitempty"`
	Manifest Manifest `json:"manifest,omitzero"`
	// Custom is set for a policy that is not built in: its author only advises.
	Custom bool `json:"-"`
	// ReadsObject says that a custom policy may read more of the object than a snapshot holds, and ReadsUser
	// that it may read the user.
	ReadsObject bool   `json:"-"`
	ReadsUser   bool   `json:"-"`
	Folder      string `json:"folder"`
	File        string `json:"file"` // with the policy's METADATA
}

// ref returns a rule of the policy.
func (p *Policy) ref(rule string) ast.Ref {
	return ast.MustParseRef("data.termguard." + p.Folder + "." + rule)
}

// sets returns the names of the sets that the policy defines: deny, warn, or both.
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

// Reliance names kinds that a policy must see: while one is hidden from the facts, the absence of findings
// means nothing.
type Reliance struct {
	// Kinds are resources, as plural or plural.group. $CONTENT are namespaced ones, $INSTANCES the custom
	// resources of the definition under review, $REFERRERS resources that may refer to the object under
	// review, and $ELSEWHERE resources hidden in other namespaces.
	Kinds []string `json:"kinds"`
	// Except are exceptions from Kinds.
	Except []string `json:"except,omitempty"`
	// For limits the reliance to requests about these resources; all, if empty. $FINALIZERS are objects with
	// finalizers, $CUSTOM custom resources.
	For []string `json:"for,omitempty"`
}

// Resource is a source that a policy is based on.
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

// Ref returns the object as kubectl takes it.
func (o Object) Ref() string { return o.In("") }

// In is Ref without the namespace home, which the context says.
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
	// Message is one sentence of at most MaxMessage characters.
	Message string `json:"message"`
	// Objects are the blockers, the most important first.
	Objects  []Object `json:"objects"`
	Evidence []string `json:"evidence"`
	// EstimateSeconds is how long the deletion takes, if it completes.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// Field is a path in the manifest of Objects[0], such as "spec.finalizers[1]", or "".
	Field string `json:"field,omitempty"`
	// Remedy is the solution in prose, and Steps step by step, if the policy has them.
	Remedy string `json:"remedy"`
	Steps  []Step `json:"steps,omitempty"`
	// Cause is what the policy blames, as far as it says.
	Cause Cause `json:"cause,omitzero"`
	// Manifest overrides parts of it for a manifest.
	Manifest Manifest `json:"-"`
	// Class, Symptom and Custom are the policy's.
	Class   Class `json:"-"`
	Symptom bool  `json:"-"`
	Custom  bool  `json:"-"`
}

// Cause blocks a deletion, and may block others.
type Cause struct {
	// Title describes it, without the objects that it blocks.
	Title string `json:"title,omitempty"`
	// Object is the object to blame, and Node the name of a node on which something is wrong.
	Object *Object `json:"object,omitempty"`
	Node   string  `json:"node,omitempty"`
	// Finalizer is the blocking finalizer, and Owner its owner, if that is the cause.
	Finalizer string `json:"finalizer,omitempty"`
	Owner     *Owner `json:"owner,omitempty"`
	// Refusal is the webhook or admission policy that refuses a request, as the facts name it: webhook/TYPE/….
	Refusal string `json:"refusal,omitempty"`
	// Declared says that the owner is as an annotation of the object says, which a tenant may have written.
	Declared bool `json:"declared,omitempty"`
	// Consequence says that the finding only counts what other causes hold, and Elapsed that its message says for
	// how long the object has been Terminating.
	Consequence bool `json:"consequence,omitempty"`
	Elapsed     bool `json:"elapsed,omitempty"`
}

// Owner removes a finalizer: its name, "" if unknown, and its state.
type Owner struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Class says how to deal with a finding.
type Class string

// The classes.
const (
	Broken Class = "broken" // repair it
	Order  Class = "order"  // nothing is wrong: something else has to be deleted first
	Rule   Class = "rule"   // a user or Kubernetes prevents it on purpose
)

// StepKind is the cost of a step.
type StepKind string

// The kinds of steps, in the order in which they are tried.
const (
	Mend   StepKind = "mend"   // restores the prerequisites of the deletion
	Remove StepKind = "remove" // gives up one thing whose owner no longer exists
	Force  StepKind = "force"  // gives up more than that: Do names the price
)

// StepKinds returns all kinds of steps, the safest first.
func StepKinds() []StepKind { return []StepKind{Mend, Remove, Force} }

// Step is one step towards the end of the deletion.
type Step struct {
	Kind StepKind `json:"kind"`
	Do   string   `json:"do"` // with the words of the promise
	// Then is what follows if nothing else blocks, and Act is Do without it.
	Then Promise `json:"then,omitempty"`
	Act  string  `json:"-"`
	// Command is a complete shell line for it; "" if it takes human judgement.
	Command string `json:"command,omitempty"`
	// Action is the operation of Command, if termguard can execute it. It needs a Command.
	Action *Action `json:"action,omitempty"`
	// Hearsay is the source of the step if a tenant can write that, such as an Event; "" if only the
	// cluster's own parts can.
	Hearsay string `json:"hearsay,omitempty"`
}

// Promise is what follows a step if nothing else blocks.
type Promise string

// The promises.
const (
	Again  Promise = "again"  // the user deletes again
	Itself Promise = "itself" // the deletion that has begun finishes
)

var promises = map[Promise]string{Again: ", then delete again", Itself: ", and the deletion finishes by itself"}

// Promising returns the step with a promise.
func (s Step) Promising(then Promise) Step {
	s.Then, s.Act, s.Do = then, s.Do, s.Do+promises[then]
	return s
}

// Alone returns what to do without the promise.
func (s Step) Alone() string { return cmp.Or(s.Act, s.Do) }

// Says returns the verdict in front of a finding's message: "will hang".
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

// Compare returns a number less than 0 if s is the higher severity.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(severities, s), slices.Index(severities, other))
}

// compare orders findings by importance for readers.
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
	// Unseen are the resources that matter to the request and are hidden from the facts, each with the
	// reason.
	Unseen []Unseen
	// Readers are the ids of custom policies that may concern the request and read more of its object than a
	// snapshot holds; UserReaders of policies that read the user.
	Readers, UserReaders []string
}

// OfStub returns the result without the answers of Readers, which need more of the object than the source
// named by where, such as "a snapshot".
func (r Result) OfStub(where string) Result {
	return r.without(r.Readers, fmt.Sprintf("it reads the object, of which %s holds the name and the finalizers, no labels, annotations or spec: ask in the cluster", where))
}

// OfNobody returns the result without the answers of UserReaders, for an unknown user.
func (r Result) OfNobody() Result {
	return r.without(r.UserReaders, "it reads who asks, which is not known here: ask in the cluster, as whoever would delete")
}

// without returns the result without the answers of some policies, and with the reason why they are unseen.
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

// Whole reports whether all built-in policies were evaluated. Failures and malformed findings of custom ones
// do not affect other findings.
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

// verdicts lists all, the best first.
var verdicts = []Verdict{Completes, Unknown, AtRisk, Hangs, Refused}

// Compare returns a number greater than 0 if v is worse than other, and 0 if they are the same.
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

// Verdict sums up the findings. Without findings, a failed policy makes it Unknown.
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
