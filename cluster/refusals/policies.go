package refusals

import (
	"cmp"
	"errors"
	"slices"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/termguard/termguard/cluster/facts"
)

// policy is a ValidatingAdmissionPolicy (k8s.io/apiserver, pkg/admission/plugin/policy/validating/plugin.go), or
// a MutatingAdmissionPolicy, which refuses only on errors (policy/mutating/dispatcher.go).
type policy struct {
	scope       scope
	params      *admissionv1.ParamKind
	mutates     bool
	failsClosed bool
	conditions  expressions
	validations expressions
}

// policyBinding puts a policy into force, with action Deny.
type policyBinding struct {
	name   string // of the policy
	scope  scope
	params *admissionv1.ParamRef
}

type boundPolicy struct {
	*policy
	binding policyBinding
	reading *reading
}

type scope struct {
	namespaces, objects labels.Selector
	rules, excluded     []admissionv1.NamedRuleWithOperations
	exact               bool
	nothing             bool // a selector that cannot be parsed
}

// variable is as in policy/validating/interface.go: importing that package brings informers.
type variable admissionv1.Variable

func (v *variable) GetName() string       { return v.Name }
func (v *variable) GetExpression() string { return v.Expression }
func (v *variable) ReturnTypes() []*celgo.Type {
	return []*celgo.Type{celgo.AnyType, celgo.DynType}
}

// mutation is as in policy/mutating/accessor.go.
type mutation struct {
	expression string
	returns    *celgo.Type
}

func (m *mutation) GetExpression() string      { return m.expression }
func (m *mutation) ReturnTypes() []*celgo.Type { return []*celgo.Type{m.returns} }

// compilePolicy takes a mutation for a validation that is true if it can be evaluated; whether its result can
// be applied is not checked.
func compilePolicy(mutates bool, of admissionv1.ValidatingAdmissionPolicySpec, validations []admissioncel.ExpressionAccessor) *policy {
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil // cannot happen: the base environment is valid
	}
	declared := admissioncel.OptionalVariableDeclarations{HasParams: of.ParamKind != nil, HasAuthorizer: true}
	for _, v := range of.Variables {
		compiler.CompileAndStoreVariable((*variable)(&v), declared, environment.StoredExpressions)
	}
	compiled := policy{params: of.ParamKind, failsClosed: failsClosed(of.FailurePolicy), scope: newScope(of.MatchConstraints), mutates: mutates}
	compiled.conditions = compileConditions(compiler, of.MatchConditions, declared)
	declared.HasPatchTypes = mutates
	compiled.validations = compile(compiler, validations, declared)
	compiled.conditions.composed, compiled.validations.composed = compiler, compiler // they may read the variables
	return &compiled
}

// Result types of mutations (k8s.io/apiserver, pkg/admission/plugin/policy/mutating/patch).
var (
	applyConfigurationType = celgo.ObjectType("Object")
	jsonPatchesType        = celgo.ListType(celgo.ObjectType("JSONPatch"))
)

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

// matches is Matcher.Matches of k8s.io/apiserver, pkg/admission/plugin/policy/matching, for unknown objects.
func (s scope) matches(attributes admission.Attributes, namespaceLabels map[string]string) certainty {
	if s.nothing || attributes.GetNamespace() != "" && !s.namespaces.Matches(labels.Set(namespaceLabels)) {
		return no
	}
	sure := selected(s.objects, attributes)
	if sure == no {
		return no
	}
	rule := func(named admissionv1.NamedRuleWithOperations) certainty {
		r := named.RuleWithOperations
		if !s.exact {
			r.APIVersions = []string{"*"} // a request in another version is converted
		}
		matcher := rules.Matcher{Rule: r, Attr: attributes}
		switch {
		case !matcher.Matches():
			return no
		case len(named.ResourceNames) == 0 || slices.Contains(named.ResourceNames, attributes.GetName()):
			return will
		case attributes.GetName() != "" || identified(attributes): // items of a collection are deleted without a name
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

// selected matches the old or the new object; an unknown one may match.
func selected(by labels.Selector, attributes admission.Attributes) certainty {
	if by.Empty() {
		return will
	}
	switch old, object := labelsOf(attributes.GetOldObject()), labelsOf(attributes.GetObject()); {
	case old == nil && object == nil:
		return may
	case !(old != nil && by.Matches(old)) && !(object != nil && by.Matches(object)):
		return no
	}
	return will
}

func labelsOf(o runtime.Object) labels.Labels {
	m, is := o.(metav1.Object)
	if !is {
		return nil
	}
	return labels.Set(m.GetLabels())
}

func (b boundPolicy) refuses(a neededRequest) refusal {
	why := "the policy denies it"
	if b.mutates {
		why = "the policy fails on it"
	}
	return b.reading.judge(a, func(attributes admission.Attributes) refusal {
		return refusal{sure: b.denies(attributes, a.namespaceLabels, a.caller != nil), cause: "denied", why: why}
	})
}

// asDeleted returns an object before and after a request that its deletion needs; nil if it needs none. All
// finalizers count as removed at once.
func asDeleted(object *unstructured.Unstructured, op admission.Operation, subresource string) (old, now runtime.Object) {
	if op == admission.Delete {
		return object, nil
	}
	before := object.DeepCopy()
	if before.GetDeletionTimestamp() == nil {
		deleted := metav1.Unix(0, 0)
		before.SetDeletionTimestamp(&deleted)
	}
	after := before.DeepCopy()
	switch subresource {
	case "finalize":
		unstructured.RemoveNestedField(after.Object, "spec", "finalizers")
	case "":
		if len(before.GetFinalizers()) == 0 {
			return nil, nil
		}
		after.SetFinalizers(nil)
	}
	return before, after
}

func (b boundPolicy) denies(attributes admission.Attributes, namespaceLabels map[string]string, callerKnown bool) certainty {
	if b.mutates && attributes.GetOperation() == admission.Delete {
		return no // it does not apply
	}
	sure := min(b.policy.scope.matches(attributes, namespaceLabels), b.binding.scope.matches(attributes, namespaceLabels))
	if sure == no {
		return no
	}
	params, err := b.parameters(attributes.GetNamespace())
	switch {
	case errors.Is(err, errNotRead):
		return min(may, b.deniesWith(attributes, callerKnown, nil, false))
	case err != nil && b.failsClosed:
		return sure
	case err != nil:
		return no
	}
	denies := no
	for _, param := range params {
		denies = max(denies, b.deniesWith(attributes, callerKnown, param, true))
	}
	return min(sure, denies)
}

func (b boundPolicy) deniesWith(attributes admission.Attributes, callerKnown bool, param runtime.Object, paramKnown bool) certainty {
	in := input{attributes: attributes, callerKnown: callerKnown, manifest: b.reading.manifests, param: param, paramKnown: paramKnown, namespace: b.reading.namespace(attributes.GetNamespace())}
	sure := will
	for _, outcome := range b.conditions.outcomes(in) {
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
	for _, outcome := range b.validations.outcomes(in) {
		switch {
		case outcome.is == isFalse, outcome.is == isError && b.failsClosed:
			denies = will
		case outcome.is == depends:
			denies = max(denies, may)
		}
	}
	return min(sure, denies)
}

// Kinds of policies and webhooks, as in the names of their resources.
const validatingKind, mutatingKind = "validating", "mutating"

func (p *Part) keepValidatingPolicy(o *admissionv1.ValidatingAdmissionPolicy) bool {
	var demands []any
	var validations []admissioncel.ExpressionAccessor
	for _, v := range o.Spec.Validations {
		demands = append(demands, cmp.Or(v.Message, v.Expression))
		validations = append(validations, &matchconditions.MatchCondition{Expression: v.Expression})
	}
	return p.keepPolicy(validatingKind, o.Name, o.Spec, validations, demands)
}

func (p *Part) keepMutatingPolicy(o *admissionv1.MutatingAdmissionPolicy) bool {
	var mutations []admissioncel.ExpressionAccessor
	for _, each := range o.Spec.Mutations {
		switch {
		case each.ApplyConfiguration != nil:
			mutations = append(mutations, &mutation{each.ApplyConfiguration.Expression, applyConfigurationType})
		case each.JSONPatch != nil:
			mutations = append(mutations, &mutation{each.JSONPatch.Expression, jsonPatchesType})
		}
	}
	return p.keepPolicy(mutatingKind, o.Name, admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind: o.Spec.ParamKind, MatchConstraints: o.Spec.MatchConstraints, FailurePolicy: o.Spec.FailurePolicy,
		MatchConditions: o.Spec.MatchConditions, Variables: o.Spec.Variables,
	}, mutations, nil)
}

func failsClosed(policy *admissionv1.FailurePolicyType) bool {
	return facts.Or(policy, admissionv1.Fail) == admissionv1.Fail
}

func (p *Part) keepPolicy(kind, name string, of admissionv1.ValidatingAdmissionPolicySpec, validations []admissioncel.ExpressionAccessor, demands []any) bool {
	p.policies[kind+"/"+name] = compilePolicy(kind == mutatingKind, of, validations)
	p.doc.Child("admissionpolicies")[kind+"/"+name] = map[string]any{
		"failurePolicy": string(facts.Or(of.FailurePolicy, admissionv1.Fail)),
		"validations":   demands,
	}
	p.hooksDirty = true
	return true
}

func (p *Part) forgetPolicy(kind string) func(types.NamespacedName) {
	return func(key types.NamespacedName) {
		delete(p.policies, kind+"/"+key.Name)
		p.doc.Prune("admissionpolicies", kind+"/"+key.Name)
		p.hooksDirty = true
	}
}

func (p *Part) bindingChanged(types.NamespacedName, policyBinding, policyBinding) {
	p.hooksDirty = true
}

// deniers returns the policies in force, by "KIND/POLICY/BINDING".
func (p *Part) deniers() map[string]boundPolicy {
	deniers := map[string]boundPolicy{}
	for kind, bindings := range p.bindings {
		for key, b := range bindings {
			if g := p.policies[kind+"/"+b.name]; g != nil {
				deniers[kind+"/"+b.name+"/"+key.Name] = boundPolicy{g, b, p.reading}
			}
		}
	}
	return deniers
}
