package refusals

import (
	"context"
	"errors"
	"regexp"
	"slices"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/termguard/termguard/cluster/facts"
)

// refuser is what may refuse a request that a deletion needs.
type refuser interface {
	// refuses tells how surely it refuses a request for some object of a
	// resource, and why. caller is nil where it is not known who calls.
	refuses(op admission.Operation, gvr schema.GroupVersionResource, subresource, namespace string, namespaceLabels map[string]string, caller user.Info) refusal
}

// policy is a ValidatingAdmissionPolicy, compiled as the API server compiles it
// (k8s.io/apiserver, pkg/admission/plugin/policy/validating/plugin.go).
type policy struct {
	scope       scope
	params      bool // it has a paramKind
	failsClosed bool
	conditions  expressions
	validations expressions
}

// binding puts a policy into force: one that denies.
type policyBinding struct {
	name  string // of the policy
	scope scope
}

// bound is a policy where a binding puts it into force.
type bound struct {
	*policy
	binding *policyBinding
}

// scope is what a policy or a binding applies to.
type scope struct {
	namespaces, objects labels.Selector
	rules, excluded     []admissionv1.NamedRuleWithOperations
	exact               bool
	nothing             bool // a selector that cannot be parsed
}

// expressions are evaluated together; reads tells of each what it looks at
// beyond what is known of a request.
type expressions struct {
	evaluator admissioncel.ConditionEvaluator
	reads     []reads
}

// reads tells what an expression looks at: the new object, which a DELETE has
// not; anything else that is not known of a request; who calls.
type reads struct{ object, other, user, absence bool }

var (
	readsObject  = regexp.MustCompile(`\bobject\b`)
	readsOther   = regexp.MustCompile(`\b(oldObject|namespaceObject|params|authorizer)\b`)
	readsUser    = regexp.MustCompile(`\buserInfo\b`)
	readsRequest = regexp.MustCompile(`\brequest\s*\.\s*(name|kind|requestKind|options|object|oldObject|uid|dryRun)\b`)
	// readsAbsence is what makes sense of an object that is not there, and so
	// may come to a result that another object would not.
	readsAbsence  = regexp.MustCompile(`\bnull\b|\.\?|\[\?|\btype\(|\bdyn\(|\?\.`)
	readsVariable = regexp.MustCompile(`\bvariables\s*\.\s*(\w+)`)
)

// variable is one of a policy, as the API server compiles it
// (policy/validating/interface.go; importing that package brings informers).
type variable admissionv1.Variable

func (v *variable) GetName() string       { return v.Name }
func (v *variable) GetExpression() string { return v.Expression }
func (v *variable) ReturnTypes() []*celgo.Type {
	return []*celgo.Type{celgo.AnyType, celgo.DynType}
}

func newPolicy(o *admissionv1.ValidatingAdmissionPolicy) *policy {
	g := &policy{params: o.Spec.ParamKind != nil, failsClosed: facts.Or(o.Spec.FailurePolicy, admissionv1.Fail) == admissionv1.Fail}
	g.scope = newScope(o.Spec.MatchConstraints)
	declared := admissioncel.OptionalVariableDeclarations{HasParams: g.params, HasAuthorizer: true}
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil // cannot happen: the environment is the API server's own
	}
	variables := map[string]string{}
	for _, v := range o.Spec.Variables {
		compiler.CompileAndStoreVariable((*variable)(&v), declared, environment.StoredExpressions)
		variables[v.Name] = v.Expression
	}
	var conditions, validations []admissioncel.ExpressionAccessor
	for _, c := range o.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&c))
	}
	for _, v := range o.Spec.Validations {
		validations = append(validations, &matchconditions.MatchCondition{Expression: v.Expression})
	}
	g.conditions, g.validations = compileExpressions(compiler, conditions, declared, variables), compileExpressions(compiler, validations, declared, variables)
	return g
}

func compileExpressions(compiler admissioncel.ConditionCompiler, accessors []admissioncel.ExpressionAccessor, declared admissioncel.OptionalVariableDeclarations, variables map[string]string) expressions {
	e := expressions{evaluator: compiler.CompileCondition(accessors, declared, environment.StoredExpressions)}
	for _, accessor := range accessors {
		e.reads = append(e.reads, readsOf(accessor.GetExpression(), variables))
	}
	return e
}

// readsOf tells what an expression looks at, by way of variables too: they can
// only refer to those before them.
func readsOf(expression string, variables map[string]string) reads {
	all := expression
	seen := map[string]bool{}
	for pending := []string{expression}; len(pending) > 0; pending = pending[1:] {
		for _, found := range readsVariable.FindAllStringSubmatch(pending[0], -1) {
			if name := found[1]; !seen[name] {
				seen[name] = true
				all += "\n" + variables[name]
				pending = append(pending, variables[name])
			}
		}
	}
	return reads{
		object:  readsObject.MatchString(all),
		other:   readsOther.MatchString(all) || readsRequest.MatchString(all),
		user:    readsUser.MatchString(all),
		absence: readsAbsence.MatchString(all) || readsRequest.MatchString(all),
	}
}

func newScope(m *admissionv1.MatchResources) scope {
	s := scope{namespaces: labels.Everything(), objects: labels.Everything()}
	if m == nil {
		return s
	}
	var errs [2]error
	s.namespaces, errs[0] = selector(m.NamespaceSelector)
	s.objects, errs[1] = selector(m.ObjectSelector)
	s.nothing = errs[0] != nil || errs[1] != nil
	s.rules, s.excluded = m.ResourceRules, m.ExcludeResourceRules
	s.exact = facts.Or(m.MatchPolicy, admissionv1.Equivalent) == admissionv1.Exact
	return s
}

// matches is Matcher.Matches of k8s.io/apiserver,
// pkg/admission/plugin/policy/matching, for objects that are not at hand.
func (s scope) matches(attributes admission.Attributes, namespaceLabels map[string]string) certainty {
	if s.nothing || attributes.GetNamespace() != "" && !s.namespaces.Matches(labels.Set(namespaceLabels)) {
		return no
	}
	sure := will
	if !s.objects.Empty() {
		sure = may
	}
	rule := func(named admissionv1.NamedRuleWithOperations) certainty {
		r := named.RuleWithOperations
		if !s.exact {
			r.APIVersions = []string{"*"} // a request in another version of the same resource is converted
		}
		matcher := rules.Matcher{Rule: r, Attr: attributes}
		switch {
		case !matcher.Matches():
			return no
		case len(named.ResourceNames) == 0 || slices.Contains(named.ResourceNames, attributes.GetName()):
			return will
		case attributes.GetName() != "":
			return no
		}
		return may
	}
	for _, named := range s.excluded {
		switch rule(named) {
		case will:
			return no
		case may:
			sure = may
		}
	}
	if len(s.rules) == 0 {
		return sure
	}
	best := no
	for _, named := range s.rules {
		best = max(best, rule(named))
	}
	return min(sure, best)
}

// newBinding returns nil for one that denies nothing.
func newBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) *policyBinding {
	if !slices.Contains(o.Spec.ValidationActions, admissionv1.Deny) {
		return nil
	}
	return &policyBinding{name: o.Spec.PolicyName, scope: newScope(o.Spec.MatchResources)}
}

// refuses tells how surely the policy denies.
func (b bound) refuses(op admission.Operation, gvr schema.GroupVersionResource, subresource, namespace string, namespaceLabels map[string]string, caller user.Info) refusal {
	name := ""
	if gvr == namespacesResource {
		name = namespace
	}
	attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version}, namespace, name, gvr, subresource, op, nil, false, known(caller))
	return refusal{sure: b.denies(attributes, namespaceLabels, caller != nil), cause: "denied", why: "the policy denies it"}
}

func (b bound) denies(attributes admission.Attributes, namespaceLabels map[string]string, callerKnown bool) certainty {
	sure := min(b.policy.scope.matches(attributes, namespaceLabels), b.binding.scope.matches(attributes, namespaceLabels))
	if sure == no {
		return no
	}
	if b.params {
		sure = may // the parameters are not part of the facts
	}
	for _, outcome := range b.conditions.evaluate(attributes, callerKnown) {
		switch {
		case outcome.is == isFalse, outcome.is == isError && !b.failsClosed:
			return no
		case outcome.is == isError:
			return sure // no validation is evaluated: the policy fails closed
		case outcome.is == depends:
			sure = may
		}
	}
	denies := no
	for _, outcome := range b.validations.evaluate(attributes, callerKnown) {
		switch {
		case outcome.is == isFalse, outcome.is == isError && b.failsClosed:
			denies = will
		case outcome.is == depends:
			denies = max(denies, may)
		}
	}
	return min(sure, denies)
}

// outcome of an expression: err where it is an error.
type outcome struct {
	is  verdictOf
	err error
}

type verdictOf int

const (
	isTrue verdictOf = iota
	isFalse
	isError
	depends // on what is not known
)

// evaluate evaluates without objects: CEL comes to a result all the same where
// it does not depend on them, as in "request.operation != 'DELETE' || …".
func (e expressions) evaluate(attributes admission.Attributes, callerKnown bool) []outcome {
	if len(e.reads) == 0 {
		return nil
	}
	outcomes := make([]outcome, len(e.reads))
	gvr := attributes.GetResource()
	request := admissioncel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource}, metav1.GroupVersionKind(attributes.GetKind()))
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: attributes.GetKind()}
	results, _, err := e.evaluator.ForInput(context.Background(), versioned, request, admissioncel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
	if err != nil || len(results) != len(e.reads) {
		for i := range outcomes {
			outcomes[i].is = depends
		}
		return outcomes
	}
	for i, result := range results {
		var invalid *apiservercel.Error
		r := e.reads[i]
		unknown := r.other || r.object && attributes.GetOperation() != admission.Delete
		switch {
		case errors.As(result.Error, &invalid) && invalid.Type == apiservercel.ErrorTypeInvalid && result.EvalResult == nil && !unknown && !r.user:
			outcomes[i] = outcome{isError, result.Error}
		case r.user && !callerKnown, unknown && r.absence, result.Error != nil && unknown:
			outcomes[i].is = depends
		case result.Error != nil:
			outcomes[i] = outcome{isError, result.Error}
		case result.EvalResult.Value() == true:
			outcomes[i].is = isTrue
		default:
			outcomes[i].is = isFalse
		}
	}
	return outcomes
}

// KeepPolicy takes in a ValidatingAdmissionPolicy.
func (p *Part) KeepPolicy(o *admissionv1.ValidatingAdmissionPolicy) bool {
	p.policies[o.Name] = newPolicy(o)
	var messages []any
	for _, v := range o.Spec.Validations {
		text := v.Message
		if text == "" {
			text = v.Expression
		}
		messages = append(messages, text)
	}
	p.doc.Child("admissionpolicies")[o.Name] = map[string]any{
		"failurePolicy": string(facts.Or(o.Spec.FailurePolicy, admissionv1.Fail)),
		"validations":   messages,
	}
	p.hooksDirty = true
	return true
}

// ForgetPolicy undoes KeepPolicy.
func (p *Part) ForgetPolicy(key types.NamespacedName) {
	delete(p.policies, key.Name)
	p.doc.Prune("admissionpolicies", key.Name)
	p.hooksDirty = true
}

// KeepPolicyBinding takes in a ValidatingAdmissionPolicyBinding.
func (p *Part) KeepPolicyBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	p.ForgetPolicyBinding(types.NamespacedName{Name: o.Name})
	if b := newBinding(o); b != nil {
		p.policyBindings[o.Name] = b
	}
	return true
}

// ForgetPolicyBinding undoes KeepPolicyBinding.
func (p *Part) ForgetPolicyBinding(key types.NamespacedName) {
	delete(p.policyBindings, key.Name)
	p.hooksDirty = true
}

// deniers are the policies in force that deny, by "policy/binding".
func (p *Part) deniers() map[string]bound {
	found := map[string]bound{}
	for name, b := range p.policyBindings {
		if g := p.policies[b.name]; g != nil {
			found[b.name+"/"+name] = bound{g, b}
		}
	}
	return found
}
