package refusals

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/termguard/termguard/cluster/facts"
)

// refuser is what may refuse a request that a deletion needs.
type refuser interface {
	// refuses tells how surely it refuses a request, and why.
	refuses(asking) refusal
}

// policy is a ValidatingAdmissionPolicy, compiled as the API server compiles it
// (k8s.io/apiserver, pkg/admission/plugin/policy/validating/plugin.go), or a
// MutatingAdmissionPolicy, of which only errors refuse
// (k8s.io/apiserver, pkg/admission/plugin/policy/mutating/dispatcher.go).
type policy struct {
	scope       scope
	params      *admissionv1.ParamKind
	mutates     bool
	failsClosed bool
	conditions  expressions
	validations expressions // or mutations
}

// binding puts a policy into force: one that denies.
type policyBinding struct {
	name   string // of the policy
	scope  scope
	params *admissionv1.ParamRef
}

// bound is a policy where a binding puts it into force.
type bound struct {
	*policy
	binding *policyBinding
	reading *reading
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
	evaluate func(context.Context, *admission.VersionedAttributes, *admissionapi.AdmissionRequest, admissioncel.OptionalVariableBindings, *corev1.Namespace) ([]admissioncel.EvaluationResult, error)
	reads    []reads
}

// reads tells what an expression looks at: the new object, which a DELETE has
// not; the old one, or what else tells which object it is; the namespace, or what
// changes of it when it is deleted; the parameters; the options of the request; what else
// nobody knows of one that is still to come; who calls. anonymous tells that it comes to a result for a
// caller without a name, too, who has no such fields; defaults, that it asks for fields
// that the API server may have filled in.
type reads struct {
	object, beyond, old, namespace, fate, params, options, other, user, absence, anonymous, defaults bool
}

var (
	readsObject = regexp.MustCompile(`\bobject\b`)
	// readsLabels is what the template of a pod tells of it.
	readsLabels    = regexp.MustCompile(`\bobject\s*\.\s*metadata\s*\.\s*(labels|namespace)\b`)
	readsOld       = regexp.MustCompile(`\boldObject\b|\brequest\s*\.\s*(name|kind|requestKind|object)\b`)
	readsNamespace = regexp.MustCompile(`\bnamespaceObject\b`)
	readsFate      = regexp.MustCompile(`\bnamespaceObject\s*\.\s*(\??\s*status|metadata\s*\.\s*(\??\s*(deletion|resourceVersion|generation|managedFields)))|\bnamespaceObject\s*($|[^.\s])`)
	readsParams    = regexp.MustCompile(`\bparams\b`)
	readsOptions   = regexp.MustCompile(`\brequest\s*\.\s*options\b`)
	readsOther     = regexp.MustCompile(`\bauthorizer\b|\brequest\s*\.\s*(uid|dryRun)\b`)
	readsUser      = regexp.MustCompile(`\buserInfo\b`)
	readsRequest   = regexp.MustCompile(`\brequest\s*\.\s*(name|kind|requestKind|options|object|oldObject|uid|dryRun)\b`)
	// readsAbsence is what makes sense of an object that is not there, and so
	// may come to a result that another object would not.
	readsAbsence = regexp.MustCompile(`\bnull\b|\.\?|\[\?|\btype\(|\bdyn\(|\?\.|\bhas\(\s*(object|oldObject|params|namespaceObject)\s*\.\s*\w+\s*\)`)
	// readsAnonymous is what makes sense of a caller without a name.
	readsAnonymous = regexp.MustCompile(`\bhas\(\s*request\b|\.\s*\?|\[\s*\?|\?\.|\btype\(|\bdyn\(|\buserInfo\s*($|[^.\s])`)
	// readsThere is whether there is an object, which the operation tells.
	readsThere = regexp.MustCompile(`\b(object|oldObject)\s*[!=]=\s*null\b`)
	// readsMetadata is what nobody but its author writes of an object, as a rule.
	readsMetadata = regexp.MustCompile(`\b(object|oldObject)\s*\.\s*\??metadata(\s*\.\s*\??(name|namespace|labels|annotations|finalizers|ownerReferences|deletionTimestamp)\b(\s*\.\s*\??\w+|\s*\[\s*\??\s*('[^']*'|"[^"]*")\s*\])?)?`)
	readsDefaults = regexp.MustCompile(`\bnull\b|\.\s*\?|\[\s*\?|\btype\(|\bdyn\(|\?\.|\bhas\(\s*(§\s*\.|[^§\s])`)
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

// mutation is one of a MutatingAdmissionPolicy, as the API server compiles it
// (policy/mutating/accessor.go).
type mutation struct {
	expression string
	returns    *celgo.Type
}

func (m *mutation) GetExpression() string      { return m.expression }
func (m *mutation) ReturnTypes() []*celgo.Type { return []*celgo.Type{m.returns} }

// maker makes policies: what they have in common to compile.
type maker struct {
	*policy
	compiler  *admissioncel.CompositedCompiler
	declared  admissioncel.OptionalVariableDeclarations
	variables map[string]string
}

// newMaker returns nil where the API server's own environment is of no use, which
// cannot happen.
func newMaker(params *admissionv1.ParamKind, fails *admissionv1.FailurePolicyType, constraints *admissionv1.MatchResources, variables []admissionv1.Variable, conditions []admissionv1.MatchCondition) *maker {
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil
	}
	m := &maker{
		policy:   &policy{params: params, failsClosed: facts.Or(fails, admissionv1.Fail) == admissionv1.Fail, scope: newScope(constraints)},
		compiler: compiler, declared: admissioncel.OptionalVariableDeclarations{HasParams: params != nil, HasAuthorizer: true}, variables: map[string]string{},
	}
	for _, v := range variables {
		compiler.CompileAndStoreVariable((*variable)(&v), m.declared, environment.StoredExpressions)
		m.variables[v.Name] = v.Expression
	}
	var accessors []admissioncel.ExpressionAccessor
	for _, c := range conditions {
		accessors = append(accessors, (*matchconditions.MatchCondition)(&c))
	}
	m.conditions = compileExpressions(compiler, accessors, m.declared, m.variables)
	return m
}

func newPolicy(o *admissionv1.ValidatingAdmissionPolicy) *policy {
	m := newMaker(o.Spec.ParamKind, o.Spec.FailurePolicy, o.Spec.MatchConstraints, o.Spec.Variables, o.Spec.MatchConditions)
	if m == nil {
		return nil
	}
	var validations []admissioncel.ExpressionAccessor
	for _, v := range o.Spec.Validations {
		validations = append(validations, &matchconditions.MatchCondition{Expression: v.Expression})
	}
	m.validations = compileExpressions(m.compiler, validations, m.declared, m.variables)
	return m.policy
}

// newMutatingPolicy takes a mutation for a validation that is true where its
// expression can be evaluated: whether its result can be applied is not looked at.
func newMutatingPolicy(o *admissionv1.MutatingAdmissionPolicy) *policy {
	m := newMaker(o.Spec.ParamKind, o.Spec.FailurePolicy, o.Spec.MatchConstraints, o.Spec.Variables, o.Spec.MatchConditions)
	if m == nil {
		return nil
	}
	m.mutates = true
	m.declared.HasPatchTypes = true
	var evaluators []admissioncel.MutatingEvaluator
	for _, each := range o.Spec.Mutations {
		accessor := &mutation{}
		switch {
		case each.ApplyConfiguration != nil:
			accessor.expression, accessor.returns = each.ApplyConfiguration.Expression, applyConfigurationType
		case each.JSONPatch != nil:
			accessor.expression, accessor.returns = each.JSONPatch.Expression, jsonPatchesType
		default:
			continue
		}
		evaluators = append(evaluators, m.compiler.CompileMutatingEvaluator(accessor, m.declared, environment.StoredExpressions))
		m.validations.reads = append(m.validations.reads, readsOf(accessor.expression, m.variables))
	}
	m.validations.evaluate = func(ctx context.Context, versioned *admission.VersionedAttributes, request *admissionapi.AdmissionRequest, inputs admissioncel.OptionalVariableBindings, ns *corev1.Namespace) ([]admissioncel.EvaluationResult, error) {
		var results []admissioncel.EvaluationResult
		for _, evaluator := range evaluators {
			result, _, err := evaluator.ForInput(ctx, versioned, request, inputs, ns, celconfig.RuntimeCELCostBudget)
			if err != nil {
				return nil, err
			}
			if result.Error == nil {
				result.EvalResult = celtypes.True
			}
			results = append(results, result)
		}
		return results, nil
	}
	return m.policy
}

// What mutations come to (k8s.io/apiserver, pkg/admission/plugin/policy/mutating/patch).
var (
	applyConfigurationType = celgo.ObjectType("Object")
	jsonPatchesType        = celgo.ListType(celgo.ObjectType("JSONPatch"))
)

func compileExpressions(compiler admissioncel.ConditionCompiler, accessors []admissioncel.ExpressionAccessor, declared admissioncel.OptionalVariableDeclarations, variables map[string]string) expressions {
	evaluator := compiler.CompileCondition(accessors, declared, environment.StoredExpressions)
	e := expressions{evaluate: func(ctx context.Context, versioned *admission.VersionedAttributes, request *admissionapi.AdmissionRequest, inputs admissioncel.OptionalVariableBindings, ns *corev1.Namespace) ([]admissioncel.EvaluationResult, error) {
		results, _, err := evaluator.ForInput(ctx, versioned, request, inputs, ns, celconfig.RuntimeCELCostBudget)
		return results, err
	}}
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
		object:    readsObject.MatchString(all),
		beyond:    readsObject.MatchString(readsLabels.ReplaceAllString(all, "§")),
		old:       readsOld.MatchString(all),
		namespace: readsNamespace.MatchString(all),
		fate:      readsFate.MatchString(all),
		params:    readsParams.MatchString(all),
		options:   readsOptions.MatchString(all),
		other:     readsOther.MatchString(all),
		user:      readsUser.MatchString(all),
		anonymous: readsAnonymous.MatchString(all),
		defaults:  readsDefaults.MatchString(readsMetadata.ReplaceAllString(readsThere.ReplaceAllString(all, "§"), "§")),
		absence:   readsAbsence.MatchString(all) || readsRequest.MatchString(all),
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
	sure := selected(s.objects, attributes)
	if sure == no {
		return no
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
		case attributes.GetName() != "" || attributes.GetOldObject() != nil: // items of a collection are deleted without a name
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

// selected tells whether a selector of objects takes in a request: the old object or
// the new one is enough, and where neither is known, it may.
func selected(by labels.Selector, attributes admission.Attributes) certainty {
	if by.Empty() {
		return will
	}
	switch old, object := labelled(attributes.GetOldObject()), labelled(attributes.GetObject()); {
	case old == nil && object == nil:
		return may
	case !(old != nil && by.Matches(old)) && !(object != nil && by.Matches(object)):
		return no
	}
	return will
}

// labelled are the labels of an object, nil where there is none.
func labelled(o runtime.Object) labels.Labels {
	m, is := o.(metav1.Object)
	if !is {
		return nil
	}
	return labels.Set(m.GetLabels())
}

// newBinding returns nil for one that denies nothing.
func newBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) *policyBinding {
	if !slices.Contains(o.Spec.ValidationActions, admissionv1.Deny) {
		return nil
	}
	return &policyBinding{name: o.Spec.PolicyName, scope: newScope(o.Spec.MatchResources), params: o.Spec.ParamRef}
}

// refuses tells how surely the policy denies a request for some object; for which
// objects, where they were read and it denies some.
func (b bound) refuses(a asking) refusal {
	why := "the policy denies it"
	if b.mutates {
		why = "the policy fails on it"
	}
	return b.reading.judge(a, func(attributes admission.Attributes) refusal {
		return refusal{sure: b.denies(attributes, a.namespaceLabels, a.caller != nil), cause: "denied", why: why}
	})
}

// asDeleted is an object as a request that its deletion needs finds it, and what
// that makes of it; nil where it needs no such request. Of several finalizers it
// takes all for gone with the first.
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

// denies tells how surely the policy denies a request, with or without its object.
func (b bound) denies(attributes admission.Attributes, namespaceLabels map[string]string, callerKnown bool) certainty {
	if b.mutates && attributes.GetOperation() == admission.Delete {
		return no // it is not asked
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

// deniesWith tells how surely the policy denies a request that is in its scope,
// with one of its parameters.
func (b bound) deniesWith(attributes admission.Attributes, callerKnown bool, param runtime.Object, paramKnown bool) certainty {
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

// input is what expressions are evaluated with, as far as it is known.
type input struct {
	attributes  admission.Attributes
	callerKnown bool
	manifest    bool // the object lacks what the API server fills in
	param       runtime.Object
	paramKnown  bool
	namespace   *corev1.Namespace
}

// unknown tells whether an expression reads what is not known.
func (in input) unknown(r reads) bool {
	blind := in.attributes.GetOldObject() == nil
	return r.other || r.fate || r.options && in.attributes.GetOperationOptions() == nil || r.old && blind || r.object && blind && in.attributes.GetOperation() != admission.Delete && !in.created() ||
		r.params && !in.paramKnown || r.namespace && in.namespace == nil
}

// created tells whether it is an object that a template tells, of which the labels are
// known.
func (in input) created() bool {
	return in.attributes.GetOperation() == admission.Create && in.attributes.GetObject() != nil
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

// outcomes evaluates with what is known: CEL comes to a result all the same where
// it does not depend on the rest, as in "request.operation != 'DELETE' || …".
func (e expressions) outcomes(in input) []outcome {
	if len(e.reads) == 0 {
		return nil
	}
	outcomes := make([]outcome, len(e.reads))
	gvr := in.attributes.GetResource()
	request := admissioncel.CreateAdmissionRequest(in.attributes, metav1.GroupVersionResource{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource}, metav1.GroupVersionKind(in.attributes.GetKind()))
	versioned := &admission.VersionedAttributes{
		Attributes: in.attributes, VersionedKind: in.attributes.GetKind(),
		VersionedObject: admission.NewLazyObject(in.attributes.GetObject()), VersionedOldObject: admission.NewLazyObject(in.attributes.GetOldObject()),
	}
	results, err := e.evaluate(context.Background(), versioned, request, admissioncel.OptionalVariableBindings{VersionedParams: in.param}, in.namespace)
	if err != nil || len(results) != len(e.reads) {
		for i := range outcomes {
			outcomes[i].is = depends
		}
		return outcomes
	}
	for i, result := range results {
		var invalid *apiservercel.Error
		r := e.reads[i]
		unknown := in.unknown(r)
		if in.created() && r.object && (r.beyond || result.Error != nil) {
			outcomes[i].is = depends
			continue
		}
		if in.manifest && in.attributes.GetOldObject() != nil && (r.old || r.object) && (r.defaults || result.Error != nil) {
			outcomes[i].is = depends
			continue
		}
		switch {
		case errors.As(result.Error, &invalid) && invalid.Type == apiservercel.ErrorTypeInvalid && result.EvalResult == nil && !unknown && !r.user:
			outcomes[i] = outcome{isError, result.Error}
		case r.user && !in.callerKnown && (r.anonymous || result.Error != nil), unknown && r.absence, result.Error != nil && unknown:
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
	var demands []any
	for _, v := range o.Spec.Validations {
		text := v.Message
		if text == "" {
			text = v.Expression
		}
		demands = append(demands, text)
	}
	p.keepPolicy(validatingKind, o.Name, newPolicy(o), o.Spec.FailurePolicy, demands)
	return true
}

// KeepMutatingPolicy takes in a MutatingAdmissionPolicy.
func (p *Part) KeepMutatingPolicy(o *admissionv1.MutatingAdmissionPolicy) bool {
	p.keepPolicy(mutatingKind, o.Name, newMutatingPolicy(o), o.Spec.FailurePolicy, nil)
	return true
}

// The kinds of admission policies, as in the names of their resources.
const validatingKind, mutatingKind = "validating", "mutating"

func (p *Part) keepPolicy(kind, name string, made *policy, fails *admissionv1.FailurePolicyType, demands []any) {
	p.policies[kind+"/"+name] = made
	p.doc.Child("admissionpolicies")[kind+"/"+name] = map[string]any{
		"failurePolicy": string(facts.Or(fails, admissionv1.Fail)),
		"validations":   demands,
	}
	p.hooksDirty = true
}

// ForgetPolicy undoes KeepPolicy.
func (p *Part) ForgetPolicy(key types.NamespacedName) { p.forgetPolicy(validatingKind, key.Name) }

// ForgetMutatingPolicy undoes KeepMutatingPolicy.
func (p *Part) ForgetMutatingPolicy(key types.NamespacedName) { p.forgetPolicy(mutatingKind, key.Name) }

func (p *Part) forgetPolicy(kind, name string) {
	delete(p.policies, kind+"/"+name)
	p.doc.Prune("admissionpolicies", kind+"/"+name)
	p.hooksDirty = true
}

// KeepPolicyBinding takes in a ValidatingAdmissionPolicyBinding.
func (p *Part) KeepPolicyBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	p.keepBinding(validatingKind, o.Name, newBinding(o))
	return true
}

// KeepMutatingPolicyBinding takes in a MutatingAdmissionPolicyBinding.
func (p *Part) KeepMutatingPolicyBinding(o *admissionv1.MutatingAdmissionPolicyBinding) bool {
	p.keepBinding(mutatingKind, o.Name, &policyBinding{name: o.Spec.PolicyName, scope: newScope(o.Spec.MatchResources), params: o.Spec.ParamRef})
	return true
}

func (p *Part) keepBinding(kind, name string, b *policyBinding) {
	p.forgetBinding(kind, name)
	if b != nil {
		p.policyBindings[kind+"/"+name] = b
	}
}

// ForgetPolicyBinding undoes KeepPolicyBinding.
func (p *Part) ForgetPolicyBinding(key types.NamespacedName) {
	p.forgetBinding(validatingKind, key.Name)
}

// ForgetMutatingPolicyBinding undoes KeepMutatingPolicyBinding.
func (p *Part) ForgetMutatingPolicyBinding(key types.NamespacedName) {
	p.forgetBinding(mutatingKind, key.Name)
}

func (p *Part) forgetBinding(kind, name string) {
	delete(p.policyBindings, kind+"/"+name)
	p.hooksDirty = true
}

// deniers are the policies in force that deny, by "KIND/POLICY/BINDING".
func (p *Part) deniers() map[string]bound {
	found := map[string]bound{}
	for key, b := range p.policyBindings {
		kind, name, _ := strings.Cut(key, "/")
		if g := p.policies[kind+"/"+b.name]; g != nil {
			found[kind+"/"+b.name+"/"+name] = bound{g, b, p.reading}
		}
	}
	return found
}
