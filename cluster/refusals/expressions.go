package refusals

import (
	"context"
	"fmt"
	"slices"

	celtypes "github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expressions are compiled as by the API server (k8s.io/apiserver, pkg/admission/plugin/cel).
type expressions struct {
	compiled []admissioncel.CompilationResult
	composed *admissioncel.CompositedCompiler // has their variables; nil for none
}

func compile(compiler admissioncel.Compiler, accessors []admissioncel.ExpressionAccessor, declared admissioncel.OptionalVariableDeclarations) (e expressions) {
	for _, accessor := range accessors {
		e.compiled = append(e.compiled, compiler.CompileCELExpression(accessor, declared, environment.StoredExpressions))
	}
	return e
}

func compileConditions(compiler admissioncel.Compiler, conditions []admissionv1.MatchCondition, declared admissioncel.OptionalVariableDeclarations) expressions {
	var accessors []admissioncel.ExpressionAccessor
	for _, c := range conditions {
		accessors = append(accessors, (*matchconditions.MatchCondition)(&c))
	}
	return compile(compiler, accessors, declared)
}

type outcome struct {
	is  verdictOf
	err error
}

type verdictOf int

const (
	isTrue verdictOf = iota
	isFalse
	isError
	depends // on unknown values
)

// outcomes evaluates with the known values: CEL returns a result if it does not depend on the rest.
func (e expressions) outcomes(in input) []outcome {
	if len(e.compiled) == 0 {
		return nil
	}
	ctx, cost := context.Background(), func() int64 { return 0 }
	variables := in.variables()
	if e.composed != nil {
		composed := e.composed.CreateContext(ctx)
		variables[admissioncel.VariableVarName] = composed.Variables(variables)
		ctx, cost = composed, composed.GetAndResetCost
	}
	outcomes := make([]outcome, len(e.compiled))
	budget := uint64(celconfig.RuntimeCELCostBudget)
	for i, c := range e.compiled {
		if c.Error != nil {
			outcomes[i] = outcome{isError, c.Error}
			continue
		}
		result, details, err := c.Program.ContextEval(ctx, variables)
		spent := uint64(cost())
		if details != nil && details.ActualCost() != nil {
			spent += *details.ActualCost()
		}
		if spent > budget { // the API server stops here, without the earlier results
			return slices.Repeat([]outcome{{is: depends}}, len(e.compiled))
		}
		budget -= spent
		switch {
		case err != nil:
			outcomes[i] = outcome{isError, fmt.Errorf("expression '%s' resulted in error: %w", c.ExpressionAccessor.GetExpression(), err)}
		case celtypes.IsUnknown(result):
			outcomes[i].is = depends
		case result.Value() == false:
			outcomes[i].is = isFalse
		}
	}
	return outcomes
}

type input struct {
	attributes  admission.Attributes
	callerKnown bool
	manifest    bool // it lacks fields that the API server sets
	param       runtime.Object
	paramKnown  bool
	namespace   *corev1.Namespace
}

// variables returns the API server's variables (k8s.io/apiserver, pkg/admission/plugin/cel/activation.go).
func (in input) variables() map[string]any {
	a := in.attributes
	object, old := hidden, hidden
	switch {
	case identified(a) && in.manifest:
		object, old = manifest, manifest
	case identified(a):
		object, old = nil, nil
	case a.GetOldObject() != nil:
		object, old = nil, labelsOnly
	case a.GetOperation() == admission.Create && a.GetObject() != nil:
		object, old = labelsOnly, nil
	case a.GetOperation() == admission.Delete:
		object = nil
	}
	params, namespace := hidden, hidden
	if in.paramKnown {
		params = nil
	}
	var of runtime.Object // a nil *Namespace is no nil object
	if in.namespace != nil {
		of, namespace = in.namespace, remaining
	}
	return map[string]any{
		admissioncel.ObjectVarName:                    object.of(valueOf(a.GetObject())),
		admissioncel.OldObjectVarName:                 old.of(valueOf(a.GetOldObject())),
		admissioncel.ParamsVarName:                    params.of(valueOf(in.param)),
		admissioncel.NamespaceVarName:                 namespace.of(valueOf(of)),
		admissioncel.RequestVarName:                   in.request(),
		admissioncel.AuthorizerVarName:                notKnown,
		admissioncel.RequestResourceAuthorizerVarName: notKnown,
	}
}

func (in input) request() ref.Val {
	a := in.attributes
	gvr, gvk := metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.GetKind())
	request := &shape{fields: map[string]*shape{"uid": hidden, "dryRun": hidden}}
	if !in.callerKnown {
		request.fields["userInfo"] = hidden
	}
	if a.GetOperationOptions() == nil {
		request.fields["options"] = hidden
	}
	if !identified(a) {
		for _, of := range []string{"name", "kind", "requestKind"} {
			request.fields[of] = hidden
		}
	}
	return request.of(common.SchemalessTypedToVal(admissioncel.CreateAdmissionRequest(a, gvr, gvk)))
}

func valueOf(object runtime.Object) ref.Val {
	lazy := admission.NewLazyObject(object)
	value, err := lazy.CELValue()
	switch {
	case err != nil:
		return celtypes.WrapErr(err)
	case value == nil:
		return celtypes.NullValue
	}
	return value
}

// notKnown is CEL's result for an expression that depends on unknown values.
var notKnown = celtypes.NewUnknown(0, nil)

// shape is the known part of a value, nil if all is known.
type shape struct {
	lacking bool // missing fields, other than in fields, are unknown
	fields  map[string]*shape
	rest    *shape // other fields, and items of a list
}

var (
	hidden = &shape{}
	// labelsOnly is an object with only its labels known, as from a template.
	labelsOnly = &shape{lacking: true, fields: map[string]*shape{"metadata": {lacking: true, fields: map[string]*shape{"labels": nil, "namespace": nil}}}}
	// defaulted may get defaults from the API server.
	defaulted = func() *shape {
		s := &shape{lacking: true}
		s.rest = s
		return s
	}()
	// manifest is an object as its author wrote it, with some of its metadata.
	manifest = &shape{lacking: true, rest: defaulted, fields: map[string]*shape{"metadata": {lacking: true, rest: defaulted, fields: map[string]*shape{
		"name": nil, "namespace": nil, "labels": nil, "annotations": nil, "finalizers": nil, "ownerReferences": nil, "deletionTimestamp": nil}}}}
	// remaining is the part of a namespace that its deletion does not change.
	remaining = &shape{fields: map[string]*shape{"status": hidden, "metadata": {fields: map[string]*shape{
		"deletionTimestamp": hidden, "deletionGracePeriodSeconds": hidden, "resourceVersion": hidden, "generation": hidden, "managedFields": hidden}}}}
)

func (s *shape) of(value ref.Val) ref.Val {
	switch {
	case s == nil:
		return value
	case s == hidden:
		return notKnown
	}
	switch v := value.(type) {
	case traits.Mapper:
		return partial{v, s}
	case traits.Lister:
		var items []ref.Val
		for all := v.Iterator(); all.HasNext() == celtypes.True; {
			items = append(items, s.rest.of(all.Next()))
		}
		return celtypes.NewRefValList(celtypes.DefaultTypeAdapter, items)
	}
	return value
}

func (s *shape) field(name string) *shape {
	if field, named := s.fields[name]; named {
		return field
	}
	return s.rest
}

type partial struct {
	traits.Mapper
	shape *shape
}

func (p partial) Find(key ref.Val) (ref.Val, bool) {
	name, _ := key.Value().(string)
	field := p.shape.field(name)
	if field == hidden {
		return notKnown, true
	}
	if value, ok := p.Mapper.Find(key); ok {
		return field.of(value), true
	}
	if _, named := p.shape.fields[name]; !named && p.shape.lacking {
		return notKnown, true
	}
	return nil, false
}

func (p partial) Get(key ref.Val) ref.Val {
	if value, ok := p.Find(key); ok {
		return value
	}
	return p.Mapper.Get(key)
}

// Contains decides "in", which tests for keys that an author wrote, such as labels; has tests for fields that
// the API server sets.
func (p partial) Contains(key ref.Val) ref.Val {
	if p.shape.rest == defaulted {
		return p.Mapper.Contains(key)
	}
	value, ok := p.Find(key)
	if celtypes.IsUnknown(value) {
		return value
	}
	return celtypes.Bool(ok)
}
