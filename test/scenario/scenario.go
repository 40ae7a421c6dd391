// Package scenario compares termguard with reality: a cluster as data, a delete, the correct verdicts, and
// the outcome on a real control plane.
package scenario

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/test/lab"
)

// Verdicts, as in termguard's answers.
const (
	Hangs     = "hangs"
	Refused   = "refused"
	AtRisk    = "at-risk"
	Completes = "completes"
	Unknown   = "unknown"
)

// Varies is the outcome of a race.
const Varies = "varies"

// Scenario is one file: this document, then the objects to create. "$NS" is the scenario's own name.
type Scenario struct {
	Name string `json:"-"`
	// About describes the scenario; for a near miss, the one fact that differs.
	About string `json:"about"`
	// Policies detect the hang: with one of them off, the scenario must fail.
	Policies []string `json:"policies,omitempty"`
	// Delete has arguments of kubectl delete.
	Delete string `json:"delete,omitempty"`
	// Evict replaces it: NAMESPACE/NAME of a pod.
	Evict string `json:"evict,omitempty"`
	// Edit replaces it.
	Edit *Edit `json:"edit,omitempty"`
	// Asks is "check" for a Terminating object, whose deletes are not sent to webhooks.
	Asks string `json:"asks,omitempty"`
	// Stored says that nothing but the webhook connects to webhooks: Secrets show their certificates.
	Stored bool `json:"stored,omitempty"`
	// HoursLater makes check read a snapshot as if so old, for long deletions.
	HoursLater int      `json:"hoursLater,omitempty"`
	Expect     []string `json:"expect"`
	// Blocker must be in the warning.
	Blocker string `json:"blocker,omitempty"`
	// Reality is Hangs or Completes; for an edit, Leaks or Completes; for a race, Varies: no certain verdict
	// is correct.
	Reality string `json:"reality"`
	// Remains are arguments of kubectl get for an object that exists while the deletion hangs.
	Remains string `json:"remains,omitempty"`
	// Estimated says that check must estimate the longest duration; 2 s or 20 % more is allowed.
	Estimated bool `json:"estimated,omitempty"`
	// Within bounds a deletion that completes, 3 min by default: on a busy machine, the shared namespace
	// controller works off a queue.
	Within Duration `json:"within,omitempty"`
	// Leaves is a second deletion, after the first and its dependents.
	Leaves *Leaves `json:"leaves,omitempty"`
	// Keeps are arguments of kubectl get for an object that outlives the plan and the deletion.
	Keeps string `json:"keeps,omitempty"`
	// Plan defaults to Person if there is a cure, else to Runs.
	Plan string `json:"plan,omitempty"`
	// Cure are kubectl commands for what no command of the plan does: they restore something, or replace a
	// person.
	Cure []string `json:"cure,omitempty"`
	// ByDelete makes termguard delete carry out the plan.
	ByDelete bool `json:"byDelete,omitempty"`
	// After are kubectl commands that undo an exclusive scenario.
	After []string `json:"after,omitempty"`
	// Quick scenarios are in make test: one for each family of causes.
	Quick bool `json:"quick,omitempty"`
	// Exclusive scenarios affect the whole cluster and run one by one.
	Exclusive bool `json:"exclusive,omitempty"`
	// Since is the first version of Kubernetes that serves its objects, as "1.34".
	Since string `json:"since,omitempty"`
	// SureSince is the first version with a certain outcome; before it, only AtRisk is correct.
	SureSince string `json:"sureSince,omitempty"`
	// RiskPolicies detect the risk before that version, beside Policies.
	RiskPolicies []string `json:"riskPolicies,omitempty"`
	// HangsSince is the first version in which it hangs; before it, only Completes is correct.
	HangsSince string `json:"hangsSince,omitempty"`
	Live       Live   `json:"live,omitempty"`
	// Owns are set once the owners exist and have a UID.
	Owns []Owning `json:"owns,omitempty"`
	// Wait are arguments of kubectl wait, before the check.
	Wait []string `json:"wait,omitempty"`
	// Do are kubectl commands after that, repeated until the output contains TEXT if " => TEXT" follows.
	Do []string `json:"do,omitempty"`

	Objects string `json:"-"`
	// Later objects need the live parts: they follow "--- # later".
	Later string `json:"-"`
}

// Duration is as in "90s".
type Duration struct{ time.Duration }

func (d *Duration) UnmarshalJSON(data []byte) (err error) {
	d.Duration, err = time.ParseDuration(strings.Trim(string(data), `"`))
	return err
}

// Live parts run while the scenario does.
type Live struct {
	// Nodes are started before the objects are created.
	Nodes       []Node       `json:"nodes,omitempty"`
	Controllers []Controller `json:"controllers,omitempty"`
	// APIs serve an API group while their Service has endpoints.
	APIs       []API       `json:"apis,omitempty"`
	SampleAPIs []SampleAPI `json:"sampleAPIs,omitempty"`
	// Webhooks answer while their Service has endpoints; their caBundle is "$CA", or "$OTHERCA", which does
	// not fit.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	Programs []Program `json:"programs,omitempty"`
}

// Program is published software, with manifests, that runs while a Deployment has a ready pod.
type Program struct {
	Component  string `json:"component"`        // a folder of test/components
	Binary     string `json:"binary,omitempty"` // defaults to the component's name
	Deployment string `json:"deployment"`       // NAMESPACE/NAME
	// Service is where it listens; see lab.Running for placeholders in args.
	Service string   `json:"service,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Contained runs as root.
	Contained bool `json:"contained,omitempty"`
}

// SampleAPI is k8s.io/sample-apiserver, for wardle.example.com.
type SampleAPI struct {
	Service string   `json:"service"` // NAMESPACE/NAME
	Args    []string `json:"args,omitempty"`
	Starts  Stage    `json:"starts,omitempty"`
}

// Webhook allows everything, or denies it with a message.
type Webhook struct {
	Service string `json:"service"` // NAMESPACE/NAME
	// Secret of the Service's namespace gets a certificate as the webhook's.
	Secret   string `json:"secret,omitempty"`
	Denies   string `json:"denies,omitempty"`
	Converts bool   `json:"converts,omitempty"`
	Starts   Stage  `json:"starts,omitempty"`
}

type Owning struct {
	Owner    string `json:"owner"`
	Owned    string `json:"owned"`
	Controls bool   `json:"controls,omitempty"`
}

type Leaves struct {
	// Do has commands before it: clients notice a deletion late.
	Do      []string `json:"do,omitempty"`
	Delete  string   `json:"delete"`
	Reality string   `json:"reality"` // Hangs or Completes
}

// Stage is when something starts: at once, after termguard's answer, or with the cure.
type Stage string

const (
	Answered Stage = "asked"
	Cured    Stage = "cured"
)

// Node may die once everything is up: "dead" is a killed kubelet, "gone" also without its object,
// "out-of-service" with the taint.
type Node struct {
	Name    string `json:"name"`
	Becomes string `json:"becomes,omitempty"`
}

// Controller removes a finalizer, with the rights of a service account.
type Controller struct {
	Account   string `json:"account"` // NAMESPACE/NAME
	Finalizer string `json:"finalizer"`
	Resource  string `json:"resource"` // PLURAL.VERSION.GROUP
	// While is its Deployment, NAMESPACE/NAME, which must have a ready pod.
	While string `json:"while,omitempty"`
	// Guards are ConfigMaps in the object's namespace that it first deletes.
	Guards []string `json:"guards,omitempty"`
	// Creates are Secrets in the object's namespace that it first creates.
	Creates []string `json:"creates,omitempty"`
	// Drains is the path in the object to the node whose pods it first evicts.
	Drains string `json:"drains,omitempty"`
	// Reads are Secrets in the object's namespace that it must first read.
	Reads []string `json:"reads,omitempty"`
	// Tells is the reason of Events about each object, as of a failure.
	Tells string `json:"tells,omitempty"`
	// Elects is its lease for leader election, in the namespace of its pod.
	Elects string `json:"elects,omitempty"`
	// Needs are objects that must exist, cluster-scoped or in the namespace that the reference names.
	Needs []Reference `json:"needs,omitempty"`
	// WaitsFor are references to the object, to be removed first.
	WaitsFor []Reference `json:"waitsFor,omitempty"`
	// Takes counts from an object's deletion.
	Takes  Duration `json:"takes,omitempty"`
	Starts Stage    `json:"starts,omitempty"`
}

// Reference is a field in which one object names another.
type Reference struct {
	Resource string `json:"resource"` // of the other, PLURAL.VERSION.GROUP
	Path     string `json:"path"`     // of fields, with dots between
}

func (r Reference) of(check func(schema.GroupVersionResource, ...string) lab.Cleaning) (lab.Cleaning, error) {
	resource, _ := schema.ParseResourceArg(r.Resource)
	if resource == nil {
		return nil, fmt.Errorf("%q is not PLURAL.VERSION.GROUP", r.Resource)
	}
	return check(*resource, strings.Split(r.Path, ".")...), nil
}

// API is an extension API server behind a Service.
type API struct {
	Service  string `json:"service"`  // NAMESPACE/NAME
	Resource string `json:"resource"` // PLURAL.VERSION.GROUP
	Kind     string `json:"kind"`
	// Verbs are get and list by default. It never has objects.
	Verbs  []string `json:"verbs,omitempty"`
	Starts Stage    `json:"starts,omitempty"`
}

func Load(dir string) ([]Scenario, error) {
	var scenarios []Scenario
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "lint" {
			return fs.SkipDir // sets of manifests, for TestLinted
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parse(strings.TrimSuffix(filepath.Base(path), ".yaml"), string(data))
		if err != nil {
			return fmt.Errorf("scenario %s: %w", path, err)
		}
		scenarios = append(scenarios, s)
		return nil
	})
	if err == nil && len(scenarios) == 0 {
		err = fmt.Errorf("no scenario in %s", dir)
	}
	return scenarios, err
}

func (s Scenario) kinds() int {
	names := map[string]bool{}
	for _, document := range strings.Split(s.Objects+"\n---\n"+s.Later, "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err == nil && object.Namespace == "s-"+s.Name {
			names[object.Kind] = true
		}
	}
	return len(names)
}

func (s Scenario) ordered() bool {
	return strings.HasPrefix(s.Delete, "namespace s-") && s.Reality != Completes && s.kinds() > 1
}

func parse(name, text string) (Scenario, error) {
	text = strings.ReplaceAll(text, "$NS", "s-"+name)
	head, objects, _ := strings.Cut(text, "\n---\n")
	objects, later, _ := strings.Cut(objects, "\n--- # later\n")
	s := Scenario{Name: name, Objects: objects, Later: later}
	if err := yaml.UnmarshalStrict([]byte(head), &s); err != nil {
		return s, err
	}
	if s.Within.Duration == 0 {
		s.Within.Duration = 3 * time.Minute
	}
	names := []string{Hangs, AtRisk, Completes, Unknown}
	for _, e := range s.Expect {
		if !slices.Contains(names, e) {
			return s, fmt.Errorf("unknown verdict %q: want one of %v", e, names)
		}
	}
	requests := 0
	for _, ok := range []bool{s.Delete != "", s.Evict != "", s.Edit != nil} {
		if ok {
			requests++
		}
	}
	switch {
	case requests != 1 || len(s.Expect) == 0 || s.About == "":
		return s, errors.New("about, expect, and one of delete, evict and edit are needed")
	case s.Asks != "" && s.Asks != "check" || s.Asks != "" && s.Delete == "":
		return s, fmt.Errorf("asks is %q: want check, of a delete", s.Asks)
	case s.Quick && (s.Exclusive || len(s.Live.Programs) > 0):
		return s, errors.New("a quick scenario breaks nothing for others, and needs no software")
	case s.HoursLater != 0 && s.Asks == "":
		return s, errors.New("hoursLater needs asks: check")
	case s.Edit != nil && (s.Remains == "" || s.Reality != Leaks && s.Reality != Completes):
		return s, fmt.Errorf("an edit needs remains, and reality %s or %s", Leaks, Completes)
	case s.Edit == nil && s.Reality != Hangs && s.Reality != Completes && s.Reality != Varies:
		return s, fmt.Errorf("reality is %q: want %s, %s or %s", s.Reality, Hangs, Completes, Varies)
	case s.Reality == Varies && (slices.Contains(s.Expect, Hangs) || slices.Contains(s.Expect, Completes)):
		return s, errors.New("of what varies, no sure verdict is fair")
	case s.Reality != Completes && s.Edit == nil && (s.Remains == "" || s.Blocker == ""):
		return s, errors.New("a hang needs blocker and remains: what is named, and what is still there")
	case s.Leaves != nil && (s.Reality == Hangs || s.Leaves.Delete == "" || s.Leaves.Reality != Hangs && s.Leaves.Reality != Completes):
		return s, fmt.Errorf("leaves is for what can complete, and needs delete, and reality %s or %s", Hangs, Completes)
	case s.Keeps != "" && s.Reality != Completes:
		return s, errors.New("keeps is for what completes once the plan was carried out")
	case s.Reality == Completes && (s.Plan != "" || len(s.Cure) > 0):
		return s, errors.New("plan and cure are for what hangs")
	}
	switch {
	case s.Plan != "" || s.Reality == Completes || s.Edit != nil:
	case len(s.Cure) > 0:
		s.Plan = Person
	default:
		s.Plan = Runs
	}
	switch {
	case s.Plan != "" && !slices.Contains(plans, s.Plan):
		return s, fmt.Errorf("plan is %q: want one of %v", s.Plan, plans)
	case len(s.Cure) > 0 && s.Plan != Restores && s.Plan != Person:
		return s, fmt.Errorf("a cure goes with plan: %s or %s", Restores, Person)
	}
	return s, nil
}

// gone reports whether the target is deleted. A namespace hangs once a second pass of its controller has
// changed nothing. Definitions take turns within the API server, so they get the time of several passes;
// others are deleted within moments.
func (g *Guarded) gone(ctx context.Context, s Scenario) (bool, error) {
	limit := passes
	if kind := s.target()[0]; s.Edit == nil && kind != "crd" {
		if limit = 8 * time.Second; kind == "namespace" {
			return g.NamespaceGone(ctx, limit, s.target()[1])
		}
		if s.Reality != Hangs {
			limit = passes
		}
	}
	return g.Gone(ctx, s, limit)
}

const passes = 25 * time.Second

type Outcome struct {
	Scenario  Scenario
	Predicted string
	Real      string
	Took      time.Duration // until it completed
	Estimate  *int          // seconds, if the scenario is estimated
	Warnings  []string
	Deleted   *Deleted
	Harm      *Harm
	Wrong     []string // errors of termguard
	Err       error    // the scenario could not be played
}

// Guarded is a lab with termguard in it.
type Guarded struct {
	*lab.Lab
	Termguard *lab.Process
	patient   bool
	scans     shared[*scan.Scan]
	places    shared[*scan.Place]
	snapshots shared[[]byte]
	worlds    shared[*cluster.World]
	archived  shared[archived]
	// by is Stuck, Fresh or Beside for termguard delete.
	by string
	// standing are objects before any scenario, for Beside.
	standing map[types.UID]*unstructured.Unstructured
}

// Play calls ready after the setup, which may wait for other scenarios: new resources are unseen for a
// moment, which makes answers uncertain.
func (g *Guarded) Play(ctx context.Context, s Scenario, ready func()) (o Outcome) {
	o.Scenario = s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(err error) Outcome {
		o.Err = err
		return o
	}
	defer func() {
		for _, command := range s.After {
			r, err := g.Kubectl(ctx, Words(command)...)
			switch {
			case err != nil:
				o.Err = errors.Join(o.Err, fmt.Errorf("clean up: kubectl %s: %w", command, err))
			case r.Code != 0 && !strings.Contains(r.Stderr, "(NotFound)") && g.by != Beside: // deleted objects are cleaned up, and Beside cures nothing
				o.Err = errors.Join(o.Err, fmt.Errorf("clean up: kubectl %s: %s", command, r.Stderr))
			}
		}
	}()
	err := g.setUp(ctx, s)
	ready()
	if err == nil {
		err = g.depart(ctx, s.Live.Nodes)
	}
	if err != nil {
		return fail(fmt.Errorf("set up: %w", err))
	}
	if strings.Contains(s.Objects, "paramKind:") {
		// The webhook reads parameters every ten seconds: before, a fair verdict may lack the policy.
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second):
		}
	}
	err = g.Await(ctx, s.patience(), "a fair verdict", func(ctx context.Context) (bool, error) {
		err := g.ask(ctx, &o, true)
		return slices.Contains(s.Expect, o.Predicted), err
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fail(err)
	}
	switch g.by {
	case "":
	case Beside:
		o.Err = g.playBeside(ctx, &o)
		return o
	default:
		o.Err = g.playDelete(ctx, &o, g.by)
		return o
	}
	if s.Estimated { // lessons follow with a lag, too
		err := g.Await(ctx, s.patience(), "an estimate", func(ctx context.Context) (bool, error) {
			report, err := g.Check(ctx, s.target()...)
			o.Estimate = report.EstimateSeconds
			return o.Estimate != nil, err
		})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fail(err)
		}
	}
	// Evaluating with each policy off takes a while; the object may be deleted meanwhile.
	input, world, err := g.question(ctx, s)
	if err != nil {
		return fail(err)
	}
	answers, err := g.otherWays(ctx, s, input, world)
	if err != nil {
		return fail(fmt.Errorf("ask by other ways: %w", err))
	}
	if err := g.start(ctx, s.Live, Answered); err != nil {
		return fail(err)
	}
	if s.Keeps != "" {
		if err := g.heed(ctx, s); err != nil {
			return fail(fmt.Errorf("carry the plan out before: %w", err))
		}
	}
	if err := g.ask(ctx, &o, false); err != nil {
		return fail(err)
	}
	began := time.Now() // kubectl's time before the request is not the deletion's
	if s.Edit != nil {
		for _, command := range s.Edit.Then {
			if r, err := g.Kubectl(ctx, Words(command)...); err != nil || r.Code != 0 {
				return fail(fmt.Errorf("after the edit: kubectl %s: %w: %s", command, err, r.Stderr))
			}
		}
	}

	var gone bool
	if s.Reality == Completes {
		gone, err = g.Gone(ctx, s, s.Within.Duration)
	} else {
		gone, err = g.gone(ctx, s)
	}
	if err == nil && !gone && s.Reality == Varies {
		// Without its blocker, only the deletion itself is left.
		var held bool
		if held, err = g.remains(ctx, s); err == nil && !held {
			gone, err = g.Gone(ctx, s, s.Within.Duration)
		}
	}
	if err != nil {
		return fail(err)
	}
	o.Real, o.Took = Completes, time.Since(began)
	switch {
	case !gone && s.Edit != nil:
		o.Real = Leaks
	case !gone:
		o.Real = Hangs
	}
	if o.Wrong, err = switchOff(ctx, s, input, world); err != nil {
		return fail(fmt.Errorf("switch policies off: %w", err))
	}
	o.judge()
	o.Wrong = append(append(o.Wrong, o.others(answers)...), o.late()...)
	if s.Keeps != "" {
		if remaining, err := g.Objects(ctx, strings.Fields(s.Keeps)...); len(remaining) == 0 {
			o.Wrong = append(o.Wrong, fmt.Sprintf("the plan took along what it must not: %s: %v", s.Keeps, err))
		}
	}
	if o.Real == Completes && s.Leaves != nil {
		wrong, err := g.leaves(ctx, s)
		if err != nil {
			return fail(fmt.Errorf("after it: %w", err))
		}
		o.Wrong = append(o.Wrong, wrong...)
	}
	if o.Real == Hangs && s.Plan != "" {
		wrong, err := g.carryOut(ctx, &o)
		if err != nil {
			return fail(err)
		}
		o.Wrong = append(o.Wrong, wrong...)
	}
	return o
}

func (g *Guarded) remains(ctx context.Context, s Scenario) (bool, error) {
	objects, err := g.Objects(ctx, strings.Fields(s.Remains)...)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return len(objects) > 0, err
}

func (g *Guarded) leaves(ctx context.Context, s Scenario) ([]string, error) {
	for _, command := range s.Leaves.Do {
		if err := g.Do(ctx, command); err != nil {
			return nil, err
		}
	}
	next := Scenario{Delete: s.Leaves.Delete}
	if r, err := g.Kubectl(ctx, append([]string{"delete", "--wait=false"}, strings.Fields(next.Delete)...)...); err != nil || r.Code != 0 {
		return nil, fmt.Errorf("delete %s: %w: %s", next.Delete, err, r.Stderr)
	}
	var gone bool
	var err error
	if s.Leaves.Reality == Hangs {
		gone, err = g.gone(ctx, next)
	} else {
		gone, err = g.Gone(ctx, next, s.Within.Duration)
	}
	if err != nil || gone == (s.Leaves.Reality == Completes) {
		return nil, err
	}
	return []string{fmt.Sprintf("the deletion of %s after it does not do as the scenario says, which is that it %s", next.Delete, s.Leaves.Reality)}, nil
}

func (o *Outcome) judge() {
	s := o.Scenario
	if o.Real != s.Reality && s.Reality != Varies {
		o.Wrong = append(o.Wrong, fmt.Sprintf("it %s, where the scenario says it %s", o.Real, s.Reality))
	}
	if !slices.Contains(s.Expect, o.Predicted) {
		o.Wrong = append(o.Wrong, fmt.Sprintf("the verdict %s is not fair: want %v", o.Predicted, s.Expect))
	}
	if o.FalseAlarm() {
		o.Wrong = append(o.Wrong, "false alarm")
	}
	if o.Miss() {
		o.Wrong = append(o.Wrong, "miss")
	}
	if s.Blocker != "" && !strings.Contains(strings.Join(o.Warnings, "\n"), s.Blocker) {
		o.Wrong = append(o.Wrong, fmt.Sprintf("the blocker %q is not named", s.Blocker))
	}
}

// late accepts a longer deletion on a busy machine, except in make nightly.
func (o *Outcome) late() []string {
	switch {
	case !o.Scenario.Estimated || o.Real != Completes:
		return nil
	case o.Estimate == nil:
		return []string{"check does not say how long it takes"}
	}
	limit := float64(*o.Estimate)
	if !lab.Nightly() {
		return nil
	}
	if took := o.Took.Seconds(); took > limit+max(2, limit/5) {
		return []string{fmt.Sprintf("it took %.1f s, where check says at most %d s", took, *o.Estimate)}
	}
	return nil
}

func (o *Outcome) FalseAlarm() bool { return o.Predicted == Hangs && o.Real == Completes }

func (o *Outcome) Miss() bool { return o.Predicted == Completes && o.Real == Hangs }

func Warnings(stderr string) []string {
	var warnings []string
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: termguard: "); ok {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

func Verdict(warnings []string) string {
	verdict := Completes
	for _, w := range warnings {
		switch {
		case strings.HasPrefix(w, "will be refused"), strings.HasPrefix(w, "forbidden"):
			return Refused
		case strings.HasPrefix(w, "will hang"):
			verdict = Hangs
		case verdict != Hangs && (strings.HasPrefix(w, "may hang") || strings.HasPrefix(w, "may be ")):
			verdict = AtRisk
		case strings.HasPrefix(w, "not checked") && verdict == Completes:
			verdict = Unknown
		}
	}
	return verdict
}

func (g *Guarded) setUp(ctx context.Context, s Scenario) error {
	nodes := map[string]*lab.Node{}
	for _, n := range s.Live.Nodes {
		node, err := g.StartNode(ctx, n.Name)
		if err != nil {
			return err
		}
		nodes[n.Name] = node
	}
	if err := g.Create(ctx, s.Objects); err != nil {
		return err
	}
	if err := g.serve(ctx, s.Live, ""); err != nil {
		return err
	}
	programs, err := g.RunPrograms(ctx, s.Live)
	if err != nil {
		return err
	}
	if s.Later != "" {
		if err := g.Create(ctx, s.Later); err != nil {
			return err
		}
	}
	for _, o := range s.Owns {
		if err := g.own(ctx, o); err != nil {
			return err
		}
	}
	if err := g.operate(ctx, s.Live, ""); err != nil {
		return err
	}
	for _, args := range s.Wait {
		if r, err := g.Kubectl(ctx, append([]string{"wait", "--timeout=5m"}, strings.Fields(args)...)...); err != nil || r.Code != 0 {
			return fmt.Errorf("kubectl wait %s: %w: %s", args, err, r.Stderr)
		}
	}
	for _, n := range s.Live.Nodes {
		if n.Becomes == "" {
			continue
		}
		nodes[n.Name].Kill()
		if err := nodes[n.Name].AwaitReady(ctx, "Unknown"); err != nil {
			return err
		}
	}
	// A program must see the last command before the next.
	settled := func() error {
		for _, p := range programs {
			if _, err := p.Settled(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for _, command := range s.Do {
		if err := settled(); err != nil {
			return err
		}
		if err := g.Do(ctx, command); err != nil {
			return err
		}
	}
	return settled()
}

// Do runs a command of Scenario.Do.
func (g *Guarded) Do(ctx context.Context, command string) error {
	if command, text, awaited := strings.Cut(command, " => "); awaited {
		return g.Await(ctx, 5*time.Minute, "kubectl "+command+" to say "+text, func(ctx context.Context) (bool, error) {
			r, err := g.Kubectl(ctx, Words(command)...)
			return strings.Contains(r.Stdout+r.Stderr, text), err
		})
	}
	if r, err := g.Kubectl(ctx, Words(command)...); err != nil || r.Code != 0 {
		return fmt.Errorf("kubectl %s: %w: %s", command, err, r.Stderr)
	}
	return nil
}

// The only owner blocks deletion in the foreground.
func (g *Guarded) own(ctx context.Context, o Owning) error {
	owner, err := g.object(ctx, strings.Fields(o.Owner)...)
	if err != nil {
		return err
	}
	yes := true
	reference := metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &yes, Controller: &o.Controls}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{reference}}})
	if err != nil {
		return err
	}
	r, err := g.Kubectl(ctx, append([]string{"patch", "--type=merge", "-p", string(patch)}, strings.Fields(o.Owned)...)...)
	if err != nil || r.Code != 0 {
		return fmt.Errorf("own %s: %w: %s", o.Owned, err, r.Stderr)
	}
	return nil
}

func (g *Guarded) RunPrograms(ctx context.Context, live Live) (programs []*lab.Program, err error) {
	installed := map[string]bool{}
	for _, p := range live.Programs {
		if !installed[p.Component] {
			installed[p.Component] = true
			if err := g.Install(ctx, p.Component); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range live.Programs {
		namespace, deployment, _ := strings.Cut(p.Deployment, "/")
		program, err := g.Run(ctx, lab.Running{
			Component: p.Component, Binary: cmp.Or(p.Binary, p.Component), Namespace: namespace, Deployment: deployment,
			Service: p.Service, Args: p.Args, Contained: p.Contained,
		})
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}

// After the check, objects on a departing node may be deleted at any moment.
func (s Scenario) departs() bool {
	return slices.ContainsFunc(s.Live.Nodes, func(n Node) bool { return n.Becomes != "" && n.Becomes != "dead" })
}

// Dead nodes are given up just before the check: their pods are collected from then on.
func (g *Guarded) depart(ctx context.Context, nodes []Node) error {
	for _, n := range nodes {
		var args []string
		switch n.Becomes {
		case "", "dead":
			continue
		case "gone":
			args = []string{"delete", "node", n.Name}
		case "out-of-service":
			args = []string{"taint", "node", n.Name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}
		default:
			return fmt.Errorf("node %s becomes %q: want dead, gone or out-of-service", n.Name, n.Becomes)
		}
		if r, err := g.Kubectl(ctx, args...); err != nil || r.Code != 0 {
			return fmt.Errorf("kubectl %v: %w: %s", args, err, r.Stderr)
		}
	}
	return nil
}

// Create also fills in placeholders for authorities.
func (g *Guarded) Create(ctx context.Context, objects string) error {
	return g.AwaitApplied(ctx, 2*time.Minute, strings.NewReplacer(
		"$CA", base64.StdEncoding.EncodeToString(g.CABundle()),
		"$OTHERCA", base64.StdEncoding.EncodeToString(g.OtherCABundle()),
	).Replace(objects))
}

// while returns ctx itself if no Deployment is named.
func (g *Guarded) while(ctx context.Context, deployment string) (context.Context, error) {
	if deployment == "" {
		return ctx, nil
	}
	namespace, name, _ := strings.Cut(deployment, "/")
	return g.Lab.While(ctx, namespace, name)
}

func (g *Guarded) start(ctx context.Context, live Live, stage Stage) error {
	if err := g.serve(ctx, live, stage); err != nil {
		return err
	}
	return g.operate(ctx, live, stage)
}

func (g *Guarded) serve(ctx context.Context, live Live, stage Stage) error {
	for _, api := range live.APIs {
		if api.Starts != stage {
			continue
		}
		gvr, _ := schema.ParseResourceArg(api.Resource)
		namespace, service, _ := strings.Cut(api.Service, "/")
		verbs := api.Verbs
		if len(verbs) == 0 {
			verbs = []string{"get", "list"}
		}
		if gvr == nil {
			return fmt.Errorf("api %q: want PLURAL.VERSION.GROUP", api.Resource)
		}
		if err := g.ServeEndpoints(ctx, namespace, service, lab.ExtensionAPI(gvr.Group, gvr.Version, gvr.Resource, api.Kind, verbs...)); err != nil {
			return err
		}
	}
	for _, api := range live.SampleAPIs {
		if api.Starts != stage {
			continue
		}
		namespace, service, _ := strings.Cut(api.Service, "/")
		if _, err := g.SampleAPIServer(ctx, namespace, service, api.Args...); err != nil {
			return err
		}
	}
	for _, hook := range live.Webhooks {
		if hook.Starts != stage {
			continue
		}
		namespace, service, _ := strings.Cut(hook.Service, "/")
		handler := lab.Allow()
		if hook.Denies != "" {
			handler = lab.Deny(hook.Denies)
		}
		if hook.Converts {
			handler = lab.Convert()
		}
		if err := g.ServeEndpoints(ctx, namespace, service, handler); err != nil {
			return err
		}
		if hook.Secret == "" {
			continue
		}
		_, pair, err := g.Certify(ctx, namespace, service)
		if err != nil {
			return err
		}
		if err := g.Do(ctx, fmt.Sprintf("create secret tls %s -n %s --cert=%s.crt --key=%[3]s.key", hook.Secret, namespace, pair)); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guarded) operate(ctx context.Context, live Live, stage Stage) error {
	for _, c := range live.Controllers {
		if c.Starts != stage {
			continue
		}
		gvr, gr := schema.ParseResourceArg(c.Resource)
		if gvr == nil {
			v := gr.WithVersion("v1")
			gvr = &v
		}
		namespace, account, _ := strings.Cut(c.Account, "/")
		running, err := g.while(ctx, c.While)
		if err != nil {
			return err
		}
		var cleaning []lab.Cleaning
		for _, name := range c.Guards {
			cleaning = append(cleaning, lab.DeleteConfigMap(name))
		}
		for _, name := range c.Creates {
			cleaning = append(cleaning, lab.CreateSecret(name))
		}
		if c.Drains != "" {
			cleaning = append(cleaning, lab.Drain(c.Drains))
		}
		for _, name := range c.Reads {
			cleaning = append(cleaning, lab.ReadSecret(name))
		}
		if c.Takes.Duration > 0 {
			cleaning = append(cleaning, lab.Take(c.Takes.Duration))
		}
		for _, r := range c.Needs {
			needs, err := r.of(lab.ReadNamed)
			if err != nil {
				return fmt.Errorf("needs: %w", err)
			}
			cleaning = append(cleaning, needs)
		}
		for _, r := range c.WaitsFor {
			waits, err := r.of(lab.WaitForReferrers)
			if err != nil {
				return fmt.Errorf("waitsFor: %w", err)
			}
			cleaning = append(cleaning, waits)
		}
		if err := g.Controller(running, namespace, account, c.Finalizer, *gvr, cleaning...); err != nil {
			return err
		}
		if c.Elects != "" {
			if err := g.Elect(running, namespace, account, c.Elects); err != nil {
				return err
			}
		}
		if c.Tells != "" {
			if err := g.Tell(running, namespace, account, c.Tells, *gvr); err != nil {
				return err
			}
		}
	}
	return nil
}

// Facts lag, and an object may first have to be Terminating for too long.
func (s Scenario) patience() time.Duration {
	return 3 * time.Minute // a busy machine is no unfair verdict
}

func (g *Guarded) ask(ctx context.Context, o *Outcome, dry bool) (err error) {
	s := o.Scenario
	if s.Edit != nil {
		o.Warnings, err = g.edit(ctx, s.Edit, dry)
		o.Predicted = Verdict(o.Warnings)
		return err
	}
	if s.Evict != "" {
		o.Warnings, err = g.Evict(ctx, s.Evict, dry)
		o.Predicted = Verdict(o.Warnings)
		return err
	}
	if s.Asks == "check" && dry {
		report, err := g.consult(ctx, s, strings.Fields(s.Delete)...)
		o.Predicted, o.Warnings = string(report.Verdict), nil
		for _, f := range report.Findings {
			o.Warnings = append(o.Warnings, f.Message)
		}
		return err
	}
	if dry {
		o.Warnings, err = g.tries(ctx, s)
		o.Predicted = Verdict(o.Warnings)
		return err
	}
	how := []string{"delete", "--wait=false"}
	if s.Asks == "check" {
		how = append(how, "--ignore-not-found") // it may be on its way already
	}
	r, err := g.Kubectl(ctx, append(how, strings.Fields(s.Delete)...)...)
	if err != nil || r.Code != 0 {
		return fmt.Errorf("delete: %w: %s", err, r.Stderr)
	}
	if s.Asks == "" {
		o.Warnings = Warnings(r.Stderr)
		o.Predicted = Verdict(o.Warnings)
	}
	return nil
}

// kubectl would take 0.1 s of a core.
func (g *Guarded) tries(ctx context.Context, s Scenario) ([]string, error) {
	_, flags, err := s.named()
	if err != nil {
		return nil, err
	}
	var options metav1.DeleteOptions
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(flags, &options); err != nil {
		return nil, err
	}
	options.DryRun = []string{metav1.DryRunAll}
	var said warnings
	if err := g.Delete(ctx, options, &said, s.target()...); err != nil {
		return nil, fmt.Errorf("delete %s: %w", s.Delete, err)
	}
	return said, nil
}

// Gone waits for the target, or objects that an edit may leak.
func (g *Guarded) Gone(ctx context.Context, s Scenario, limit time.Duration) (bool, error) {
	return g.Lab.Gone(ctx, limit, s.target()...)
}

func Words(command string) []string {
	var out []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}
