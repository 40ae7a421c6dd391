package deletion

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Class is the effect of an action on others, as a permission.
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

func meaningOf(c Class) Meaning { return Classes[harm(c)] }

func harm(c Class) int {
	return slices.IndexFunc(Classes, func(m Meaning) bool { return m.Class == c })
}

func worse(a, b Class) Class {
	if harm(b) > harm(a) {
		return b
	}
	return a
}

// grave are the kinds that others in the cluster rely on.
var grave = []schema.GroupResource{
	question.Nodes, question.Definitions,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"},
	{Group: "policy", Resource: "poddisruptionbudgets"},
}

// ClassOf returns the class of a step on an object: own if it is a target, or in a target namespace, and leaving
// if it is Terminating. A step without a class is not executed: its effect on others is unknown.
func ClassOf(s policies.Step, resource schema.GroupResource, own, leaving bool) (Class, error) {
	deletes := s.Action.Verb == policies.VerbDelete
	switch {
	case s.Kind == policies.Force || s.Action.Forces():
		return ClassForce, nil
	case len(s.RemovedFinalizers()) > 0:
		return ClassStrip, nil
	case deletes && leaving:
		return ClassWait, nil
	case own:
		return ClassOwn, nil
	case slices.Contains(grave, resource):
		return ClassForce, nil
	case s.Action.Verb == policies.VerbScale && *s.Action.Replicas > 0:
		return ClassRestore, nil
	case deletes:
		return ClassForeign, nil
	}
	return "", fmt.Errorf("no permission covers this action: run it yourself: %s", s.Command)
}
