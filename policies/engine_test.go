package policies

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/termguard/termguard/internal/race"
)

func engine(t testing.TB, options EngineOptions) *Engine {
	t.Helper()
	options.Deadline = time.Minute // a slow machine is no failure
	return engineOf(t, options, Embedded())
}

// engineOf returns an engine with the policies in fsys, even if their findings have the wrong shape.
func engineOf(t testing.TB, options EngineOptions, fsys fs.FS) *Engine {
	t.Helper()
	set, err := load(false, fsys)
	if fsys == Embedded() {
		set, err = Load(fsys)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(context.Background(), set, options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// obj shortens JSON literals.
type obj = map[string]any

func deleteNamespace(name string, oldObject obj) obj {
	return obj{
		"request": obj{
			"operation": "DELETE", "name": name, "namespace": name,
			"resource":  obj{"group": "", "version": "v1", "resource": "namespaces"},
			"object":    nil,
			"oldObject": oldObject,
		},
	}
}

func TestEvaluateNamespaceDelete(t *testing.T) {
	race.Skip(t)
	down := obj{"state": "absent", "certainty": "will", "owner": "Kiali operator", "clears": "", "evidence": []any{"no Deployment kiali-operator"}}
	facts := Document{
		"apiVersion": "termguard.dev/v1", "kind": "Facts",
		"apiservices": obj{"v1beta1.metrics.k8s.io": obj{
			"group": "metrics.k8s.io", "version": "v1beta1", "service": obj{"namespace": "monitoring", "name": "prometheus-adapter"},
			"available": "False", "reason": "ServiceNotFound", "message": "service/prometheus-adapter in \"monitoring\" is not present", "stale": true, "listError": "",
		}},
		"finalized": obj{"demo": obj{"kiali.io/finalizer": obj{"kialis.kiali.io": obj{"a": obj{"count": 2, "names": []any{"kiali", "kiali-b"}, "ownership": down}}}}},
		"notReady":  obj{}, "podsByNode": obj{}, "version": obj{}, "daemonsets": obj{},
	}
	got, err := engine(t, EngineOptions{}).Evaluate(t.Context(), Delete, deleteNamespace("demo", obj{"metadata": obj{"name": "demo"}}), facts)
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Findings: []Finding{
		{
			Policy: "orphaned-finalizer", Title: "Finalizer that no controller removes", Certainty: Will, Severity: High,
			Message:  "2 kialis.kiali.io have finalizer kiali.io/finalizer: its owner, Kiali operator, is not installed",
			Objects:  []Object{{"kialis.kiali.io", "demo", "kiali"}, {"kialis.kiali.io", "demo", "kiali-b"}},
			Evidence: []string{"no Deployment kiali-operator"},
		},
		{
			Policy: "unavailable-apiservice", Title: "Unavailable aggregated API", Certainty: Will, Severity: High,
			Message:  "APIService v1beta1.metrics.k8s.io is unavailable (ServiceNotFound), so no namespace can finish deleting",
			Objects:  []Object{{"apiservices.apiregistration.k8s.io", "", "v1beta1.metrics.k8s.io"}},
			Evidence: []string{"Available=False, ServiceNotFound: service/prometheus-adapter in \"monitoring\" is not present", "it is served by Service monitoring/prometheus-adapter"},
		},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Finding{}, "Remedy", "Steps", "Manifest", "Custom", "Class", "Cause")); diff != "" {
		t.Errorf("Evaluate(...): -want, +got:\n%s", diff)
	}
	if got.Verdict() != Hangs {
		t.Errorf("Verdict() = %s, want %s", got.Verdict(), Hangs)
	}
}

// withBody returns a policy whose rules are body.
func withBody(id, body string) string {
	folder := strings.ReplaceAll(id, "-", "_")
	text := strings.NewReplacer("too-many-pods", id, "too_many_pods", folder).Replace(policyText)
	head, _, _ := strings.Cut(text, "import data")
	return head + "\n" + body
}

const good = `deny contains {"msg": "still here"}` + "\n"

func TestEvaluateBadPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	cases := map[string]struct {
		reason string
		body   string
		want   string // in the error
	}{
		"BuiltinFails":  {"undefined would read as nothing found", `deny contains {"msg": "x"} if to_number(input.request.name) > 1`, "to_number"},
		"Conflict":      {"two values for one rule", "x := 1 if input.request\n\nx := 2 if input.request\n\ndeny contains {\"msg\": \"x\"} if x > 0", "conflict"},
		"NoMessage":     {"a finding says something", `deny contains {"objects": []}`, "msg is missing"},
		"EmptyMessage":  {"a finding says something", `deny contains {"msg": ""}`, "msg is missing"},
		"NoObject":      {"a member is an object", `warn contains "it hangs"`, "finding: want member, got string"},
		"UnknownKey":    {"a misspelt key", `deny contains {"msg": "x", "evidnce": []}`, `unknown field "evidnce"`},
		"BadMessage":    {"msg is text", `deny contains {"msg": 1}`, "msg: want string, got number"},
		"BadObjects":    {"objects are objects", `deny contains {"msg": "x", "objects": ["pods"]}`, "objects: want Object, got string"},
		"NoResource":    {"an object has a resource", `deny contains {"msg": "x", "objects": [{"name": "x"}]}`, "objects: resource is missing"},
		"UnknownMember": {"an object has no kind", `deny contains {"msg": "x", "objects": [{"resource": "pods", "kind": "Pod"}]}`, `unknown field "objects[0].kind"`},
		"BadEvidence":   {"evidence is text", `deny contains {"msg": "x", "evidence": [{}]}`, "evidence: want string, got object"},
		"BadCause":      {"a cause is an object", `deny contains {"msg": "x", "cause": "y"}`, "cause: want Cause, got string"},
		"CauseMember":   {"a misspelt key of a cause", `deny contains {"msg": "x", "cause": {"finaliser": "y"}}`, `unknown field "cause.finaliser"`},
		"CauseObject":   {"the object of a cause has a resource", `deny contains {"msg": "x", "cause": {"object": {"name": "x", "namespace": "elsewhere"}}}`, "cause: object: resource is missing"},
		"CauseDeclared": {"it is declared or not", `deny contains {"msg": "x", "cause": {"declared": "yes"}}`, "cause.declared: want bool, got string"},
		"CauseOwner":    {"an owner has a name and a state", `deny contains {"msg": "x", "cause": {"owner": {"alive": "y"}}}`, `unknown field "cause.owner.alive"`},
		"BadEstimate":   {"seconds are a number", `deny contains {"msg": "x", "estimate_seconds": "30"}`, "estimate_seconds: want float64, got string"},
		"LongEstimate":  {"seconds fit", `deny contains {"msg": "x", "estimate_seconds": 1e300}`, "estimate_seconds: want seconds"},
		"StepKind":      {"a step has a kind", `deny contains {"msg": "x", "steps": [{"kind": "reboot", "do": "x"}]}`, "steps: kind \"reboot\": want one of [mend remove force]"},
		"StepThen":      {"a step promises one of two ends", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "then": "soon"}]}`, "steps: then \"soon\": want again or itself"},
		"StepEmpty":     {"a step says what to do", `deny contains {"msg": "x", "steps": [{"kind": "mend"}]}`, "steps: do is missing"},
		"StepBoth":      {"an action has its own command", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "command": "y", "action": {"verb": "delete", "objects": ["pods/y"]}}]}`, "steps: command and action: want one of them"},
		"StepWords":     {"a command is of words", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "command": ["y", 1]}]}`, "steps: command: want words, got "},
		"ActionObject":  {"an object is named as for kubectl", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "action": {"verb": "delete", "objects": ["y"]}}]}`, "steps: action: object \"y\": want RESOURCE/NAME"},
		"ActionVerb":    {"the effect of an action is known", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "action": {"verb": "patch", "objects": ["pods/y"]}}]}`, "steps: action: verb \"patch\": want "},
		"ActionKey":     {"a misspelt key of an action", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "action": {"verb": "delete", "objects": ["pods/y"], "wait": false}}]}`, `unknown field "steps[0].action.wait"`},
		"StepMember":    {"a misspelt key of a step", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "cmd": "y"}]}`, `unknown field "steps[0].cmd"`},
		"Sprintf":       {"a verb too many", `deny contains {"msg": sprintf("%s of %s", ["x"])}`, "the verbs and arguments of sprintf differ"},
		"RegexBomb":     {"a pattern that multiplies is refused, not run", `deny contains {"msg": "x"} if regex.match("((((x{100}){100}){100}){100}){100}", input.request.name)`, "regex.match"},
		"ForcedMend":    {"every force needs confirmation", `deny contains {"msg": "x", "steps": [{"kind": "mend", "do": "x", "action": {"verb": "delete", "objects": ["pods/x"], "graceSeconds": 0}}]}`, "steps: kind \"mend\": an action that forces is of kind force"},
		"BadKind":       {"a kind that does not exist", `deny contains {"msg": "x", "kind": "denied"}`, "kind \"denied\": want one of [refused forbidden]"},
		"SprintfExtra":  {"an argument too many", `deny contains {"msg": sprintf("%s", ["x", "y"])}`, "the verbs and arguments of sprintf differ"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("bad/bad.rego", withBody("bad", tc.body), "good/good.rego", withBody("good", good)))
			result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Error(), tc.want) || !strings.Contains(result.Errors[0].Error(), "policy bad: ") {
				t.Errorf("%s\nErrors are %v, want one with %q", tc.reason, result.Errors, tc.want)
			}
			want := []Finding{{Policy: "good", Title: "Too many pods", Certainty: Will, Severity: Low, Message: "still here", Objects: []Object{}, Evidence: []string{}, Remedy: "Delete some first.", Class: Broken, Custom: true}}
			if diff := cmp.Diff(want, result.Findings); diff != "" {
				t.Errorf("%s\nthe other policy: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestPatternsEnd checks that patterns that take other engines for ever end: the cost of a pattern
// grows with the text, not with the ways to match it.
func TestPatternsEnd(t *testing.T) {
	body := `text := concat("", [c | some i in numbers.range(1, 20000); c := "a"])

nested := regex.match("^(a+)+$", concat("", [text, "!"]))

stars := glob.match(concat("", [s | some i in numbers.range(1, 200); s := "*a"]), null, concat("", [text, "!"]))

deny contains {"msg": sprintf("%v %v", [nested, stars])}`
	e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("patterns/patterns.rego", withBody("patterns", body)))
	result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
	if err != nil || len(result.Errors) > 0 || len(result.Findings) != 1 || result.Findings[0].Message != "false false" {
		t.Errorf("%v, %+v, want one finding", err, result)
	}
}

// TestSlowCustomPolicies checks that custom policies that never end, however many, do not affect
// the answer of those in the binary, and that no review waits longer than its share.
func TestSlowCustomPolicies(t *testing.T) {
	const forever = `deny contains {"msg": "x"} if {
	n := numbers.range(1, 100000)
	count([1 | some a in n; some b in n; a + b == -1]) > 0
}`
	set, err := Load(files("bad/bad.rego", withBody("bad", forever), "worse/worse.rego", withBody("worse", forever), "good/good.rego", withBody("good", good)))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range set.policies {
		set.policies[i].Custom = p.ID != "good"
	}
	const deadline = 2 * time.Second
	e, err := NewEngine(t.Context(), set, EngineOptions{Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("a", nil), Document{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Findings) != 1 || len(result.Errors) != 2 || !result.Complete() {
		t.Fatalf("whole: %v, %+v", result.Complete(), result)
	}
	for _, err := range result.Errors {
		if errors.Is(err, errUnasked) { // a busy machine took the share of both
			continue
		}
		var of PolicyError
		_, after, _ := strings.Cut(err.Error(), errLate.Error()+" than ")
		took, wrong := time.ParseDuration(after)
		if !errors.As(err, &of) || of.Policy == "good" || wrong != nil || took < 0 || took > deadline/8 {
			t.Errorf("%v, want a custom policy that had an eighth at most", err)
		}
	}
}

// TestEvaluateDeadline checks that a policy that never ends costs a bounded time and silences no
// other.
func TestEvaluateDeadline(t *testing.T) {
	endless := `deny contains {"msg": "x"} if {
	some i in numbers.range(1, 5000)
	some j in numbers.range(1, 5000)
	i * j < 0
}`
	e := engineOf(t, EngineOptions{Deadline: 4 * time.Second}, files("endless/endless.rego", withBody("endless", endless), "good/good.rego", withBody("good", good)))
	both := e.Policies()
	for _, who := range [][]Policy{both, both[:1], both[1:]} { // a query that is prepared within the time takes from it
		if _, err := e.prepare(t.Context(), who); err != nil {
			t.Fatal(err)
		}
	}
	result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Findings) != 1 || len(result.Errors) != 1 || !strings.HasPrefix(result.Errors[0].Error(), "policy endless: took longer than ") {
		t.Errorf("Evaluate(...) = %+v, want the finding of the other policy and one error", result)
	}
	if result.Verdict() != Hangs {
		t.Errorf("Verdict() = %s, want %s", result.Verdict(), Hangs)
	}
}

// TestEvaluateTooLate checks that no policy is evaluated after the deadline, and that a request
// that concerns none needs no time.
func TestEvaluateTooLate(t *testing.T) {
	e := engineOf(t, EngineOptions{Deadline: time.Nanosecond}, files("good/good.rego", withBody("good", good)))
	if result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Evaluate(...) = %+v, %v, want %v", result, err, context.DeadlineExceeded)
	}
	if result, err := e.Evaluate(t.Context(), Apply, deleteNamespace("demo", nil), Document{}); err != nil || len(result.Errors) > 0 {
		t.Errorf("Evaluate(on a trigger without policies) = %+v, %v, want nothing", result, err)
	}
}

func TestEvaluateBounds(t *testing.T) {
	race.Skip(t)
	body := `deny contains {
	"msg": sprintf("%d %s", [i, concat("", ["é" | some _ in numbers.range(1, 300)])]),
	"objects": [{"resource": "pods", "name": sprintf("%d", [j])} | some j in numbers.range(1, 1000)],
	"evidence": [sprintf("%d", [j]) | some j in numbers.range(1, 1000)],
	"estimate_seconds": 32,
} if some i in numbers.range(1, 100)`
	e := engineOf(t, EngineOptions{Deadline: time.Hour}, files("loud/loud.rego", withBody("loud", body)))
	result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
	if err != nil || len(result.Errors) > 0 {
		t.Fatal(err, result.Errors)
	}
	if len(result.Findings) != MaxFindings || result.Omitted != 100-MaxFindings {
		t.Errorf("%d findings, %d omitted, want %d and %d", len(result.Findings), result.Omitted, MaxFindings, 100-MaxFindings)
	}
	f := result.Findings[0]
	if n := len([]rune(f.Message)); n != MaxMessage || !strings.HasSuffix(f.Message, "é…") {
		t.Errorf("message of %d characters, want %d that end in …: %s", n, MaxMessage, f.Message)
	}
	if len(f.Objects) != MaxObjects || len(f.Evidence) != MaxEvidence || *f.EstimateSeconds != 32 {
		t.Errorf("%d objects, %d pieces of evidence, %d s", len(f.Objects), len(f.Evidence), *f.EstimateSeconds)
	}
}

type panicking struct{}

func (panicking) View(func(map[string]any)) { panic("no facts") }

// TestEvaluateOddities checks results that are not about one policy.
func TestEvaluateOddities(t *testing.T) {
	e := engine(t, EngineOptions{})
	if _, err := e.Evaluate(t.Context(), "create", nil, Document{}); err == nil {
		t.Error("Evaluate(unknown trigger): no error")
	}
	if _, err := e.Evaluate(t.Context(), Delete, nil, panicking{}); err == nil {
		t.Error("Evaluate(facts that panic): no error")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := e.Evaluate(done, Delete, deleteNamespace("demo", nil), Document{}); err == nil && len(result.Errors) == 0 {
		t.Error("Evaluate(ended context): no error")
	}
	for reason, input := range map[string]obj{
		"no input": nil, "no request": {}, "request is text": {"request": "x"}, "an unknown type": {"request": obj{"operation": make(chan int)}},
	} {
		result, err := e.Evaluate(t.Context(), Delete, input, Document{})
		if err != nil || len(result.Findings) > 0 {
			t.Errorf("%s: Evaluate(...) = %+v, %v", reason, result, err)
		}
	}
	for trigger, on := range e.on {
		if len(on) == 0 {
			result, err := e.Evaluate(t.Context(), trigger, nil, Document{})
			if err != nil || len(result.Errors) > 0 {
				t.Errorf("trigger %s has no policies: %+v, %v", trigger, result, err)
			}
		}
	}
	set, err := Load(Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEngine(t.Context(), set, EngineOptions{Off: map[string]bool{"orphaned-finaliser": true}}); err == nil {
		t.Error("NewEngine(unknown policy off): no error")
	}
}

func TestVerdict(t *testing.T) {
	will, may, info := Finding{Certainty: Will, Severity: High}, Finding{Certainty: May, Severity: Low}, Finding{Certainty: May, Severity: Info}
	cases := map[string]struct {
		reason string
		result Result
		want   Verdict
	}{
		"Nothing":      {"nothing found, nothing hidden", Result{}, Completes},
		"Info":         {"a duration is no risk", Result{Findings: []Finding{info}}, Completes},
		"May":          {"only may", Result{Findings: []Finding{may, info}}, AtRisk},
		"Will":         {"one will is enough", Result{Findings: []Finding{will, may}}, Hangs},
		"Unseen":       {"never completes while something is hidden", Result{Unseen: []Unseen{{Resource: "pods", Reason: "forbidden"}}}, Unknown},
		"UnseenAndMay": {"findings outweigh unseen facts", Result{Findings: []Finding{may}, Unseen: []Unseen{{Resource: "pods", Reason: "forbidden"}}}, AtRisk},
		"Failed":       {"a policy that failed has seen nothing", Result{Errors: []error{errors.New("x")}}, Unknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.result.Verdict(); got != tc.want {
				t.Errorf("%s\nVerdict() = %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestUnseen checks the facts that the policies in the binary rely on.
func TestUnseen(t *testing.T) {
	evaluated := engine(t, EngineOptions{}).on[Delete]
	hidden := Document{"unseen": []any{
		obj{"resource": "kialis.kiali.io", "namespaced": true, "reason": "forbidden"},
		obj{"resource": "apiservices.apiregistration.k8s.io", "namespaced": false, "reason": "syncing"},
		obj{"resource": "nodes", "namespaced": false, "reason": "syncing"},
		obj{"resource": "clusterroles.rbac.authorization.k8s.io", "namespaced": false, "reason": "error"},
		obj{"resource": "storageclasses.storage.k8s.io", "namespaced": false, "reason": "error"},
		obj{"resource": "deployments.apps", "namespaced": true, "reason": "elsewhere"},
		obj{"resource": "secrets", "namespaced": true, "reason": "elsewhere"},
		obj{"resource": "mutatingwebhookconfigurations.admissionregistration.k8s.io", "namespaced": false, "reason": "forbidden"},
		obj{"resource": "validatingadmissionpolicies.admissionregistration.k8s.io", "namespaced": false, "reason": "error"},
	}}
	request := func(group, resource string, finalizers ...any) obj {
		return obj{"request": obj{"resource": obj{"group": group, "resource": resource}, "oldObject": obj{"metadata": obj{"finalizers": finalizers}}}}
	}
	cases := map[string]struct {
		reason string
		input  obj
		want   []string
	}{
		"Namespace": {"objects that may be in it, and blockers of all namespaces", request("", "namespaces"), []string{"apiservices.apiregistration.k8s.io: syncing", "deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "nodes: syncing", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"Definition": {"its instances go with it, and its status is written", obj{"request": obj{"resource": obj{"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions"}, "oldObject": obj{"metadata": obj{"name": "kialis.kiali.io"}}}},
			[]string{"deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"OwnKind":         {"the kind itself, objects that may need its owner, and rules that may refuse the request", request("kiali.io", "kialis"), []string{"deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"SeenHere":        {"the object's namespace is seen, but not the objects that a controller may guard in others", obj{"request": obj{"namespace": "demo", "resource": obj{"group": "apps", "resource": "deployments"}}}, []string{"apiservices.apiregistration.k8s.io: syncing", "deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"GrantEverywhere": {"a controller that loses it may have objects in any namespace", request("rbac.authorization.k8s.io", "clusterrolebindings"), []string{"deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"OtherKind":       {"objects that may need it, and rules that may refuse the request, are unseen", request("", "configmaps"), []string{"deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"Pod":             {"a pod needs its node", request("", "pods"), []string{"mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "nodes: syncing", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"WithFinalizers":  {"workloads and RBAC show who removes them, webhooks who refuses that", request("", "configmaps", "x/y"), []string{"clusterroles.rbac.authorization.k8s.io: error", "deployments.apps: elsewhere", "kialis.kiali.io: forbidden", "mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
		"WithoutResource": {"bad input", obj{}, []string{"mutatingwebhookconfigurations.admissionregistration.k8s.io: forbidden", "validatingadmissionpolicies.admissionregistration.k8s.io: error"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, UnseenTexts(subjectOf(tc.input, hidden, nil).unseen(evaluated))); diff != "" {
				t.Errorf("%s\nunseen(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestUnseenInOneNamespace checks that a limit exceeded in one namespace makes nothing unseen in
// others.
func TestUnseenInOneNamespace(t *testing.T) {
	evaluated := engine(t, EngineOptions{}).on[Delete]
	facts := Document{"unseen": []any{obj{"resource": "widgets.x.io", "namespaced": true, "namespace": "tenant", "reason": "too-many"}}}
	of := func(group, resource, namespace, name string) obj {
		return obj{"request": obj{"resource": obj{"group": group, "resource": resource}, "namespace": namespace, "oldObject": obj{"metadata": obj{"name": name, "namespace": namespace}}}}
	}
	for name, tc := range map[string]struct {
		input obj
		want  []string
	}{
		"the namespace":             {of("", "namespaces", "tenant", "tenant"), []string{"widgets.x.io: too-many"}},
		"another namespace":         {of("", "namespaces", "other", "other"), nil},
		"one of them":               {of("x.io", "widgets", "tenant", "it"), []string{"widgets.x.io: too-many"}},
		"one in another namespace":  {of("x.io", "widgets", "other", "it"), nil},
		"another kind beside them":  {of("", "configmaps", "tenant", "it"), nil},
		"their definition":          {of("apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.x.io"), []string{"widgets.x.io: too-many"}},
		"the definition of another": {of("apiextensions.k8s.io", "customresourcedefinitions", "", "gadgets.x.io"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, UnseenTexts(subjectOf(tc.input, facts, nil).unseen(evaluated))); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// TestReliesOn checks that a policy's METADATA alone says which facts it must see.
func TestReliesOn(t *testing.T) {
	race.Skip(t)
	relies := func(id, on string) string {
		return strings.Replace(withBody(id, `deny contains {"msg": "x"} if input.request.name == "held"`), "#   triggers: [delete]", "#   triggers: [delete]\n#   relies_on:\n#     - "+on, 1)
	}
	facts := Document{"unseen": []any{
		obj{"resource": "leases.coordination.k8s.io", "namespaced": true, "reason": "forbidden"},
		obj{"resource": "secrets", "namespaced": true, "reason": "elsewhere"},
		obj{"resource": "kialis.kiali.io", "namespaced": true, "reason": "error"},
	}, "referrers": obj{"pods": []any{"secrets", "nodes"}, "nodes": []any{"kialis.kiali.io"}}}
	pod := obj{"request": obj{"operation": "DELETE", "name": "web-0", "resource": obj{"resource": "pods"}, "oldObject": obj{"metadata": obj{"name": "web-0", "finalizers": []any{"x/y"}}}}}
	for _, tt := range []struct {
		reason, on string
		want       []string
	}{
		{"a kind that is hidden", "{kinds: [leases.coordination.k8s.io, secrets]}", []string{"leases.coordination.k8s.io: forbidden", "secrets: elsewhere"}},
		{"a kind of software that is not Kubernetes", "{kinds: [kialis.kiali.io]}", []string{"kialis.kiali.io: error"}},
		{"a kind that is seen", "{kinds: [nodes]}", nil},
		{"for other objects only", "{kinds: [secrets], for: [configmaps]}", nil},
		{"for objects with finalizers", "{kinds: [secrets], for: [configmaps, $FINALIZERS]}", []string{"secrets: elsewhere"}},
		{"objects that may refer to it", "{kinds: [$REFERRERS], for: [$FINALIZERS]}", []string{"secrets: elsewhere"}},
		{"facts hidden by rights elsewhere", "{kinds: [$ELSEWHERE], except: [leases.coordination.k8s.io]}", []string{"secrets: elsewhere"}},
		{"the objects in a namespace", "{kinds: [$CONTENT], except: [leases.coordination.k8s.io]}", []string{"kialis.kiali.io: error"}},
	} {
		set, err := Load(files("needy/needy.rego", relies("needy", tt.on)))
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range []bool{false, true} {
			e, err := NewEngine(t.Context(), set, EngineOptions{Off: map[string]bool{"needy": off}, Deadline: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			result, err := e.Evaluate(t.Context(), Delete, pod, facts)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if off {
				want = nil // nobody asks what it would have said
			}
			if diff := cmp.Diff(want, UnseenTexts(result.Unseen)); diff != "" {
				t.Errorf("%s, off %v: -want, +got:\n%s", tt.reason, off, diff)
			}
		}
	}
}

// TestEviction checks that a finding about an eviction is "may", whatever the policy says:
// admission does not see the delete.
func TestEviction(t *testing.T) {
	e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("held/held.rego", withBody("held", `deny contains {"msg": "held"}`)))
	for subresource, want := range map[string]Certainty{"": Will, "eviction": May} {
		operation := map[string]string{"": "DELETE", "eviction": "CREATE"}[subresource]
		result, err := e.Evaluate(t.Context(), Delete, obj{"request": obj{"operation": operation, "subResource": subresource, "resource": obj{"resource": "pods"}}}, Document{})
		if err != nil || len(result.Findings) != 1 {
			t.Fatal(err, result)
		}
		if got := result.Findings[0].Certainty; got != want {
			t.Errorf("%s %q: certainty is %s, want %s", operation, subresource, got, want)
		}
	}
}

// TestParams checks that configuration reaches a policy.
func TestParams(t *testing.T) {
	race.Skip(t)
	e := engineOf(t, EngineOptions{Params: obj{"limit": obj{"max": 3}}, Deadline: time.Minute}, files("limit/limit.rego", withBody("limit", `deny contains {"msg": sprintf("limit %d", [data.params.limit.max])} if data.params.limit.max < 5`)))
	result, err := e.Evaluate(t.Context(), Delete, nil, Document{})
	if err != nil || len(result.Findings) != 1 || result.Findings[0].Message != "limit 3" {
		t.Errorf("Evaluate(...) = %+v, %v", result, err)
	}
}

// TestStore checks the traps of serving a live map to OPA: inner nodes exist when a rule walks
// them, and integers of a snapshot stay integers.
func TestStore(t *testing.T) {
	facts := Document{
		"crds":   obj{"a": obj{"storedVersions": []any{"v1", "v2"}, "group": "g"}, "b": obj{"storedVersions": []any{}, "group": "h"}},
		"counts": obj{"demo": obj{"pods": 3.0}}, "unseen": []any{obj{"resource": "x"}, obj{"resource": "y"}},
	}
	for name, tc := range map[string]struct{ body, want string }{
		"Walk":       {`deny contains {"msg": name} if { some name, crd in data.cluster.crds; crd.group == "g" }`, "a"},
		"Constant":   {`deny contains {"msg": name} if { some name; data.cluster.crds[name].group == "h" }`, "b"},
		"Index":      {`deny contains {"msg": data.cluster.unseen[1].resource}`, "y"},
		"WalkList":   {`deny contains {"msg": data.cluster.unseen[i].resource} if { some i; data.cluster.unseen[i].resource == "x" }`, "x"},
		"Whole":      {`deny contains {"msg": concat(",", sort([k | some k, _ in data.cluster]))}`, "counts,crds,unseen"},
		"Count":      {`deny contains {"msg": sprintf("%d", [count(data.cluster.crds)])}`, "2"},
		"Float":      {`deny contains {"msg": sprintf("%d", [data.cluster.counts.demo.pods])}`, "3"},
		"MissingKey": {`deny contains {"msg": "none"} if not data.cluster.crds.c`, "none"},
		"Roots":      {`deny contains {"msg": concat(",", sort([k | some k, _ in data; k != "termguard"]))}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := Load(files("walk/walk.rego", withBody("walk", tc.body)))
			if tc.want == "" { // data as a whole holds the rule itself: OPA refuses
				if err == nil {
					t.Error("Load(...): no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEngine(t.Context(), set, EngineOptions{Deadline: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			result, err := e.Evaluate(t.Context(), Delete, nil, facts)
			if err != nil || len(result.Findings) != 1 || result.Findings[0].Message != tc.want {
				t.Errorf("Evaluate(...) = %+v, %v, want %q", result, err, tc.want)
			}
		})
	}
}

// TestEvaluateTouchesTheTargetOnly checks which facts an evaluation converts, with maps elsewhere
// that OPA cannot convert.
func TestEvaluateTouchesTheTargetOnly(t *testing.T) {
	race.Skip(t)
	poison := obj{"poison": make(chan int)} // converting it fails
	facts := cluster(10, 1000)
	for _, section := range []string{"finalized", "podsByNode", "daemonsets", "counts"} {
		if facts[section] == nil {
			facts[section] = obj{}
		}
		facts[section].(obj)["elsewhere"] = poison
	}
	for _, section := range []string{"webhooks", "crds", "namespaces", "pods", "nodes"} {
		facts[section] = poison
	}
	result, err := engine(t, EngineOptions{}).Evaluate(t.Context(), Delete, deleteNamespace("target", obj{"metadata": obj{"name": "target"}}), facts)
	if err != nil || len(result.Errors) > 0 || len(result.Findings) != 1 {
		t.Errorf("Evaluate(...) = %+v, %v, want one finding and no error", result, err)
	}
}

// TestResources checks that a policy is evaluated for the resources that it names, or for all if it
// names none.
func TestResources(t *testing.T) {
	narrow := strings.Replace(withBody("narrow", `deny contains {"msg": "narrow"}`), "triggers: [delete]", "triggers: [delete]\n#   resources: [pods, deployments.apps]", 1)
	e := engineOf(t, EngineOptions{}, files("narrow/narrow.rego", narrow, "wide/wide.rego", withBody("wide", `deny contains {"msg": "wide"}`)))
	for _, tt := range []struct {
		group, resource, subresource string
		want                         []string
	}{
		{"", "pods", "", []string{"narrow", "wide"}},
		{"", "pods", "eviction", []string{"narrow", "wide"}},
		{"apps", "deployments", "", []string{"narrow", "wide"}},
		{"", "deployments", "", []string{"wide"}},
		{"other.io", "pods", "", []string{"wide"}},
	} {
		result, err := e.Evaluate(t.Context(), Delete, obj{"request": obj{"operation": "DELETE", "subResource": tt.subresource, "resource": obj{"group": tt.group, "resource": tt.resource}}}, Document{})
		if err != nil || len(result.Errors) > 0 {
			t.Fatal(err, result.Errors)
		}
		var got []string
		for _, f := range result.Findings {
			got = append(got, f.Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s: -want, +got:\n%s", tt.resource, tt.group, diff)
		}
	}
}

// TestNeeds checks that a policy is evaluated if one of the documents that it needs exists.
func TestNeeds(t *testing.T) {
	race.Skip(t)
	const path = "#   needs: [data.cluster.finalized.$NAMESPACE, data.cluster.owners.$UID, input.ownership.*.state unless alive, " +
		"data.cluster.pods.$NAMESPACE.$NAME.gracePeriodSeconds unless 30, data.cluster.counts.$NAMESPACE for namespaces, data.params.needy.limit, " +
		"input.request.options.gracePeriodSeconds unless 30 and input.request.oldObject.spec.nodeName, input.request.oldObject.spec.**.steps.*.run unless true or late, " +
		"data.cluster.services.*.namespace is $NAMESPACE for namespaces, data.cluster.services.*.name is $NAME or any, " +
		"input.request.oldObject.spec.**.command.* with chattr or mount, input.request.oldObject.spec.seconds over 58]"
	policy := strings.Replace(withBody("needy", `deny contains {"msg": "asked"}`), "#   triggers: [delete]", "#   triggers: [delete]\n"+path, 1)
	e := engineOf(t, EngineOptions{}, files("needy/needy.rego", policy))
	pod := func(extra obj) obj {
		input := obj{"request": obj{"operation": "DELETE", "namespace": "demo", "name": "web", "resource": obj{"resource": "pods"}, "oldObject": obj{"metadata": obj{"uid": "u1", "name": "web"}}}}
		maps.Copy(input, extra)
		return input
	}
	on := func(node string, grace int64) obj {
		return obj{"request": obj{"resource": obj{"resource": "pods"}, "options": obj{"gracePeriodSeconds": grace}, "oldObject": obj{"spec": obj{"nodeName": node}}}}
	}
	runs := func(spec obj) obj {
		return obj{"request": obj{"resource": obj{"resource": "jobs"}, "oldObject": obj{"spec": spec}}}
	}
	service := func(namespace, name string) Document {
		return Document{"services": obj{"s": obj{"namespace": namespace, "name": name}}}
	}
	held := Document{"finalized": obj{"demo": obj{"f": obj{}}}}
	for _, tt := range []struct {
		reason    string
		input     obj
		facts     Document
		evaluated bool
	}{
		{"nothing there", pod(nil), Document{}, false},
		{"of its namespace", pod(nil), held, true},
		{"of another namespace", pod(nil), Document{"finalized": obj{"other": obj{"f": obj{}}}}, false},
		{"empty", pod(nil), Document{"finalized": obj{"demo": obj{}}}, false},
		{"of its UID", pod(nil), Document{"owners": obj{"u1": obj{"dependents": obj{"u2": true}}}}, true},
		{"in the input", pod(obj{"ownership": obj{"e": obj{"state": "alive"}, "f": obj{"state": "down"}}}), Document{}, true},
		{"of the usual value", pod(obj{"ownership": obj{"f": obj{"state": "alive"}}}), Document{}, false},
		{"without a value", pod(obj{"ownership": obj{"f": obj{}}}), Document{}, false},
		{"of its name", pod(nil), Document{"pods": obj{"demo": obj{"web": obj{"gracePeriodSeconds": 60}}}}, true},
		{"of its name, the usual number", pod(nil), Document{"pods": obj{"demo": obj{"web": obj{"gracePeriodSeconds": 30}}}}, false},
		{"of another name", pod(nil), Document{"pods": obj{"demo": obj{"db": obj{"gracePeriodSeconds": 60}}}}, false},
		{"for another resource", pod(nil), Document{"counts": obj{"demo": obj{"pods": 1}}}, false},
		{"for its resource", deleteNamespace("demo", nil), Document{"counts": obj{"demo": obj{"pods": 1}}}, true},
		{"both of two", on("n", 5), Document{}, true},
		{"both, one of the usual value", on("n", 30), Document{}, false},
		{"one of two", on("", 5), Document{}, false},
		{"further down, in a list", runs(obj{"a": []any{obj{"steps": []any{obj{}, obj{"run": "it"}}}}}), Document{}, true},
		{"right there", runs(obj{"steps": obj{"x": obj{"run": false}}}), Document{}, true},
		{"further down, of the usual value", runs(obj{"a": obj{"steps": []any{obj{"run": true}}}}), Document{}, false},
		{"further down, the other usual value", runs(obj{"a": obj{"steps": []any{obj{"run": "late"}}}}), Document{}, false},
		{"of the value that is its name", pod(nil), service("other", "web"), true},
		{"of another value", pod(nil), service("demo", "db"), false},
		{"of the value beside its name", pod(nil), service("demo", "any"), true},
		{"of the value that is its namespace", deleteNamespace("demo", nil), service("demo", "db"), true},
		{"of the value that is another namespace", deleteNamespace("demo", nil), service("other", "db"), false},
		{"with a text in it", runs(obj{"command": []any{"sh", "chattr +i /a"}}), Document{}, true},
		{"with the other text in it", runs(obj{"command": []any{"sh", "umount /a"}}), Document{}, true},
		{"without any of the texts", runs(obj{"command": []any{"sh", "ls"}}), Document{}, false},
		{"more than a number", runs(obj{"seconds": 59}), Document{}, true},
		{"no more than a number", runs(obj{"seconds": 58}), Document{}, false},
		{"no number at all", runs(obj{"seconds": "long"}), Document{}, true},
		{"further down, elsewhere", runs(obj{"a": obj{"steps": []any{obj{"a": obj{"run": "it"}}}}}), Document{}, false},
		{"of the namespace that is deleted", deleteNamespace("demo", nil), held, true},
		{"an item of a deletecollection", obj{"request": obj{"operation": "DELETE", "resource": obj{"resource": "namespaces"}, "oldObject": obj{"metadata": obj{"name": "demo"}}}}, held, true},
	} {
		result, err := e.Evaluate(t.Context(), Delete, tt.input, tt.facts)
		if err != nil || len(result.Errors) > 0 {
			t.Fatal(tt.reason, err, result.Errors)
		}
		if evaluated := len(result.Findings) > 0; evaluated != tt.evaluated {
			t.Errorf("%s: evaluated %v, want %v", tt.reason, evaluated, tt.evaluated)
		}
	}
	configured := engineOf(t, EngineOptions{Params: map[string]any{"needy": map[string]any{"limit": 5}}}, files("needy/needy.rego", policy))
	if evaluated := configured.Relevant(Delete, pod(nil), Document{}); len(evaluated) == 0 {
		t.Error("the configured policy is not evaluated")
	}
}

// TestQuiet checks that no policy is evaluated for the deletes that are nearly all deletes of a
// cluster.
func TestQuiet(t *testing.T) {
	race.Skip(t)
	e := engine(t, EngineOptions{})
	alive := obj{"state": "alive", "certainty": "will", "owner": "Kiali operator"}
	facts := Document{
		"apiVersion": "termguard.dev/v1", "kind": "Facts", "version": obj{"git": "v1.36.3", "bugs": obj{}}, "unseen": []any{},
		"namespaces":  obj{"demo": obj{}},
		"nodes":       obj{"n": obj{"ready": "True"}},
		"pods":        obj{"demo": obj{"web": obj{"phase": "Running", "node": "n"}}},
		"podsByNode":  obj{"demo": obj{"n": obj{"count": 1, "names": []any{"web"}}}},
		"podsByGrace": obj{"demo": obj{"30": obj{"count": 1, "names": []any{"web"}}}},
		"finalized":   obj{"demo": obj{"kiali.io/finalizer": obj{"kialis.kiali.io": obj{"SIG": obj{"count": 1, "names": []any{"kiali"}, "ownership": alive}}}}},
	}
	object := func(resource, group string, extra, ownership obj) obj {
		old := obj{"metadata": obj{"name": "web", "namespace": "demo", "uid": "u"}}
		maps.Copy(old, extra)
		return obj{"ownership": ownership, "request": obj{
			"operation": "DELETE", "namespace": "demo", "name": "web", "resource": obj{"group": group, "resource": resource}, "options": obj{"kind": "DeleteOptions", "gracePeriodSeconds": int64(30)}, "oldObject": old,
		}}
	}
	unscheduled := object("pods", "", obj{"spec": obj{"terminationGracePeriodSeconds": int64(30)}}, obj{})
	unscheduled["request"].(obj)["options"] = obj{"gracePeriodSeconds": int64(0)} // which the API server fills in
	for reason, input := range map[string]obj{
		"a pod on no node":                    unscheduled,
		"a pod":                               object("pods", "", obj{"spec": obj{"nodeName": "n", "terminationGracePeriodSeconds": int64(30), "containers": []any{obj{"name": "c"}}}}, obj{}),
		"a pod that is ready":                 object("pods", "", obj{"spec": obj{"nodeName": "n"}, "status": obj{"conditions": []any{obj{"type": "Ready", "status": "True"}}}}, obj{}),
		"a custom resource whose owner is up": object("kialis", "kiali.io", nil, obj{"kiali.io/finalizer": alive}),
		"a Deployment":                        object("deployments", "apps", nil, obj{}),
	} {
		for _, p := range e.Relevant(Delete, input, facts) {
			t.Errorf("%s: %s is evaluated", reason, p.ID)
		}
	}
	// On a busy cluster, pods leave some node at any time.
	facts["leaving"] = obj{"nodes": obj{"n": obj{"count": 1, "pods": []any{}}}}
	for reason, input := range map[string]obj{
		"a pod on no node":         unscheduled,
		"a namespace without pods": deleteNamespace("empty", obj{"metadata": obj{"name": "empty"}, "spec": obj{"finalizers": []any{"kubernetes"}}}),
	} {
		for _, p := range e.Relevant(Delete, input, facts) {
			t.Errorf("%s, while pods leave a node: %s is evaluated", reason, p.ID)
		}
	}
}

func TestSteps(t *testing.T) {
	e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("steps/steps.rego", withBody("steps", `deny contains {"msg": "x", "steps": [
	{"kind": "mend", "do": "bring it back"},
	{"kind": "remove", "do": "look at y", "command": "kubectl describe y"},
	{"kind": "remove", "do": "look at z", "command": ["kubectl", "describe", "pods/$(reboot)"]},
	{"kind": "force", "do": "give up y", "action": {"verb": "delete", "objects": ["pods/it's"], "namespace": "demo", "noWait": true, "force": true, "graceSeconds": 0}},
]}`)))
	result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
	if err != nil || len(result.Findings) != 1 {
		t.Fatal(err, result)
	}
	got := result.Findings[0]
	const command = `kubectl delete 'pods/it'\''s' -n demo --wait=false --force --grace-period=0`
	want := []Step{
		{Kind: Mend, Do: "bring it back"},
		{Kind: Remove, Do: "look at y", Command: "kubectl describe y"},
		{Kind: Remove, Do: "look at z", Command: "kubectl describe 'pods/$(reboot)'"},
		{Kind: Force, Do: "give up y", Command: command, Action: &Action{
			Verb: VerbDelete, Objects: []string{"pods/it's"}, Namespace: "demo", NoWait: true, Force: true, GraceSeconds: new(int64),
		}},
	}
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if prose := "bring it back. look at y: kubectl describe y. look at z: kubectl describe 'pods/$(reboot)'. give up y: " + command + "."; got.Remedy != prose {
		t.Errorf("the remedy is %q, want the steps in prose: %q", got.Remedy, prose)
	}
}

func FuzzEvaluate(f *testing.F) {
	e := engine(f, EngineOptions{})
	facts := cluster(5, 10)
	facts["notReady"] = obj{"node-1": obj{"ready": "Unknown", "reason": "x", "message": "y", "since": "z", "outOfService": false}}
	facts["version"] = obj{"git": "v1.11.2", "bugs": obj{"daemonset-node-affinity": obj{"affected": "x", "fixedIn": "y"}}}
	for _, input := range []obj{
		nil,
		deleteNamespace("target", obj{"metadata": obj{"name": "target", "finalizers": []any{"a/b"}}, "spec": obj{"finalizers": []any{"kubernetes", "a/b"}}}),
		{"request": obj{"operation": "DELETE", "name": "web-0", "namespace": "target", "resource": obj{"resource": "pods"}, "oldObject": obj{"spec": obj{"nodeName": "node-1"}, "status": obj{"phase": "Running"}}}},
		{"request": obj{"operation": "CREATE", "name": "web-0", "subResource": "eviction", "resource": obj{"resource": "pods"}, "object": obj{}}, "ownership": obj{"a/b": obj{"state": "absent"}}},
		{"request": obj{"operation": "UPDATE", "name": "x", "resource": obj{"group": "apps", "resource": "daemonsets"}, "object": obj{"spec": obj{"template": "x"}}}},
	} {
		text, err := json.Marshal(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var input obj
		if json.Unmarshal([]byte(text), &input) != nil {
			t.Skip()
		}
		for _, trigger := range Triggers() {
			if _, err := e.Evaluate(t.Context(), trigger, input, facts); err != nil {
				t.Errorf("Evaluate(%s, %s): %v", trigger, text, err)
			}
		}
	})
}

// TestCompiles checks that a lazy engine compiles each policy once, when it is first evaluated, and
// evaluates with as many queries as it compiled.
func TestCompiles(t *testing.T) {
	e := engine(t, EngineOptions{Lazy: true})
	named := func(ids ...string) []Policy {
		return slices.DeleteFunc(e.Policies(), func(p Policy) bool { return !slices.Contains(ids, p.ID) })
	}
	for _, step := range []struct {
		reason    string
		evaluated []Policy
		want      []int // how many policies each query asks
		compiled  int
	}{
		{"the evaluated policies, together", named("long-grace-period", "unowned-finalizer"), []int{2}, 2},
		{"compiled policies are not compiled again", named("unowned-finalizer"), []int{1}, 2},
		{"only new policies", named("unowned-finalizer", "risky-mounts"), []int{1, 1}, 3},
		{"of several compilers", named("known-obstacle", "long-grace-period", "risky-mounts"), []int{1, 1, 1}, 4},
	} {
		groups, err := e.prepare(t.Context(), step.evaluated)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, group := range groups {
			got = append(got, len(group.policies))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", step.reason, diff)
		}
		if len(e.compilers) != step.compiled {
			t.Errorf("%s: %d policies are compiled, want %d", step.reason, len(e.compilers), step.compiled)
		}
	}
}

// TestEvaluateProcessorTime checks that an evaluation limited by processor time is not ended while
// the machine gives it none.
func TestEvaluateProcessorTime(t *testing.T) {
	busy := func() time.Time { return time.Time{} }
	for name, now := range map[string]func() time.Time{"by the clock": nil, "by processor time": busy} {
		e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("good/good.rego", withBody("good", good)))
		e.options.Deadline = time.Microsecond
		if now != nil {
			e.options.Now = now
		}
		result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
		if late := err != nil || len(result.Errors) > 0; late != (now == nil) {
			t.Errorf("%s: late is %t: %v, %v", name, late, err, result.Errors)
		}
	}
}
