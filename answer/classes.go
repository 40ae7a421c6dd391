package answer

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
)

// Class is the effect of an action on others, as a permission of termguard delete.
type Class string

const (
	ClassWait    Class = "wait"
	ClassOwn     Class = "own"
	ClassRisk    Class = "risk"
	ClassRestore Class = "restore"
	ClassForeign Class = "foreign"
	ClassStrip   Class = "strip"
	ClassForce   Class = "force"
)

// Meaning describes a class to users.
type Meaning struct {
	Class Class
	// Does is the effect, Lost the cost, and Consent the flag that allows it.
	Does, Lost, Consent string
	// ByName says that a flag has to name each object, too.
	ByName bool
}

// Classes are the rows of docs/delete.md, the most harmless first.
var Classes = []Meaning{
	{ClassWait, "deletes a Terminating object, which changes nothing", "nothing", "`--yes`", false},
	{ClassOwn, "deletes or changes a target, or an object in a target namespace", "the targets", "`--yes`", false},
	{ClassRisk, "deletes a target that may hang, before the steps that the plan puts first", "anything that those steps would have saved: a deletion cannot be undone", "`--allow risk`", false},
	{ClassRestore, "scales up a workload outside the targets; nothing is deleted", "nothing; the workload runs until it is scaled down", "`--allow restore`", false},
	{ClassForeign, "deletes an object outside the targets", "that object, and its dependents", "`--allow foreign=TYPE/NAMESPACE/NAME`", true},
	{ClassStrip, "removes a finalizer", "anything that the finalizer's owner has not cleaned up: it is leaked", "`--allow strip`; outside the targets and the instances of a target definition, `--allow strip=TYPE/NAMESPACE/NAME`", false},
	{ClassForce, "deletes or changes a Node, APIService, webhook configuration, admission policy, definition or PodDisruptionBudget outside the targets, finalizes a namespace, or deletes with grace period 0", "an object that others in the cluster rely on: the step names it", "`--allow force=TYPE/NAME`", true},
}

// MeaningOf returns the row of a class.
func MeaningOf(c Class) Meaning { return Classes[harm(c)] }

func harm(c Class) int {
	return slices.IndexFunc(Classes, func(m Meaning) bool { return m.Class == c })
}

// Worse returns the more harmful class.
func Worse(a, b Class) Class {
	if harm(b) > harm(a) {
		return b
	}
	return a
}

// grave are the kinds that others in the cluster rely on.
var grave = []schema.GroupResource{
	nodes, definitions,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"},
	{Group: "policy", Resource: "poddisruptionbudgets"},
}

type deed struct {
	policies.Step
	resource schema.GroupResource
	// own: the object is a target, or in a target namespace; leaving: it is Terminating.
	own, leaving bool
	// goes: it is deleted with a target in any case, as the target, its content, or an instance of it.
	goes bool
}

// rules classify a deed: the first match counts.
var rules = []struct {
	class Class
	holds func(deed) bool
}{
	{ClassForce, func(d deed) bool { return d.Kind == policies.Force || d.Action.Forces() }},
	{ClassStrip, func(d deed) bool { return len(d.Strips()) > 0 }},
	{ClassWait, func(d deed) bool { return d.Action.Verb == policies.VerbDelete && d.leaving }},
	{ClassOwn, func(d deed) bool { return d.own }},
	{ClassForce, func(d deed) bool { return slices.Contains(grave, d.resource) }},
	{ClassRestore, func(d deed) bool { return d.Action.Verb == policies.VerbScale && *d.Action.Replicas > 0 }},
	{ClassForeign, func(d deed) bool { return d.Action.Verb == policies.VerbDelete }},
}

// class returns an error if no rule matches: the effect on others is unknown, so the deed is not executed.
func (d deed) class() (Class, error) {
	for _, rule := range rules {
		if rule.holds(d) {
			return rule.class, nil
		}
	}
	return "", fmt.Errorf("termguard has no class for this action, and leaves it to you: %s", d.Command)
}

// named reports whether a flag has to name the object, since the class alone would allow the action on any.
func (d deed) named(c Class) bool { return MeaningOf(c).ByName || c == ClassStrip && !d.goes }

// advice returns why a step is manual, or "". hangs says that the deletion certainly hangs, for any cause.
func advice(f policies.Finding, s policies.Step, hangs bool) string {
	switch {
	case f.Custom:
		return "policy " + f.Policy + " is not one of termguard's own"
	case f.Certainty != policies.Will && len(s.Strips()) > 0:
		return "something that it does not know, or does not see, may still remove the finalizer; it removes one only where it is certain that nobody else will"
	case f.Certainty != policies.Will && hangs:
		return "the deletion hangs, but it is not certain that this is why"
	case f.Certainty != policies.Will:
		return "it is not certain that the deletion hangs"
	case !blocks(f):
		return "nothing waits for it"
	}
	return ""
}
