package policies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Facts are data.cluster.
type Facts interface {
	// View calls f with facts that do not change until f returns.
	View(f func(doc map[string]any))
}

// Document is Facts that never change.
type Document map[string]any

func (d Document) View(f func(doc map[string]any)) { f(d) }

// EngineOptions may be zero.
type EngineOptions struct {
	// Params are data.params: configuration, by policy id.
	Params map[string]any
	// Off are ids of policies that are not evaluated.
	Off map[string]bool
	// Deadline bounds one evaluation, 200 ms by default: less than the webhook's 300 ms. Built-in policies
	// get half of it in one query; if that fails, they share the rest. Custom policies follow, with a quarter
	// of it, shared alike.
	Deadline time.Duration
	// Now, by default time.Now, must not run faster than the clock: a patient caller counts its processor
	// time.
	Now func() time.Time
	// Brief omits steps.
	Brief bool
	// Lazy compiles policies on first use, for runs that evaluate few.
	Lazy   bool
	Tracer topdown.QueryTracer
}

// Engine evaluates policies, and is safe for concurrent use.
type Engine struct {
	options EngineOptions
	store   *store
	set     *Set
	on      map[Trigger][]candidate
	groups  sync.Map // []group, by the policies' ids

	mu        sync.Mutex               // held during compilation
	compilers map[string]*ast.Compiler // by the policies' ids
}

type group struct {
	policies []Policy
	query    rego.PreparedEvalQuery
}

// NewEngine prepares a set. An unknown id in options.Off is an error: that policy would stay on.
func NewEngine(ctx context.Context, set *Set, options EngineOptions) (*Engine, error) {
	if options.Deadline <= 0 {
		options.Deadline = 200 * time.Millisecond
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Params == nil {
		options.Params = map[string]any{}
	}
	e := &Engine{options: options, store: &store{inmem.New(), options.Params}, set: set, on: map[Trigger][]candidate{}, compilers: map[string]*ast.Compiler{}}
	for id := range options.Off {
		if !slices.ContainsFunc(set.policies, func(p Policy) bool { return p.ID == id }) {
			return nil, fmt.Errorf("turn off policy %q: policy not found", id)
		}
	}
	if !options.Lazy {
		if _, err := e.compile(e.Policies()); err != nil {
			return nil, err
		}
		for _, p := range e.Policies() {
			if _, err := e.prepare(ctx, []Policy{p}); err != nil {
				return nil, fmt.Errorf("prepare policy %s: %w", p.ID, err)
			}
		}
	}
	for _, trigger := range Triggers() {
		e.on[trigger] = []candidate{}
		for _, p := range set.policies {
			if !options.Off[p.ID] && slices.Contains(p.Triggers, trigger) {
				e.on[trigger] = append(e.on[trigger], candidateOf(p))
			}
		}
	}
	return e, nil
}

// Policies returns the policies that are on.
func (e *Engine) Policies() []Policy {
	return slices.DeleteFunc(e.set.Policies(), func(p Policy) bool { return e.options.Off[p.ID] })
}

const answer = "answer"

// Few combinations occur.
func (e *Engine) prepare(ctx context.Context, of []Policy) ([]group, error) {
	ids := make([]string, len(of))
	for i, p := range of {
		ids[i] = p.ID
	}
	key := strings.Join(ids, " ")
	if groups, ok := e.groups.Load(key); ok {
		return groups.([]group), nil
	}
	compilers, err := e.compile(of)
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, p := range of {
		at := slices.IndexFunc(groups, func(g group) bool { return compilers[g.policies[0].ID] == compilers[p.ID] })
		if at < 0 {
			at, groups = len(groups), append(groups, group{})
		}
		groups[at].policies = append(groups[at].policies, p)
	}
	for i, g := range groups {
		if groups[i].query, err = e.query(ctx, compilers[g.policies[0].ID], g.policies); err != nil {
			return nil, err
		}
	}
	e.groups.Store(key, groups)
	return groups, nil
}

func (e *Engine) query(ctx context.Context, compiler *ast.Compiler, of []Policy) (rego.PreparedEvalQuery, error) {
	var members []string
	for _, p := range of {
		var sets []string
		for _, rule := range p.sets(compiler) {
			sets = append(sets, fmt.Sprintf("%q: data.termguard.%s.%s", rule, p.Folder, rule))
		}
		members = append(members, fmt.Sprintf("%q: {%s}", p.ID, strings.Join(sets, ", ")))
	}
	return rego.New(
		rego.Query(answer+" = {"+strings.Join(members, ", ")+"}"),
		rego.Compiler(compiler),
		rego.Store(e.store),
		// Otherwise a failed built-in function makes its rule undefined, which reads as "nothing found".
		rego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
}

// compile compiles missing ones together.
func (e *Engine) compile(of []Policy) (map[string]*ast.Compiler, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(of), func(p Policy) bool { return e.compilers[p.ID] != nil })
	if len(missing) > 0 {
		compiler, err := e.set.compile(missing, !e.options.Brief)
		if err != nil {
			return nil, err
		}
		for _, p := range missing {
			e.compilers[p.ID] = compiler
		}
	}
	return maps.Clone(e.compilers), nil
}

func (e *Engine) Relevant(trigger Trigger, input map[string]any, facts Facts) (who []Policy) {
	facts.View(func(doc map[string]any) {
		who = subjectOf(input, doc, e.options.Params).concerned(e.on[trigger])
	})
	return who
}

// Quiet is Evaluate in microseconds for a request that concerns no policy, as most do; ok is false for
// others.
func (e *Engine) Quiet(trigger Trigger, input map[string]any, facts Facts) (result Result, ok bool) {
	on, exists := e.on[trigger]
	if !exists {
		return result, false
	}
	facts.View(func(doc map[string]any) {
		about := subjectOf(input, doc, e.options.Params)
		if ok = len(about.concerned(on)) == 0; ok {
			result.Unseen = about.unseen(on)
		}
	})
	return result, ok
}

// Evaluate never panics. Failed policies are in the result.
func (e *Engine) Evaluate(ctx context.Context, trigger Trigger, input map[string]any, facts Facts) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			result, err = Result{}, panicked(r)
		}
	}()
	on, ok := e.on[trigger]
	if !ok {
		return Result{}, fmt.Errorf("unknown trigger %q: use one of %v", trigger, Triggers())
	}
	until := e.options.Now().Add(e.options.Deadline)
	facts.View(func(doc map[string]any) {
		if err = ctx.Err(); err != nil {
			return
		}
		about := subjectOf(input, doc, e.options.Params)
		who := about.concerned(on)
		if len(who) > 0 {
			if !e.options.Now().Before(until) {
				err = context.DeadlineExceeded // by the wait for the facts
				return
			}
			var txn *view
			if txn, err = e.store.view(ctx, doc); err != nil {
				return
			}
			defer e.store.Abort(ctx, txn)
			input := ast.LazyObject(input)
			only := func(custom bool) []Policy {
				return slices.DeleteFunc(slices.Clone(who), func(p Policy) bool { return p.Custom != custom })
			}
			e.ask(ctx, until, only(false), input, txn, about, &result)
			// Custom policies have little time, and are never disabled: a tenant could provoke that.
			if end := e.options.Now().Add(e.options.Deadline / customShare); end.Before(until) {
				until = end
			}
			e.ask(ctx, until, only(true), input, txn, about, &result)
		}
		result.Unseen = about.unseen(on)
		for i := range on {
			if !on[i].ReadsObject && !on[i].ReadsUser || !about.mayConcern(&on[i]) {
				continue
			}
			if on[i].ReadsObject {
				result.Readers = append(result.Readers, on[i].ID)
			}
			if on[i].ReadsUser {
				result.UserReaders = append(result.UserReaders, on[i].ID)
			}
		}
		if about.leaving {
			// It was not refused, and can no longer be.
			result.Findings = slices.DeleteFunc(result.Findings, func(f Finding) bool { return f.Kind != KindHang })
		}
		if about.eviction {
			// The API server then deletes the pod without admission.
			for i := range result.Findings {
				result.Findings[i].Certainty = May
			}
		}
	})
	if err != nil {
		return Result{}, fmt.Errorf("evaluate policies: %w", err)
	}
	slices.SortStableFunc(result.Findings, Finding.compare)
	return result, nil
}

const customShare = 4

// ask evaluates the policies of one compiler in one query, which shares their common rules, else one by one.
func (e *Engine) ask(ctx context.Context, until time.Time, who []Policy, input ast.Value, txn *view, about *subject, result *Result) {
	fail := func(p Policy, err error) { result.Errors = append(result.Errors, PolicyError{p.ID, p.Custom, err}) }
	groups, err := e.prepare(ctx, who)
	if err != nil {
		for _, p := range who {
			fail(p, err)
		}
	}
	for _, g := range groups {
		answers, err := e.eval(ctx, until.Sub(e.options.Now())/2, g.query, input, txn)
		for i, p := range g.policies {
			sets, failed := answers[p.ID], err
			if err != nil {
				var alone []group
				if alone, failed = e.prepare(ctx, []Policy{p}); failed == nil {
					answers, failed = e.eval(ctx, until.Sub(e.options.Now())/time.Duration(len(g.policies)-i), alone[0].query, input, txn)
				}
				sets = answers[p.ID]
			}
			if failed != nil {
				fail(p, failed)
				continue
			}
			findings, omitted, errs := decode(p, sets, about)
			result.Findings = append(result.Findings, findings...)
			result.Omitted += omitted
			result.Errors = append(result.Errors, errs...)
		}
	}
}

var (
	errLate    = errors.New("took longer")
	errUnasked = errors.New("was not evaluated: others took all of the time")
)

// clock ends an evaluation. OPA polls it: a timer and a goroutine would wake another thread each time.
type clock struct {
	ctx      context.Context
	earliest time.Time // by the clock, which is cheaper to read
	until    time.Time // by now
	now      func() time.Time
}

func (clock) Cancel() {}

// Cancelled implements topdown.Cancel.
func (c clock) Cancelled() bool {
	return c.ctx.Err() != nil || time.Now().After(c.earliest) && c.now().After(c.until)
}

// eval returns sets by policy id.
func (e *Engine) eval(ctx context.Context, limit time.Duration, query rego.PreparedEvalQuery, input ast.Value, txn *view) (answers map[string]any, err error) {
	defer func() { // a conversion in OPA may panic on an unknown type
		if r := recover(); r != nil {
			answers, err = nil, panicked(r)
		}
	}()
	if limit <= 0 {
		return nil, errUnasked
	}
	options := []rego.EvalOption{
		rego.EvalParsedInput(input),
		rego.EvalTransaction(txn),
		rego.EvalExternalCancel(clock{ctx, time.Now().Add(limit), e.options.Now().Add(limit), e.options.Now}),
		// The index walks all of x for data.cluster.x[k] == "constant", on every evaluation.
		rego.EvalRuleIndexing(false),
	}
	if e.options.Tracer != nil {
		options = append(options, rego.EvalQueryTracer(e.options.Tracer))
	}
	results, err := query.Eval(ctx, options...)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case topdown.IsCancel(err):
			return nil, fmt.Errorf("%w than %v", errLate, limit.Round(time.Millisecond))
		}
		return nil, err
	}
	if len(results) != 1 {
		return nil, errors.New("a rule is undefined where it should be a set")
	}
	answers, _ = results[0].Bindings[answer].(map[string]any)
	return answers, nil
}

func panicked(r any) error {
	return fmt.Errorf("panic: %v\n%s", r, debug.Stack())
}
