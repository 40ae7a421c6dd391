package refusals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster/facts"
)

// Objects that may refuse a deletion, and their backends. Each case changes one fact.
const (
	demo     = "{kind: Namespace, metadata: {name: demo, labels: {team: a}}}"
	hookOf   = "{kind: ValidatingWebhookConfiguration, metadata: {name: c}, webhooks: [{name: w.x.io, clientConfig: {service: {namespace: ops, name: w}}, rules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*']}]}]}"
	serviceW = "{kind: Service, metadata: {namespace: ops, name: w}, spec: {clusterIP: 10.0.0.1, selector: {app: w}}}"
	ready    = "{kind: EndpointSlice, metadata: {namespace: ops, name: w-1, labels: {kubernetes.io/service-name: w}}, endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]}"
	backendW = "{kind: Deployment, metadata: {namespace: ops, name: w}, spec: {template: {metadata: {labels: {app: w}}}}}"
	denies   = "{kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]}, validations: [{expression: 'false'}]}}"
	inForce  = "{kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]}}"
	mutates  = "{kind: MutatingAdmissionPolicy, metadata: {name: m}, spec: {matchConstraints: {resourceRules: [{operations: ['*'], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]}, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: \"add\", path: string(1/0), value: 1}]'}}]}}"
	mutating = "{kind: MutatingAdmissionPolicyBinding, metadata: {name: mb}, spec: {policyName: m}}"
	crd      = "{kind: CustomResourceDefinition, metadata: {name: gadgets.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gadget, plural: gadgets}, versions: [{name: v1, served: true}, {name: v1beta1, served: true, storage: true}], conversion: {strategy: Webhook, webhook: {clientConfig: {service: {namespace: ops, name: w}}}}}, status: {storedVersions: [v1beta1]}}"
)

// now is the time of all tests.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// kinds are the Go types of objects, by kind.
var kinds = map[string]func() runtime.Object{
	"Namespace": func() runtime.Object { return &corev1.Namespace{} }, "Service": func() runtime.Object { return &corev1.Service{} },
	"EndpointSlice": func() runtime.Object { return &discoveryv1.EndpointSlice{} }, "Deployment": func() runtime.Object { return &appsv1.Deployment{} },
	"ValidatingWebhookConfiguration":   func() runtime.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
	"MutatingWebhookConfiguration":     func() runtime.Object { return &admissionv1.MutatingWebhookConfiguration{} },
	"ValidatingAdmissionPolicy":        func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicy{} },
	"ValidatingAdmissionPolicyBinding": func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBinding{} },
	"MutatingAdmissionPolicy":          func() runtime.Object { return &admissionv1.MutatingAdmissionPolicy{} },
	"MutatingAdmissionPolicyBinding":   func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBinding{} },
	"CustomResourceDefinition":         func() runtime.Object { return &apiextensionsv1.CustomResourceDefinition{} },
	"Event":                            func() runtime.Object { return &corev1.Event{} },
}

// forget undoes keep for an object of a resource, without its group.
func forget(p *Part, resource, namespace, name string) {
	for _, k := range p.Keepers() {
		if plural, _, _ := strings.Cut(k.Resource, "."); plural == resource {
			k.Forget(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// contents of namespace demo: it holds two ConfigMaps, one with a finalizer, and a pod.
type contents struct{ kubelet bool }

func (contents) Contents(namespace string) []Content {
	if namespace != "demo" {
		return nil
	}
	of := func(resource string) facts.Resource {
		return facts.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource), Namespaced: true}
	}
	return []Content{{of("configmaps"), 2, 1, []string{"x.io/f"}}, {of("pods"), 1, 0, nil}}
}
func (contents) Total(string) int              { return 3 }
func (c contents) NeedsKubelet(string) bool    { return c.kubelet }
func (contents) PodLabels(string) []labels.Set { return nil }

func partWith(t *testing.T, options Options, objects ...string) (*Part, facts.Document) {
	t.Helper()
	doc := facts.Document{}
	options.Now, options.Owner, options.Dropped = func() time.Time { return now }, func(string) string { return "" }, func(types.NamespacedName) {}
	p := New(doc, options)
	if err := keep(p, objects...); err != nil {
		t.Fatal(err)
	}
	return p, doc
}

// keep adds objects. It passes each to all keepers, which keep objects of their own type alone.
func keep(p *Part, objects ...string) error {
	for _, text := range objects {
		var of metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &of); err != nil {
			return err
		}
		o := kinds[of.Kind]()
		if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for _, k := range p.Keepers() {
			k.Keep(o)
		}
	}
	return nil
}

// requestLines returns a section of the facts about a namespace, a line for each request.
func requestLines(doc facts.Document, section, namespace, key string) (lines []string) {
	list, _ := facts.Lookup(doc, section, namespace, key).([]any)
	for _, request := range list {
		r := request.(map[string]any)
		line := fmt.Sprintf("%s %s", r["operation"], r["resource"])
		if r["subresource"] != "" {
			line += fmt.Sprintf("/%s", r["subresource"])
		}
		lines = append(lines, fmt.Sprintf("%s ×%v %s %s", line, r["count"], r["certainty"], r["cause"]))
	}
	return lines
}

// with returns a manifest with old replaced by now.
func with(manifest, old, now string) string {
	if !strings.Contains(manifest, old) {
		panic(fmt.Sprintf("%q is not in %s", old, manifest))
	}
	return strings.ReplaceAll(manifest, old, now)
}

// TestBlocked checks which requests of a namespace's deletion a webhook refuses, and with which
// certainty.
func TestBlocked(t *testing.T) {
	all := func(certainty, cause string) []string {
		how := " " + certainty + " " + cause
		return []string{"DELETE configmaps ×2" + how, "UPDATE configmaps ×1" + how, "DELETE pods ×1" + how, "UPDATE namespaces/finalize ×1" + how, "UPDATE namespaces/status ×1" + how}
	}
	const event = `{kind: Event, metadata: {namespace: demo, name: e}, reason: Failed, message: 'failed calling webhook "w.x.io": EOF', lastTimestamp: '2025-12-31T23:00:00Z'}`
	condition := func(expression string) string {
		return with(hookOf, "rules:", "matchConditions: [{name: m, expression: \""+expression+"\"}], rules:")
	}
	cases := map[string]struct {
		reason  string
		objects []string
		do      func(*Part)
		want    []string
	}{
		"NoService":        {"there is nothing to call", []string{hookOf}, nil, all("will", "down")},
		"NoEndpoint":       {"no endpoint answers", []string{hookOf, serviceW}, nil, all("will", "down")},
		"NotReady":         {"nor does who is not ready", []string{hookOf, serviceW, with(ready, "ready: true", "ready: false")}, nil, all("will", "down")},
		"Up":               {"near miss: an endpoint answers", []string{hookOf, serviceW, ready}, nil, nil},
		"External":         {"near miss: a backend outside the cluster may answer", []string{hookOf, with(serviceW, "clusterIP: 10.0.0.1", "type: ExternalName")}, nil, nil},
		"URL":              {"near miss: so may a URL", []string{with(hookOf, "service: {namespace: ops, name: w}", "url: 'https://w.x.io'")}, nil, nil},
		"Ignored":          {"near miss: it fails open", []string{with(hookOf, "rules:", "failurePolicy: Ignore, rules:")}, nil, nil},
		"OnlyCreates":      {"near miss: its rules do not match deletions", []string{with(hookOf, "operations: ['*']", "operations: [CREATE]")}, nil, nil},
		"OnlyPods":         {"its rules match pods only", []string{with(hookOf, "resources: ['*/*']", "resources: [pods]")}, nil, []string{"DELETE pods ×1 will down"}},
		"OtherVersion":     {"a request is converted to the version that it names", []string{with(with(hookOf, "resources: ['*/*']", "resources: [pods]"), "apiVersions: ['*']", "apiVersions: [v2]")}, nil, []string{"DELETE pods ×1 will down"}},
		"ExactVersion":     {"near miss: it requires the exact version", []string{with(with(with(hookOf, "resources: ['*/*']", "resources: [pods]"), "apiVersions: ['*']", "apiVersions: [v2]"), "rules:", "matchPolicy: Exact, rules:")}, nil, nil},
		"ThisNamespace":    {"its selector takes the namespace in", []string{with(hookOf, "rules:", "namespaceSelector: {matchLabels: {team: a}}, rules:")}, nil, all("will", "down")},
		"OtherNamespace":   {"near miss: it does not", []string{with(hookOf, "rules:", "namespaceSelector: {matchLabels: {team: b}}, rules:")}, nil, nil},
		"SomeObjects":      {"it depends on the objects", []string{with(hookOf, "rules:", "objectSelector: {matchLabels: {a: b}}, rules:")}, nil, all("may", "down")},
		"NotDeletes":       {"a condition lets deletions pass", []string{condition("request.operation != 'DELETE'")}, nil, []string{"UPDATE configmaps ×1 will down", "UPDATE namespaces/finalize ×1 will down", "UPDATE namespaces/status ×1 will down"}},
		"NotTheController": {"or who deletes, which of pods is a kubelet, too; who takes finalizers off is not known", []string{condition("request.userInfo.username != 'system:serviceaccount:kube-system:namespace-controller'")}, nil, []string{"UPDATE configmaps ×1 may down", "DELETE pods ×1 will down"}},
		"ConditionFails":   {"a condition that fails refuses, though it is up", []string{condition("object.spec.a == 'b'"), serviceW, ready}, nil, []string{"DELETE configmaps ×2 will condition", "DELETE pods ×1 will condition"}},
		"BadBundle":        {"nothing can be trusted by its caBundle", []string{with(hookOf, "name: w}", "name: w}, caBundle: eA=="), serviceW, ready}, nil, all("will", "untrusted")},
		"Distrusted": {"its certificate is another's", []string{hookOf, serviceW, ready}, func(p *Part) {
			for _, b := range p.Due(nil, nil) {
				p.ShookHands(b, Handshake{Distrust: "its certificate is another's"})
			}
		}, all("will", "untrusted")},
		"Trusted": {"near miss: it fits", []string{hookOf, serviceW, ready}, func(p *Part) {
			for _, b := range p.Due(nil, nil) {
				p.ShookHands(b, Handshake{OK: true})
			}
		}, nil},
		"Told":          {"it is up, and an event here says that it fails", []string{hookOf, serviceW, ready, event}, nil, all("may", "failing")},
		"ToldElsewhere": {"near miss: an event elsewhere says so", []string{hookOf, serviceW, ready, with(event, "namespace: demo", "namespace: other")}, nil, nil},
		"ToldBefore":    {"near miss: it was changed since", []string{with(hookOf, "{name: c}", "{name: c, managedFields: [{time: '2025-12-31T23:30:00Z'}]}"), serviceW, ready, event}, nil, nil},
		"ToldNo":        {"it was seen to refuse deletions, which are no updates", []string{hookOf, serviceW, ready, with(with(event, `failed calling webhook "w.x.io": EOF`, `admission webhook "w.x.io" denied the request: no`), "reason: Failed", "reason: FailedDelete")}, nil, []string{"DELETE configmaps ×2 may refusing", "DELETE pods ×1 may refusing"}},
		"ToldOfCreate":  {"near miss: it refused to create something", []string{hookOf, serviceW, ready, with(event, `failed calling webhook "w.x.io": EOF`, `admission webhook "w.x.io" denied the request: no`)}, nil, nil},
		"Forgotten":     {"it was deleted", []string{hookOf}, func(p *Part) { forget(p, "validatingwebhookconfigurations", "", "c") }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, doc := partWith(t, Options{}, append([]string{demo}, tc.objects...)...)
			if tc.do != nil {
				tc.do(p)
			}
			p.Settle(contents{kubelet: true}, func() {})
			if diff := cmp.Diff(tc.want, requestLines(doc, "blocked", "demo", "validating/c/w.x.io")); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestBlockedFrom changes one webhook and its backend step by step: the facts of a namespace
// follow.
func TestBlockedFrom(t *testing.T) {
	mutating := with(hookOf, "Validating", "Mutating")
	sight := facts.NewSight(facts.Document{})
	p, doc := partWith(t, Options{Sight: sight}, demo, mutating)
	p.AskForObjects("demo")
	services, slices := facts.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services"), Namespaced: true}, facts.Resource{GroupVersionResource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), Namespaced: true}
	see := func(do func()) func() error { return func() error { do(); p.UpdateVisibility(); return nil } }
	for _, step := range []struct {
		reason string
		do     func() error
		want   int // requests that are refused
	}{
		{"there is nothing to call", func() error { return nil }, 5},
		{"an endpoint answers", func() error { return keep(p, serviceW, ready) }, 0},
		{"he does not any more", func() error { forget(p, "endpointslices", "ops", "w-1"); return nil }, 5},
		{"whether he does, rights hide", see(func() { sight.Hide(slices, facts.UnseenForbidden, "") }), 0},
		{"they show it", see(func() { sight.Show(slices) }), 5},
		{"they hide it in other namespaces than the one in question", see(func() { sight.Hide(services, facts.UnseenElsewhere, "") }), 0},
		{"near miss: it cannot be listed again, but was seen", see(func() { sight.Hide(services, facts.UnseenError, "") }), 5},
		{"the namespace has other labels than the webhook wants", func() error {
			return keep(p, with(mutating, "rules:", "namespaceSelector: {matchLabels: {team: b}}, rules:"))
		}, 0},
		{"it is given them", func() error { return keep(p, with(demo, "team: a", "team: b")) }, 5},
		{"it was deleted", func() error { forget(p, "namespaces", "", "demo"); return nil }, 0},
		{"it is back", func() error { return keep(p, with(demo, "team: a", "team: b")) }, 5},
		{"the webhook was deleted", func() error { forget(p, "mutatingwebhookconfigurations", "", "c"); return nil }, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		p.Settle(contents{}, func() {})
		if got := requestLines(doc, "blocked", "demo", "mutating/c/w.x.io"); len(got) != step.want {
			t.Errorf("%s: %d requests are refused, want %d: %q", step.reason, len(got), step.want, got)
		}
	}
}

// TestHome checks the effect of a webhook on the namespace of its own backend.
func TestHome(t *testing.T) {
	ops := with(demo, "name: demo", "name: ops")
	inDemo := with(hookOf, "namespace: ops", "namespace: demo")
	type means struct {
		SelfBlocked []string
		OwnPods     any
		Everywhere  any
		Home        any
		Workloads   any
	}
	held, own := []any{"pods", "namespaces", "everything", "finalizers"}, []any{"deployments.apps", "replicasets.apps"}
	cases := map[string]struct {
		reason  string
		objects []string
		want    means
	}{
		"ItsNamespace": {"no endpoint answers after the backend is deleted with it", []string{demo, inDemo, with(serviceW, "namespace: ops", "namespace: demo"), with(ready, "namespace: ops", "namespace: demo"), with(backendW, "namespace: ops", "namespace: demo")},
			means{[]string{"DELETE configmaps ×2 will down", "UPDATE configmaps ×1 will down", "UPDATE namespaces/finalize ×1 will down", "UPDATE namespaces/status ×1 will down"}, "will", held, nil, own}},
		"Another":      {"near miss: it is elsewhere", []string{demo, ops, hookOf, serviceW, ready, backendW}, means{nil, "will", held, nil, own}},
		"NotItsPods":   {"it leaves its own pods out", []string{demo, ops, with(hookOf, "rules:", "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [w]}]}, rules:"), serviceW, ready, backendW}, means{nil, nil, held, nil, nil}},
		"NotItsHome":   {"it leaves its own namespace out, and so its pods", []string{demo, ops, with(hookOf, "rules:", "namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}, rules:"), serviceW, ready, backendW}, means{nil, nil, held, nil, nil}},
		"OnlyLabelled": {"it matches objects with its label", []string{demo, ops, with(hookOf, "rules:", "objectSelector: {matchLabels: {a: b}}, rules:"), serviceW, ready, backendW}, means{}},
		"Workloads":    {"deletes of some kinds of workloads", []string{demo, ops, with(with(hookOf, "apiGroups: ['*']", "apiGroups: [apps, batch]"), "resources: ['*/*']", "resources: [deployments, jobs, deployments/status]"), serviceW, ready, backendW}, means{nil, nil, []any{"deployments.apps", "jobs.batch"}, nil, []any{"deployments.apps"}}},
		"ItsKinds":     {"custom resources in its own namespace", []string{demo, ops, with(with(hookOf, "apiGroups: ['*']", "apiGroups: [x.io]"), "resources: ['*/*']", "resources: [gadgets]"), serviceW, ready, backendW}, means{nil, nil, nil, []any{"DELETE gadgets.x.io", "UPDATE gadgets.x.io"}, nil}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, doc := partWith(t, Options{}, tc.objects...)
			p.Settle(contents{}, func() {})
			of := p.record("webhooks", "validating/c/w.x.io")
			got := means{requestLines(doc, "selfBlocked", "demo", "validating/c/w.x.io"), of["ownPods"], of["everywhere"], of["home"], of["ownWorkloads"]}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDenied checks which requests of a deletion an admission policy denies, as far as the objects
// that it reads are known.
func TestDenied(t *testing.T) {
	const whole = "DELETE configmaps ×2 will denied"
	withParams := func(more string) []string {
		return []string{
			with(denies, "spec: {", "spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, "),
			with(inForce, "policyName: p", "policyName: p, paramRef: {name: limits, namespace: ops"+more+"}"),
		}
	}
	reads := func(expression string) string { return with(denies, "'false'", "\""+expression+"\"") }
	limits := Lookup{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "ops", Name: "limits"}
	answer := func(a LookupResult) func(*Part) {
		return func(p *Part) { p.TakeIn(map[Lookup]LookupResult{limits: a}) }
	}
	object := func(name string, data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "demo", "uid": name}, "data": data}}
	}
	configMaps := Lookup{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "demo"}
	cases := map[string]struct {
		reason  string
		objects []string
		do      func(*Part)
		want    []string
		asks    []Lookup
	}{
		"Denies":             {"it denies all", []string{denies, inForce}, nil, []string{whole}, nil},
		"Audits":             {"near miss: it only warns", []string{denies, with(inForce, "[Deny]", "[Warn, Audit]")}, nil, nil, nil},
		"Unbound":            {"near miss: nothing puts it into force", []string{denies}, nil, nil, nil},
		"Allows":             {"near miss: it is content", []string{with(denies, "'false'", "'true'"), inForce}, nil, nil, nil},
		"OtherVerb":          {"near miss: it does not match deletions", []string{with(denies, "[DELETE]", "[CREATE]"), inForce}, nil, nil, nil},
		"Elsewhere":          {"near miss: it is bound elsewhere", []string{denies, with(inForce, "policyName: p", "policyName: p, matchResources: {namespaceSelector: {matchLabels: {team: b}}}")}, nil, nil, nil},
		"Excluded":           {"near miss: it leaves them out", []string{with(denies, "resourceRules:", "excludeResourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}], resourceRules:"), inForce}, nil, nil, nil},
		"Named":              {"it is about one by its name, and collections are deleted without names", []string{with(denies, "operations: [DELETE]", "resourceNames: [one], operations: [DELETE]"), inForce}, nil, []string{"DELETE configmaps ×2 may denied"}, nil},
		"Unmatched":          {"near miss: its conditions do not hold", []string{with(denies, "spec: {", "spec: {matchConditions: [{name: m, expression: \"request.operation == 'UPDATE'\"}], "), inForce}, nil, nil, nil},
		"ConditionFails":     {"a condition fails closed, and no more is read", []string{with(denies, "spec: {", "spec: {matchConditions: [{name: m, expression: \"object.data.a == 'b'\"}], "), inForce}, nil, []string{whole}, nil},
		"ConditionFailsOpen": {"near miss: it fails open", []string{with(denies, "spec: {", "spec: {failurePolicy: Ignore, matchConditions: [{name: m, expression: \"object.data.a == 'b'\"}], "), inForce}, nil, nil, nil},
		"Fails":              {"it fails closed on requests without a new object", []string{reads("object.data.a == 'b'"), inForce}, nil, []string{whole}, nil},
		"FailsOpen":          {"near miss: it fails open", []string{with(reads("object.data.a == 'b'"), "spec: {", "spec: {failurePolicy: Ignore, "), inForce}, nil, nil, nil},
		"OfTheObject":        {"it depends on the object, which was not read", []string{reads("oldObject.data.a != 'b'"), inForce}, nil, []string{"DELETE configmaps ×2 may denied"}, nil},
		"AmongOthers":        {"for every request", []string{reads("oldObject in ['a']"), inForce}, nil, []string{"DELETE configmaps ×2 may denied"}, nil},
		"EitherWay":          {"near miss: it comes to the same, whatever the object", []string{reads("request.operation == 'DELETE' || oldObject == null"), inForce}, nil, nil, nil},
		"ByVariable":         {"by way of a variable, too", []string{with(reads("variables.a != 'b'"), "spec: {", "spec: {variables: [{name: a, expression: oldObject.data.a}], "), inForce}, nil, []string{"DELETE configmaps ×2 may denied"}, nil},
		"ByVariables":        {"and by one of a variable", []string{with(reads("variables.b != 'b'"), "spec: {", "spec: {variables: [{name: a, expression: oldObject.data.a}, {name: b, expression: variables.a}], "), inForce}, nil, []string{"DELETE configmaps ×2 may denied"}, nil},
		"OfTheCaller":        {"the caller is known", []string{reads("request.userInfo.username != 'system:serviceaccount:kube-system:namespace-controller'"), inForce}, nil, []string{whole}, nil},
		"OfNamespace":        {"so is the namespace", []string{reads("namespaceObject.metadata.labels.team != 'a'"), inForce}, nil, []string{whole}, nil},
		"ObjectsAsked":       {"the objects that it depends on are looked up", []string{reads("oldObject.data.a != 'b'"), inForce}, func(p *Part) { p.AskForObjects("demo") }, []string{"DELETE configmaps ×2 may denied"}, []Lookup{configMaps}},
		"ObjectsRead": {"then the denied objects are known", []string{reads("oldObject.data.a != 'b'"), inForce}, func(p *Part) {
			p.AskForObjects("demo")
			p.TakeIn(map[Lookup]LookupResult{configMaps: {Objects: []*unstructured.Unstructured{object("one", map[string]any{"a": "b"}), object("two", map[string]any{"a": "c"})}}})
		}, []string{"DELETE configmaps ×1 will denied"}, []Lookup{configMaps}},
		"ParamsUnread":  {"its parameters are looked up", withParams(""), nil, []string{"DELETE configmaps ×2 may denied"}, []Lookup{limits}},
		"ParamsRead":    {"and read", withParams(""), answer(LookupResult{Objects: []*unstructured.Unstructured{object("limits", nil)}}), []string{whole}, []Lookup{limits}},
		"ParamsNone":    {"there are none, which denies nothing", withParams(", parameterNotFoundAction: Allow"), answer(LookupResult{}), nil, []Lookup{limits}},
		"ParamsMissing": {"there are none, which is an error", withParams(", parameterNotFoundAction: Deny"), answer(LookupResult{}), []string{whole}, []Lookup{limits}},
		"ParamsUnknown": {"their kind is not served", withParams(""), answer(LookupResult{Err: ErrNotServed}), []string{whole}, []Lookup{limits}},
		"Forgotten":     {"it was deleted", []string{denies, inForce}, func(p *Part) { forget(p, "validatingadmissionpolicies", "", "p") }, nil, nil},
		"Released":      {"it is no longer in force", []string{denies, inForce}, func(p *Part) { forget(p, "validatingadmissionpolicybindings", "", "b") }, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, doc := partWith(t, Options{}, append([]string{demo}, tc.objects...)...)
			if tc.do != nil {
				tc.do(p)
			}
			p.Settle(contents{}, func() {})
			if diff := cmp.Diff(tc.want, requestLines(doc, "denied", "demo", "validating/p/b")); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.asks, p.Lookups()); diff != "" {
				t.Errorf("%s: lookups: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestMutatingPolicies checks that a mutating policy refuses a request only if it fails, and never
// a DELETE.
func TestMutatingPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		objects []string
		want    []string
	}{
		"Fails":     {"it cannot be evaluated", []string{mutates, mutating}, []string{"UPDATE configmaps ×1 will denied"}},
		"Works":     {"near miss: it can", []string{with(mutates, "string(1/0)", "\"/metadata\""), mutating}, nil},
		"FailsOpen": {"near miss: it fails open", []string{with(mutates, "spec: {", "spec: {failurePolicy: Ignore, "), mutating}, nil},
		"Unbound":   {"near miss: nothing puts it into force", []string{mutates}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, doc := partWith(t, Options{}, append([]string{demo}, tc.objects...)...)
			p.Settle(contents{}, func() {})
			if diff := cmp.Diff(tc.want, requestLines(doc, "denied", "demo", "mutating/m/mb")); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestConversions checks which definitions have objects that cannot be converted to the version
// that deletions request.
func TestConversions(t *testing.T) {
	type conversion struct {
		State, ListError any
		Refused          any
	}
	const failure = "conversion webhook for x.io/v1beta1, Kind=Gadget failed: EOF"
	cases := map[string]struct {
		reason  string
		objects []string
		do      func(*Part)
		want    *conversion
	}{
		"Down":      {"no endpoint converts", []string{crd}, nil, &conversion{"down", "", false}},
		"Up":        {"near miss: an endpoint converts", []string{crd, serviceW, ready}, nil, nil},
		"Plain":     {"near miss: nothing is converted", []string{with(crd, "strategy: Webhook", "strategy: None")}, nil, nil},
		"ByURL":     {"near miss: a URL may answer", []string{with(crd, "service: {namespace: ops, name: w}", "url: 'https://w.x.io'")}, nil, nil},
		"BadBundle": {"nothing can be trusted by its caBundle", []string{with(crd, "name: w}", "name: w}, caBundle: eA=="), serviceW, ready}, nil, &conversion{"down", "", false}},
		"ListFails": {"it is up, and does not convert", []string{crd, serviceW, ready}, func(p *Part) { p.SetConversionError("gadgets.x.io", failure) }, &conversion{"up", failure, false}},
		"Refused":   {"the API server keeps nothing of it", []string{crd, serviceW, ready}, func(p *Part) { p.SetConversionError("gadgets.x.io", uncached) }, &conversion{"up", uncached, true}},
		"Withdrawn": {"near miss: it does again", []string{crd, serviceW, ready}, func(p *Part) {
			p.SetConversionError("gadgets.x.io", failure)
			p.SetConversionError("gadgets.x.io", "")
		}, nil},
		"Aggregated": {"near miss: what another API server cannot list is no matter of conversion", []string{crd, serviceW, ready}, func(p *Part) {
			p.apiServices[named("v1.x.io")] = apiService{}
			p.SetListError(facts.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "gadgets"}}, failure)
		}, nil},
		"Forgotten": {"it was deleted", []string{crd}, func(p *Part) { forget(p, "customresourcedefinitions", "", "gadgets.x.io") }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, doc := partWith(t, Options{}, tc.objects...)
			if tc.do != nil {
				tc.do(p)
			}
			p.Settle(contents{}, func() {})
			var got *conversion
			if record, is := facts.Lookup(doc, "unconverted", "gadgets.x.io").(map[string]any); is {
				got = &conversion{record["backend"].(map[string]any)["state"], record["listError"], record["refused"]}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
