package scan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Unseen is the class of objects that take more rights, or an answer, to evaluate.
const Unseen policies.Class = "unseen"

// Classes lists all classes, in the order to show them.
func Classes() []policies.Class {
	return []policies.Class{policies.Broken, policies.Order, policies.Rule, Unseen}
}

// Cause is one thing that holds objects.
type Cause struct {
	// ID is stable over scans.
	ID    string         `json:"id"`
	Class policies.Class `json:"class"`
	// Title does not name the held objects.
	Title    string   `json:"title"`
	Policies []string `json:"policies"`
	// Object is broken, or sets the rule, if it is one.
	Object *policies.Object `json:"object,omitempty"`
	// Finalizers are not removed.
	Finalizers []string           `json:"finalizers,omitempty"`
	Certainty  policies.Certainty `json:"certainty"`
	// Holds counts the held objects, Terminating the Terminating ones.
	Holds       int          `json:"holds"`
	ByKind      map[Kind]int `json:"byKind"`
	Terminating int          `json:"terminating,omitempty"`
	// Names are the first few, as kubectl takes them.
	Names []string `json:"names"`
	// Evidence and Steps are about the first.
	Evidence []string        `json:"evidence"`
	Steps    []policies.Step `json:"steps"`
	// Mended is nil if the cause cannot be left out of the facts.
	Mended *Mended `json:"mended,omitempty"`

	owned  bool // by whoever should remove the finalizers
	titled int  // rank of the finding that gave the title (telling)
}

// Mended is an evaluation without one cause, or without all broken ones.
type Mended struct {
	// Objects counts the objects, Free the deletable ones then, and Unknown others with unseen facts and no known
	// blocker.
	Objects int `json:"asked"`
	Free    int `json:"free"`
	Unknown int `json:"unknown,omitempty"`
	// With lists causes to mend together with it, if it alone frees nothing.
	With []string `json:"with,omitempty"`
	// StillHeld lists the first few objects that stay held.
	StillHeld []string `json:"stillHeld,omitempty"`
}

const (
	maxNames = 5
	// maxSteps bounds the steps of a cause: check has each object's.
	maxSteps = 8
)

const (
	validating  = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	mutating    = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	apiservices = "apiservices.apiregistration.k8s.io"
	definitions = "customresourcedefinitions.apiextensions.k8s.io"
	budgets     = "poddisruptionbudgets.policy"
	csinodes    = "csinodes.storage.k8s.io"
	nodes       = "nodes"
)

type grouping map[string]*Cause

func (g grouping) add(c Cause) *Cause {
	if have := g[c.ID]; have != nil {
		return have
	}
	c.Certainty, c.ByKind = policies.May, map[Kind]int{}
	g[c.ID] = &c
	return &c
}

func (g grouping) holds(a *reply) (held []answer.Hold, parts []answer.Item) {
	if a.kind == Releases {
		held, parts = g.holdsParts(a)
	} else {
		held = g.holdsOne(a)
	}
	if len(held) == 0 && a.item.Verdict == policies.Unknown {
		cause := g.unseen(a.item.Unseen)
		held = append(held, answer.Hold{Cause: cause.ID, Certainty: policies.May, Says: cause.Title})
	}
	return held, parts
}

func (g grouping) holdsOne(a *reply) []answer.Hold {
	held := []answer.Hold{}
	findings := a.item.Findings
	hasCause := slices.ContainsFunc(findings, func(f policies.Finding) bool {
		return f.Severity != policies.Info && !f.Symptom
	})
	for _, f := range findings {
		if f.Severity == policies.Info || f.Symptom && hasCause {
			continue
		}
		cause := g.of(a, f)
		if f.Certainty == policies.Will {
			cause.Certainty = policies.Will
		}
		hold := answer.Hold{Cause: cause.ID, Certainty: f.Certainty, Says: f.Message}
		for _, o := range f.Objects {
			if o != a.item.Target && len(hold.Objects) < maxBlockers {
				hold.Objects = append(hold.Objects, o)
			}
		}
		held = add(held, hold)
	}
	return held
}

func (g grouping) holdsParts(a *reply) (by []answer.Hold, parts []answer.Item) {
	by = []answer.Hold{}
	for _, item := range a.item.Parts {
		part, _ := g.holds(&reply{candidate: candidate{kind: resources[item.Target.Resource], place: a.place}, item: item})
		row := held(item, "", part, nil)
		parts = append(parts, row)
		for _, h := range part {
			h.Objects = slices.Concat([]policies.Object{row.Target}, h.Objects)
			h.Objects = h.Objects[:min(len(h.Objects), maxBlockers)]
			by = add(by, h)
		}
	}
	return by, parts
}

// add keeps the more certain hold of a cause.
func add(held []answer.Hold, hold answer.Hold) []answer.Hold {
	at := slices.IndexFunc(held, func(h answer.Hold) bool { return h.Cause == hold.Cause })
	switch {
	case at < 0:
		return append(held, hold)
	case held[at].Certainty != policies.Will && hold.Certainty == policies.Will:
		held[at] = hold
	}
	return held
}

func (g grouping) of(a *reply, f policies.Finding) *Cause {
	id, title, object := "", "", (*policies.Object)(nil)
	class := f.Class
	if f.Kind == policies.KindForbidden {
		class = policies.Rule
	}
	culprit := f.Cause.Object
	switch {
	case culprit != nil && culprit.Resource == nodes && *culprit == a.item.Target && a.kind != Nodes:
		culprit = nil
	case f.Policy == "network-plugin-removed" && culprit != nil && culprit.Resource != nodes:
		culprit, class = nil, policies.Order // the plugin is deleted
	}
	switch {
	case f.Cause.Finalizer != "":
		by := cmp.Or(a.place.owners()[f.Cause.Finalizer], f.Cause.Finalizer)
		id, title = "finalizer/"+by, cmp.Or(f.Cause.Title, f.Title)
		if f.Cause.Owner == nil {
			id = f.Policy + "/" + by
		}
	case culprit != nil:
		o := *culprit
		object = &o
		id, title = o.Resource+"/"+o.Namespace+"/"+o.Name, titleOf(f, o)
		switch o.Resource {
		case nodes, csinodes: // with many faults each
			id += "/" + f.Policy
		case validating, mutating: // if it refuses the deletion, it refuses what others need
			class = policies.Broken
			if f.Policy == "webhook-backend-in-namespace" {
				class, id = policies.Order, id+"/"+f.Policy
			}
		case apiservices:
			if class == policies.Order {
				id += "/" + f.Policy
			}
		}
	}
	if id == "" {
		id, title = f.Policy, cmp.Or(f.Cause.Title, f.Title)
	}
	steps := append([]policies.Step{}, f.Steps[:min(len(f.Steps), maxSteps)]...)
	if len(steps) == 0 && f.Remedy != "" {
		steps = []policies.Step{{Kind: policies.Mend, Do: f.Remedy}}
	}
	c := g.add(Cause{ID: id, Class: class, Title: title, Object: object, Evidence: f.Evidence, Steps: steps})
	if rank := telling(f); rank > c.titled {
		c.Title, c.titled = title, rank
	}
	if !slices.Contains(c.Policies, f.Policy) {
		c.Policies = append(c.Policies, f.Policy)
	}
	c.owned = c.owned || f.Cause.Owner != nil
	if finalizer := f.Cause.Finalizer; finalizer != "" && !slices.Contains(c.Finalizers, finalizer) {
		c.Finalizers = append(c.Finalizers, finalizer)
	}
	return c
}

// telling ranks findings by how good a title they make.
func telling(f policies.Finding) (n int) {
	if f.Certainty == policies.Will {
		n++
	}
	if !f.Symptom && f.Policy != "crd-removed-with-finalizers" {
		n += 2
	}
	return n + 1
}

func (g grouping) unseen(what []policies.Unseen) *Cause {
	id, title := "unseen", "relevant facts are unseen"
	if len(what) > 0 {
		resource, why := what[0].Resource, what[0].Reason
		if what[0].What != "" {
			resource = "the objects themselves"
		}
		if resource != "" {
			id, title = "unseen/"+resource+"/"+why, resource+": "+why
		}
	}
	return g.add(Cause{ID: id, Class: Unseen, Title: title, Policies: []string{}, Steps: []policies.Step{}, Evidence: append([]string{}, policies.UnseenTexts(what[:min(len(what), maxNames)])...)})
}

func (g grouping) causes(items []answer.Item) []Cause {
	for _, item := range items {
		for _, h := range item.HeldBy {
			c := g[h.Cause]
			c.Holds++
			c.ByKind[Kind(item.Kind)]++
			if item.TerminatingSince != "" {
				c.Terminating++
			}
			if len(c.Names) < maxNames {
				c.Names = append(c.Names, item.Target.Ref())
			}
		}
	}
	causes := []Cause{}
	for _, c := range g {
		causes = append(causes, *c)
	}
	slices.SortFunc(causes, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Classes(), a.Class), slices.Index(Classes(), b.Class)),
			cmp.Compare(b.Holds, a.Holds), cmp.Compare(a.ID, b.ID),
		)
	})
	return causes
}

func titleOf(f policies.Finding, o policies.Object) string {
	if f.Cause.Title != "" {
		return f.Cause.Title
	}
	switch o.Resource {
	case nodes, csinodes:
		return "node " + o.Name + ": " + f.Title
	case budgets:
		return fmt.Sprintf("PodDisruptionBudget %s/%s blocks evictions", o.Namespace, o.Name)
	case apiservices, validating, mutating:
		return f.Message
	}
	return fmt.Sprintf("%s: %s", o.Ref(), f.Title)
}

// kindsIn returns the numbers by kind: "214 namespaces, all 3 nodes".
func kindsIn(byKind, all map[Kind]int) string {
	var parts []string
	for _, kind := range Kinds() {
		n := byKind[kind]
		if n == 0 {
			continue
		}
		part := page.Count(n, nouns[kind])
		if n == all[kind] && n > 1 {
			part = "all " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

var nouns = map[Kind]string{
	Namespaces: "namespace", Definitions: "definition", Nodes: "node", Releases: "Helm release", Custom: "custom resource", Claims: "claim",
	Volumes: "volume", Terminating: "other object",
}
