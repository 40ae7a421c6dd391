package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// evaluatorFunc is an Evaluator with the answers of a function.
type evaluatorFunc func(ctx context.Context, trigger policies.Trigger, input map[string]any) (policies.Result, error)

func (a evaluatorFunc) Evaluate(ctx context.Context, trigger policies.Trigger, input map[string]any, _ policies.Facts) (policies.Result, error) {
	return a(ctx, trigger, input)
}

func (evaluatorFunc) Quiet(policies.Trigger, map[string]any, policies.Facts) (result policies.Result, ok bool) {
	return result, false
}

func finds(findings ...policies.Finding) evaluatorFunc {
	return func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
		return policies.Result{Findings: findings}, nil
	}
}

// facts are those of a world: by default, one in which demo/kiali has finalizers.
type facts struct{ *cluster.World }

var defaults = sync.OnceValue(func() *cluster.World { return worldOf(nil) })

// worldOf returns a world with namespace demo, with labels, and a Kiali and a pod with finalizers
// in it.
func worldOf(labels map[string]any) *cluster.World {
	world, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo", "labels": labels}}},
		{Object: map[string]any{"apiVersion": "kiali.io/v1alpha1", "kind": "Kiali", "metadata": map[string]any{"namespace": "demo", "name": "kiali", "finalizers": []any{"f", "kiali.io/finalizer"}}}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "demo", "name": "web-0", "finalizers": []any{"x.io/f"}}}},
	})
	if err != nil {
		panic(err)
	}
	return world
}

func (f facts) Ask(r *question.Request, tell func(cluster.Moment)) {
	if f.World == nil {
		f.World = defaults()
	}
	f.World.Ask(r, tell)
}

func (f facts) TryAsk(r *question.Request, tell func(cluster.Moment)) bool {
	f.Ask(r, tell)
	return true
}

// eventOf has the arguments of a recorded Event.
type eventOf struct {
	About           corev1.ObjectReference
	Reason, Message string
}

type recorder struct {
	record.EventRecorder
	mu  sync.Mutex
	got []eventOf
}

func (r *recorder) Event(about runtime.Object, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, eventOf{*about.(*corev1.ObjectReference), reason, message})
}

// reasons returns what allowed requests that would be refused.
func (r *recorder) reasons() (by []string) {
	for _, event := range r.got {
		if _, reason, ok := strings.Cut(event.Message, ": let through by "); ok {
			reason, _, _ = strings.Cut(reason, "; refused by policy ")
			by = append(by, reason)
		}
	}
	return by
}

// kialiReference is the object of Events about the Kiali of the tests.
var kialiReference = corev1.ObjectReference{APIVersion: "kiali.io/v1alpha1", Kind: "Kiali", Namespace: "demo", Name: "kiali"}

var quiet = slog.New(slog.DiscardHandler)

func hang(policy, message string) policies.Finding {
	return policies.Finding{Policy: policy, Certainty: policies.Will, Severity: policies.High, Message: message}
}

func maybe(policy, message string) policies.Finding {
	f := hang(policy, message)
	f.Certainty = policies.May
	return f
}

func info(policy, message string) policies.Finding {
	f := hang(policy, message)
	f.Severity = policies.Info
	return f
}

// body returns an AdmissionReview with a request.
func body(t testing.TB, apiVersion, request string) []byte {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":"AdmissionReview","request":%s}`, apiVersion, request)
	if !json.Valid([]byte(text)) {
		t.Fatalf("the test's own request is no JSON: %s", text)
	}
	return []byte(text)
}

const v1 = "admission.k8s.io/v1"

const deleteNamespace = `{"uid":"u1","operation":"DELETE","resource":{"group":"","version":"v1","resource":"namespaces"},
	"kind":{"group":"","version":"v1","kind":"Namespace"},"name":"demo","namespace":"demo","object":null,
	"oldObject":{"metadata":{"name":"demo"},"spec":{"finalizers":["kubernetes"]}}}`

// with replaces pairs of old and new text in a request.
func with(request string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(request, pairs[i]) {
			panic("the test's own request has no " + pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(request)
}

func deleteKiali(metadata string) string {
	return `{"uid":"u2","operation":"DELETE","resource":{"group":"kiali.io","version":"v1alpha1","resource":"kialis"},
	"kind":{"group":"kiali.io","version":"v1alpha1","kind":"Kiali"},"name":"kiali","namespace":"demo",
	"oldObject":{"metadata":` + metadata + `}}`
}

// post sends a body and returns the status and, for 200, the answer.
func post(t testing.TB, client *http.Client, url string, body []byte) (int, *admissionv1.AdmissionReview) {
	t.Helper()
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		t.Fatalf("answer %q: %v", text, err)
	}
	if review.Response.Allowed { // controller-runtime says so once more
		review.Response.Result = nil
	}
	return response.StatusCode, &review
}

func serve(t testing.TB, options Options) (*http.Client, string) {
	t.Helper()
	if options.Log == nil {
		options.Log = quiet
	}
	if options.Facts == nil {
		options.Facts = facts{}
	}
	handler := NewHandler(options)
	handler.Use(Rules{Evaluator: options.Evaluator, Enforcement: options.Enforcement, IDs: []string{"orphaned-finalizer", "p", "q"}})
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.Client(), server.URL
}

func TestAnswers(t *testing.T) {
	const check = `termguard: run "kubectl termguard check namespaces/demo" for evidence and the safe way out` + orSee
	const checkKiali = `termguard: run "kubectl termguard check kialis.kiali.io/kiali -n demo" for evidence and the safe way out` + orSee
	demo := facts{worldOf(map[string]any{"termguard.dev/enforce": "deny"})}
	lax := facts{worldOf(map[string]any{"termguard.dev/enforce": "warn"})}
	refusedKiali := &metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
		Message: "termguard: deleting kialis.kiali.io/kiali is refused: will hang: it waits [p]. Evidence and the safe way out: kubectl termguard check kialis.kiali.io/kiali -n demo" + orSee + ". To go ahead all the same: kubectl annotate kialis.kiali.io/kiali -n demo termguard.dev/allow-hang='REASON'",
	}
	cases := map[string]struct {
		reason  string
		options Options
		request string
		want    admissionv1.AdmissionResponse
		events  []eventOf
	}{
		"Silence": {
			reason:  "A deletion that completes has no warning and no annotation.",
			options: Options{Evaluator: finds()},
			request: deleteNamespace,
			want:    admissionv1.AdmissionResponse{UID: "u1", Allowed: true},
		},
		"Warn": {
			reason:  "By default findings are warnings: certain ones first, and the command that shows the rest last.",
			options: Options{Evaluator: finds(maybe("q", "who knows"), hang("p", "it waits"))},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: will hang: it waits [p]", "termguard: may hang: who knows [q]", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will,q=may"},
			},
		},
		"Deny": {
			reason:  "A certain finding of a policy set to deny refuses, and says what, why, what next and how to go ahead.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Policies: map[string]config.Mode{"p": config.Deny}}},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false, Result: refusedKiali,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"DenyLeavesATrace": {
			reason:  "An Event on the object names the user who tried to delete it, and the policies that denied that.",
			options: Options{Evaluator: finds(hang("p", "it waits"), hang("q", "it waits, too"), hang("p", "once more")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: with(deleteKiali(`{"name":"kiali","finalizers":["kiali.io/finalizer"]}`), `"uid":"u2"`, `"uid":"u2","userInfo":{"username":"anna\u202e"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false,
				Result: &metav1.Status{
					Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
					Message: strings.Replace(refusedKiali.Message, "it waits [p]", "it waits (and 2 more findings) [p]", 1),
				},
				Warnings:         []string{"termguard: will hang: it waits [p]", "termguard: will hang: it waits, too [q]", "termguard: will hang: once more [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will,q=will"},
			},
			events: []eventOf{{kialiReference, "DeletionRefused", "kialis.kiali.io/kiali: refused to anna\uFFFD by policy p, q: it waits"}},
		},
		"DenyIsNotForMaybe": {
			reason:  "What only may hang is never refused.",
			options: Options{Evaluator: finds(maybe("p", "who knows")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: may hang: who knows [p]", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=may"},
			},
		},
		"DenyIsNotForInfo": {
			reason:  "What is only good to know is never refused.",
			options: Options{Evaluator: finds(info("p", "it takes 90 s")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: it takes 90 s [p]", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will"},
			},
		},
		"DenyByLabelOfTheNamespaceInTheFacts": {
			reason:  "The label of an object's namespace outweighs configuration.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Facts: demo},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false, Result: refusedKiali,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will", "enforce-label": "label termguard.dev/enforce=deny of its namespace"},
			},
		},
		"LooserLabel": {
			reason:  "A namespace may turn deny off for itself, but not without a trace.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Facts: lax, Enforcement: config.Enforcement{Default: config.Deny}},
			request: deleteKiali(`{"name":"kiali","finalizers":["f"]}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: true,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will", "enforce-label": "label termguard.dev/enforce=warn of its namespace"},
			},
			events: []eventOf{{kialiReference, "DeletionLetThrough", "kialis.kiali.io/kiali: let through by label termguard.dev/enforce=warn of its namespace; refused by policy p: it waits"}},
		},
		"LooserLabelNotAllowed": {
			reason:  "An administrator can enforce deny for all users.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Facts: lax, Enforcement: config.Enforcement{Default: config.Deny, AllowLooser: new(bool)}},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false, Result: refusedKiali,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"StricterLabelStays": {
			reason:  "What is stricter is always allowed.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Facts: demo, Enforcement: config.Enforcement{AllowLooser: new(bool)}},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false, Result: refusedKiali,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will", "enforce-label": "label termguard.dev/enforce=deny of its namespace"},
			},
		},
		"BreakGlassNotTrusted": {
			reason:  "Without trusted annotations, none breaks the glass.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny}, Trust: &config.Trust{Namespaces: []string{"infra-*"}, Subjects: []string{"sre"}}},
			request: deleteKiali(`{"name":"kiali","annotations":{"termguard.dev/allow-hang":"x"}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false,
				Result: &metav1.Status{
					Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
					Message: "termguard: deleting kialis.kiali.io/kiali is refused: will hang: it waits [p]. Evidence and the safe way out: kubectl termguard check kialis.kiali.io/kiali -n demo" + orSee + ". To go ahead all the same: contact an administrator whom termguard's configuration trusts (trustAnnotations)",
				},
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: annotation termguard.dev/allow-hang counts neither in this namespace nor from you", checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"BreakGlassOfATrustedGroup": {
			reason:  "Those who are trusted may, everywhere.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny}, Trust: &config.Trust{Subjects: []string{"sre"}}},
			request: with(deleteKiali(`{"name":"kiali","annotations":{"termguard.dev/allow-hang":"x"}}`), `"uid":"u2"`, `"uid":"u2","userInfo":{"username":"alice","groups":["dev","sre"]}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: true,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: allowed all the same: annotation termguard.dev/allow-hang says \"x\"", checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "break-glass", "policies": "p=will", "break-glass": "x"},
			},
		},
		"LabelForOnePolicyOnTheNamespaceItself": {
			reason:  "A namespace brings its labels itself, and the label for one policy outweighs that for all.",
			options: Options{Evaluator: finds(hang("p", "it waits"), hang("q", "it waits too"))},
			request: with(deleteNamespace, `{"name":"demo"}`, `{"name":"demo","labels":{"termguard.dev/enforce":"off","termguard.dev/enforce.q":"dryrun"}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				AuditAnnotations: map[string]string{
					"decision": "dryrun", "policies": "q=will", "enforce-label": "label termguard.dev/enforce.q=dryrun, termguard.dev/enforce=off of its namespace",
				},
			},
		},
		"MisspeltLabel": {
			reason:  "A label with a typing error must not pass for protection.",
			options: Options{Evaluator: finds()},
			request: with(deleteNamespace, `{"name":"demo"}`, `{"name":"demo","labels":{"termguard.dev/enforce":"Deny"}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings: []string{"termguard: label termguard.dev/enforce=Deny is ignored: it is not deny, warn, dryrun or off"},
			},
		},
		"LabelOfNoPolicy": {
			reason:  "Nor must one that names no policy.",
			options: Options{Evaluator: finds()},
			request: with(deleteNamespace, `{"name":"demo"}`, `{"name":"demo","labels":{"termguard.dev/enforce.orphaned-finaliser":"deny"}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings: []string{`termguard: label termguard.dev/enforce.orphaned-finaliser=deny is ignored: policy "orphaned-finaliser" not found; did you mean "orphaned-finalizer"?`},
			},
		},
		"BreakGlass": {
			reason:  "A reason on the object lets it through, with warnings, audit annotation and event.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: deleteKiali(`{"name":"kiali","finalizers":["f"],"annotations":{"termguard.dev/allow-hang":"moving\nhouse"}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: true,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: allowed all the same: annotation termguard.dev/allow-hang says \"moving\uFFFDhouse\"", checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "break-glass", "policies": "p=will", "break-glass": "moving\uFFFDhouse"},
			},
			events: []eventOf{{kialiReference, "DeletionLetThrough", "kialis.kiali.io/kiali: let through by annotation termguard.dev/allow-hang: moving\uFFFDhouse; refused by policy p: it waits"}},
		},
		"BreakGlassOnDryRun": {
			reason:  "A dry run is answered like the real thing and leaves no trace in the cluster.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: with(deleteKiali(`{"name":"kiali","annotations":{"termguard.dev/allow-hang":"x"}}`), `"uid":"u2"`, `"uid":"u2","dryRun":true`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: true,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: allowed all the same: annotation termguard.dev/allow-hang says \"x\"", checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "break-glass", "policies": "p=will", "break-glass": "x"},
			},
		},
		"BreakGlassWithoutReason": {
			reason:  "The value of the annotation is the reason: without one it is none.",
			options: Options{Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny}},
			request: deleteKiali(`{"name":"kiali","annotations":{"termguard.dev/allow-hang":" "}}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: false, Result: refusedKiali,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"Eviction": {
			reason: "An eviction is judged as the delete of its pod, with the finalizers that the facts have of it, and never refused.",
			options: Options{
				Enforcement: config.Enforcement{Default: config.Deny},
				Evaluator: evaluatorFunc(func(_ context.Context, trigger policies.Trigger, input map[string]any) (policies.Result, error) {
					return policies.Result{Findings: []policies.Finding{hang("p", fmt.Sprint(trigger, " ", slices.Sorted(maps.Keys(input["ownership"].(map[string]any)))))}}, nil
				}),
			},
			request: `{"uid":"u3","operation":"CREATE","subResource":"eviction","resource":{"group":"","version":"v1","resource":"pods"},
				"namespace":"demo","name":"web-0","object":{"metadata":{"name":"web-0"}},"oldObject":null}`,
			want: admissionv1.AdmissionResponse{
				UID: "u3", Allowed: true,
				Warnings: []string{
					"termguard: will hang: delete [x.io/f] [p]",
					`termguard: run "kubectl termguard check pods/web-0 -n demo" for evidence and the safe way out` + orSee,
				},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will"},
			},
		},
		"Finalize": {
			reason: "An update of namespaces/finalize is an edit of finalizers, of both states and both lists.",
			options: Options{Evaluator: evaluatorFunc(func(_ context.Context, trigger policies.Trigger, input map[string]any) (policies.Result, error) {
				return policies.Result{Findings: []policies.Finding{hang("p", fmt.Sprint(trigger, " ", len(input["ownership"].(map[string]any))))}}, nil
			})},
			request: with(deleteNamespace, `DELETE","res`, `UPDATE","subResource":"finalize","res`, `"object":null`, `"object":{"metadata":{"name":"demo","finalizers":["a/b"]}}`, `["kubernetes"]`, `["kubernetes","x.io/f"]`),
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: unsafe: finalizer-edit 2 [p]", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will"},
			},
		},
		"NameOfACollectionItem": {
			reason:  "The items of a deletecollection come without a name of their own.",
			options: Options{Evaluator: finds(hang("p", "it waits"))},
			request: with(deleteKiali(`{"name":"kiali"}`), `"name":"kiali",`, ``),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Allowed: true,
				Warnings:         []string{"termguard: will hang: it waits [p]", checkKiali},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will"},
			},
		},
		"Unseen": {
			reason: "Silence about what could not be seen would be a promise.",
			options: Options{Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
				return policies.Result{Unseen: []policies.Unseen{{Resource: "a", Reason: "forbidden"}, {Resource: "b", Reason: "error"}}}, nil
			})},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings: []string{"termguard: not checked in full: unseen: a: forbidden (and 1 more)"},
			},
		},
		"UnseenBesideAFinding": {
			reason: "It may hang: that more may be hidden changes nothing.",
			options: Options{Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
				return policies.Result{Findings: []policies.Finding{maybe("p", "who knows")}, Unseen: []policies.Unseen{{Resource: "a", Reason: "forbidden"}}}, nil
			})},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: may hang: who knows [p]", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=may"},
			},
		},
		"UnseenBesideInfo": {
			reason: "That it is slow does not say that it completes.",
			options: Options{Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
				return policies.Result{Findings: []policies.Finding{info("p", "it takes 90 s")}, Unseen: []policies.Unseen{{Resource: "a", Reason: "forbidden"}}}, nil
			})},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings:         []string{"termguard: it takes 90 s [p]", "termguard: not checked in full: unseen: a: forbidden", check},
				AuditAnnotations: map[string]string{"decision": "warn", "policies": "p=will"},
			},
		},
		"UnseenWhereNothingIsSaid": {
			reason: "A dry run of termguard itself stays silent.",
			options: Options{
				Enforcement: config.Enforcement{Default: config.DryRun, Policies: map[string]config.Mode{"q": config.Off}},
				Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
					return policies.Result{Unseen: []policies.Unseen{{Resource: "a", Reason: "forbidden"}}}, nil
				}),
			},
			request: deleteNamespace,
			want:    admissionv1.AdmissionResponse{UID: "u1", Allowed: true},
		},
		"DryRunMode": {
			reason: "A policy in dryrun shows in the audit log and the metrics, and gives no warning.",
			options: Options{
				Enforcement: config.Enforcement{Policies: map[string]config.Mode{"p": config.DryRun}},
				Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
					return policies.Result{Findings: []policies.Finding{hang("p", "it waits")}, Omitted: 3}, nil
				}),
			},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				AuditAnnotations: map[string]string{"decision": "dryrun", "policies": "p=will"},
			},
		},
		"AMalformedFinding": {
			reason: "What one policy says that is no finding takes no refusal of another with it.",
			options: Options{
				Enforcement: config.Enforcement{Default: config.Deny},
				Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
					return policies.Result{Findings: []policies.Finding{hang("p", "it waits")}, Errors: []error{policies.PolicyError{Policy: "q", Err: policies.ErrMalformed}}}, nil
				}),
			},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Result: refusedKiali,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: not checked in full: a policy failed (see termguard's log)",
					checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"ACustomPolicyFails": {
			reason: "Whoever makes a custom policy fail, or slow, takes no refusal of another with it.",
			options: Options{
				Enforcement: config.Enforcement{Default: config.Deny},
				Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
					return policies.Result{Findings: []policies.Finding{hang("p", "it waits")}, Errors: []error{policies.PolicyError{Policy: "q", Custom: true, Err: errors.New("boom")}}}, nil
				}),
			},
			request: deleteKiali(`{"name":"kiali"}`),
			want: admissionv1.AdmissionResponse{
				UID: "u2", Result: refusedKiali,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: not checked in full: a policy failed (see termguard's log)",
					checkKiali,
				},
				AuditAnnotations: map[string]string{"decision": "deny", "policies": "p=will"},
			},
		},
		"APolicyFails": {
			reason: "A partial answer denies nothing, and still has the findings.",
			options: Options{
				Enforcement: config.Enforcement{Default: config.Deny},
				Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
					return policies.Result{Findings: []policies.Finding{hang("p", "it waits")}, Errors: []error{errors.New("boom")}}, nil
				}),
			},
			request: deleteNamespace,
			want: admissionv1.AdmissionResponse{
				UID: "u1", Allowed: true,
				Warnings: []string{
					"termguard: will hang: it waits [p]",
					"termguard: not checked in full: a policy failed (see termguard's log)",
					check,
				},
				AuditAnnotations: map[string]string{"decision": "error", "error": "policy", "policies": "p=will"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events := &recorder{}
			tc.options.Recorder, tc.options.Authentic = events, true
			client, url := serve(t, tc.options)
			status, got := post(t, client, url, body(t, v1, tc.request))
			if status != http.StatusOK {
				t.Fatalf("%s\nstatus %d", tc.reason, status)
			}
			if diff := cmp.Diff(tc.want, *got.Response); diff != "" {
				t.Errorf("%s\nanswer: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.events, events.got); diff != "" {
				t.Errorf("%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRefusalIsLogged checks that a refusal is one line with the user, the object and the reason,
// however long the texts of the request are.
func TestRefusalIsLogged(t *testing.T) {
	var log bytes.Buffer
	client, url := serve(t, Options{
		Evaluator: finds(hang("p", "it waits")), Enforcement: config.Enforcement{Default: config.Deny},
		Deadline: time.Minute, Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	request := with(deleteKiali(`{"name":"kiali"}`), `"uid":"u2"`, `"uid":"u2","userInfo":{"username":"`+strings.Repeat("a", 100<<10)+`"}`)
	post(t, client, url, body(t, v1, request))
	post(t, client, url, body(t, v1, with(request, `"uid":"u2"`, `"uid":"u2","dryRun":true`)))
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("want one line: %v: %.500s", err, log.String())
	}
	user, _ := line["user"].(string)
	line["user"] = len(user) < 300 && strings.HasPrefix(user, "aaa")
	delete(line, "time")
	want := map[string]any{
		"level": "INFO", "msg": "refused", "uid": "u2", "user": true, "on": "delete", "resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali",
		"policies": []any{"p"}, "known": false, "authentic": false, "why": "it waits",
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestInputIsTheRequestAsSent(t *testing.T) {
	var got map[string]any
	client, url := serve(t, Options{Evaluator: evaluatorFunc(func(_ context.Context, _ policies.Trigger, input map[string]any) (policies.Result, error) {
		got = input["request"].(map[string]any)
		return policies.Result{}, nil
	})})
	sent := with(deleteNamespace, `"uid":"u1"`, `"uid":"u1","options":{"gracePeriodSeconds":0},"userInfo":{"username":"ann"}`)
	post(t, client, url, body(t, v1, sent))
	var want map[string]any
	if err := json.Unmarshal([]byte(sent), &want); err != nil {
		t.Fatal(err)
	}
	want["options"] = map[string]any{"gracePeriodSeconds": int64(0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("input.request: -want, +got:\n%s", diff)
	}
}

func TestFailsOpen(t *testing.T) {
	denies := config.Enforcement{Default: config.Deny}
	refuses := finds(hang("p", "it waits"))
	cases := map[string]struct {
		reason  string
		options Options
		request string
		want    failure
	}{
		"Panic": {
			reason:  "A bug of ours is not the user's problem.",
			options: Options{Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) { panic("boom") })},
			request: deleteNamespace, want: failurePanic,
		},
		"PanicInFacts": {
			reason:  "Nor is one in the facts.",
			options: Options{Evaluator: refuses, Facts: brokenFacts{}},
			request: deleteKiali(`{"name":"kiali"}`), want: failurePanic,
		},
		"PanicInPassing": {
			reason:  "Nor is one before a goroutine was started for it.",
			options: Options{Evaluator: hasty{}},
			request: deleteNamespace, want: failurePanic,
		},
		"Error": {
			reason: "The engine failed as a whole.",
			options: Options{Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
				return policies.Result{}, errors.New("boom")
			})},
			request: deleteNamespace, want: failureEvaluation,
		},
		"DeadlineKept": {
			reason: "An evaluation that ends with its deadline has no answer.",
			options: Options{Deadline: time.Millisecond, Evaluator: evaluatorFunc(func(ctx context.Context, _ policies.Trigger, _ map[string]any) (policies.Result, error) {
				<-ctx.Done()
				return policies.Result{Findings: []policies.Finding{hang("p", "late")}}, nil
			})},
			request: deleteNamespace, want: failureDeadline,
		},
		"DeadlineIgnored": {
			reason: "One that does not end is left behind.",
			options: Options{Deadline: time.Millisecond, Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
				<-t.Context().Done()
				return policies.Result{}, nil
			})},
			request: deleteNamespace, want: failureDeadline,
		},
		"Unsynced": {
			reason:  "Facts that are not complete prove nothing.",
			options: Options{Evaluator: refuses, Synced: func() bool { return false }},
			request: deleteNamespace, want: failureUnsynced,
		},
		"NoOldObject": {
			reason:  "Without the object there is nothing to judge.",
			options: Options{Evaluator: refuses},
			request: `{"uid":"u1","operation":"DELETE","resource":{"resource":"namespaces"},"name":"demo","oldObject":null}`, want: failureMalformed,
		},
		"NoObject": {
			reason:  "Nor without its new state.",
			options: Options{Evaluator: refuses},
			request: with(deleteNamespace, "DELETE", "UPDATE"), want: failureMalformed,
		},
		"NoResource": {
			reason:  "Nor without its resource.",
			options: Options{Evaluator: refuses},
			request: `{"uid":"u1"}`, want: failureMalformed,
		},
		"OddTypes": {
			reason:  "What is not of its type is missing.",
			options: Options{Evaluator: refuses},
			request: `{"uid":"u1","operation":["DELETE"],"resource":"namespaces","name":7,"oldObject":"x","dryRun":"yes"}`, want: failureMalformed,
		},
		"Unexpected": {
			reason:  "A webhook configuration that sends too much must not harm.",
			options: Options{Evaluator: refuses},
			request: with(deleteNamespace, "DELETE", "CONNECT"), want: failureUnexpected,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.options.Enforcement = denies
			registry := prometheus.NewRegistry()
			tc.options.Registry = registry
			client, url := serve(t, tc.options)
			status, got := post(t, client, url, body(t, v1, tc.request))
			if status != http.StatusOK {
				t.Fatalf("%s\nstatus %d", tc.reason, status)
			}
			answer := got.Response
			if !answer.Allowed || !strings.HasPrefix(string(answer.UID), "u") || len(answer.Warnings) != 1 {
				t.Errorf("%s\nwant it allowed, with its uid and one warning; got %+v", tc.reason, answer)
			}
			if diff := cmp.Diff(map[string]float64{string(tc.want): 1}, counted(t, registry, "termguard_errors_total", "reason")); diff != "" {
				t.Errorf("%s\nerrors: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(map[string]float64{"error": 1}, counted(t, registry, "termguard_reviews_total", "decision")); diff != "" {
				t.Errorf("%s\nreviews: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// brokenFacts panics.
type brokenFacts struct{ facts }

func (brokenFacts) Ask(*question.Request, func(cluster.Moment)) { panic("boom") }

// hasty panics while it checks whether an evaluation is needed.
type hasty struct{ evaluatorFunc }

func (hasty) Quiet(policies.Trigger, map[string]any, policies.Facts) (policies.Result, bool) {
	panic("boom")
}

// counted returns the values of a counter above zero, by a label.
func counted(t *testing.T, registry prometheus.Gatherer, name, label string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if n := m.GetCounter().GetValue(); family.GetName() == name && pair.GetName() == label && n > 0 {
					counts[pair.GetValue()] += n
				}
			}
		}
	}
	return counts
}

func TestOtherFailures(t *testing.T) {
	huge := make([]byte, MaxBody+1)
	cases := map[string]struct {
		reason string
		body   []byte
		want   int
	}{
		"Empty":      {"There is no uid to answer to.", nil, 400},
		"NotJSON":    {"There is no uid to answer to.", []byte("{"), 400},
		"Trailing":   {"One review is one document.", append(body(t, v1, deleteNamespace), "{}"...), 400},
		"NoRequest":  {"There is no uid to answer to.", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400},
		"NoUID":      {"There is no uid to answer to.", body(t, v1, `{}`), 400},
		"OtherKind":  {"This is not a review.", []byte(`{"apiVersion":"v1","kind":"Pod"}`), 400},
		"OtherGroup": {"A version that termguard cannot answer in.", body(t, "admission.k8s.io/v2", deleteNamespace), 400},
		"Array":      {"This is not a review.", []byte(`[]`), 400},
		"TooLarge":   {"A body that is too large gets that error.", huge, 413},
		"Largest":    {"The limit itself is not too large.", append(body(t, v1, deleteNamespace), bytes.Repeat([]byte(" "), MaxBody-len(body(t, v1, deleteNamespace)))...), 200},
		"V1beta1":    {"The older version is answered in kind.", body(t, "admission.k8s.io/v1beta1", deleteNamespace), 200},
	}
	client, url := serve(t, Options{Evaluator: finds()})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status, got := post(t, client, url, tc.body)
			if status != tc.want {
				t.Fatalf("%s\nwant status %d, got %d", tc.reason, tc.want, status)
			}
			if name == "V1beta1" && got.APIVersion != "admission.k8s.io/v1beta1" {
				t.Errorf("%s\nanswered in %s", tc.reason, got.APIVersion)
			}
		})
	}
}

// The answer comes at the deadline, however an evaluation misbehaves.
func TestDeadline(t *testing.T) {
	cases := map[string]struct {
		reason string
		stuck  func(ctx context.Context, release chan struct{})
		late   time.Duration // of the body
		want   time.Duration
	}{
		"Heeded":  {"It ends with its context.", func(ctx context.Context, _ chan struct{}) { <-ctx.Done() }, 0, 300 * time.Millisecond},
		"Ignored": {"It does not end at all.", func(_ context.Context, release chan struct{}) { <-release }, 0, 300 * time.Millisecond},
		"LateBody": {"The API server's patience began with the request.",
			func(_ context.Context, release chan struct{}) { <-release }, 200 * time.Millisecond, 300 * time.Millisecond},
		"InTime": {"What is slower than most is answered all the same.", func(context.Context, chan struct{}) { time.Sleep(299 * time.Millisecond) }, 0, 299 * time.Millisecond},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(2 * idleTimeout) }) // for the goroutine that waits for more
				release := make(chan struct{})
				defer close(release)
				h := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: evaluatorFunc(func(ctx context.Context, _ policies.Trigger, _ map[string]any) (policies.Result, error) {
					tc.stuck(ctx, release)
					return policies.Result{Findings: []policies.Finding{maybe("p", "late")}}, nil
				})})
				sent := io.MultiReader(readerFunc(func([]byte) (int, error) {
					time.Sleep(tc.late)
					return 0, io.EOF
				}), bytes.NewReader(body(t, v1, deleteNamespace)))
				started := time.Now()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, sent))
				if took := time.Since(started); took != tc.want {
					t.Errorf("%s\nwant an answer after %v, got one after %v", tc.reason, tc.want, took)
				}
				var got admissionv1.AdmissionReview
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				want := []string{"termguard: not checked, allowed: termguard did not answer in time"}
				if name == "InTime" {
					want = []string{"termguard: may hang: late [p]", lastLine}
				}
				if diff := cmp.Diff(want, got.Response.Warnings); diff != "" || !got.Response.Allowed {
					t.Errorf("%s\nwarnings: -want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// TestQuiet checks that a request that concerns no policy needs no evaluation, and that the wait
// for the facts is bounded all the same.
func TestQuiet(t *testing.T) {
	cases := map[string]struct {
		reason string
		facts  Facts
		want   []string
	}{
		"Free":    {"No policy is evaluated.", facts{}, nil},
		"Busy":    {"The facts come free in time.", busyFacts{wait: time.Millisecond}, nil},
		"TooBusy": {"They do not.", busyFacts{wait: time.Second}, []string{"termguard: not checked, allowed: termguard did not answer in time"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(2 * idleTimeout) })
				h := NewHandler(Options{Log: quiet, Facts: tc.facts, Evaluator: unconcerned{t, name == "Free"}})
				rv, err := decodeReview(body(t, v1, deleteNamespace))
				if err != nil {
					t.Fatal(err)
				}
				answer := h.Handle(t.Context(), rv.request)
				if diff := cmp.Diff(tc.want, answer.Warnings); diff != "" || !answer.Allowed {
					t.Errorf("%s\nwarnings: -want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// busyFacts are locked by a change for a while.
type busyFacts struct {
	facts
	wait time.Duration
}

func (busyFacts) TryAsk(*question.Request, func(cluster.Moment)) bool { return false }

func (f busyFacts) Ask(r *question.Request, tell func(cluster.Moment)) {
	time.Sleep(f.wait)
	f.facts.Ask(r, tell)
}

// unconcerned is an Evaluator whose policies no request concerns, which shows without an evaluation
// if the facts are not locked.
type unconcerned struct {
	t    *testing.T
	free bool
}

func (unconcerned) Quiet(policies.Trigger, map[string]any, policies.Facts) (policies.Result, bool) {
	return policies.Result{}, true
}

func (u unconcerned) Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error) {
	if u.free {
		u.t.Error("evaluated, although no policy is concerned")
	}
	return policies.Result{}, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBusy(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, maxInFlight)
	h := NewHandler(Options{Log: quiet, Facts: facts{}, Deadline: time.Minute, Evaluator: evaluatorFunc(func(context.Context, policies.Trigger, map[string]any) (policies.Result, error) {
		started <- struct{}{}
		<-release
		return policies.Result{}, nil
	})})
	rv, err := decodeReview(body(t, v1, deleteNamespace))
	if err != nil {
		t.Fatal(err)
	}
	var under sync.WaitGroup
	for range maxInFlight {
		under.Go(func() { h.Handle(t.Context(), rv.request) })
	}
	for range maxInFlight {
		<-started
	}
	answer := h.Handle(t.Context(), rv.request)
	close(release)
	under.Wait()
	if !answer.Allowed || answer.AuditAnnotations["error"] != string(failureBusy) {
		t.Errorf("one review too many: want it allowed as %s, got %+v", failureBusy, answer)
	}
}

func TestOutlivesItsConnection(t *testing.T) {
	h := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: evaluatorFunc(func(ctx context.Context, _ policies.Trigger, _ map[string]any) (policies.Result, error) {
		return policies.Result{Findings: []policies.Finding{hang("p", fmt.Sprint(ctx.Err()))}}, nil
	})})
	rv, err := decodeReview(body(t, v1, deleteNamespace))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, want := h.Handle(ctx, rv.request).Warnings[0], "termguard: will hang: <nil> [p]"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// The policies in the binary, over facts like those of a cluster.
func TestRealPolicies(t *testing.T) {
	adapter := snapshotOf(t, map[string]any{
		"apiVersion": "termguard.dev/v1", "kind": "Facts",
		"now": "2026-11-21T07:00:00Z",
		"apiservices": map[string]any{"v1beta1.metrics.k8s.io": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "available": "False", "reason": "ServiceNotFound", "message": "service not found", "stale": true, "listError": "",
			"service": map[string]any{"namespace": "monitoring", "name": "prometheus-adapter"},
		}},
		"unseen": []any{},
	})
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprintf("f%d.example.com/wait", i)))
	}
	kialiWith := func(finalizers string) string {
		return deleteKiali(`{"name":"kiali","namespace":"demo","finalizers":[` + finalizers + `]}`)
	}
	cases := map[string]struct {
		reason  string
		facts   Facts
		request string
		lines   int
		first   string
	}{
		"APIService": {
			"An API that does not answer blocks every namespace.", adapter, deleteNamespace,
			2, "termguard: will hang: ",
		},
		"5000FinalizedObjects": {
			"However many objects wait for the same, it is one finding.", kialis(t, 5000, 1), deleteNamespace,
			2, "termguard: will hang: ",
		},
		"5000Finalizers": {
			"However many finalizers an object has, the answer is readable.", kialis(t, 0, 1), kialiWith(strings.Join(many, ",")),
			5, "termguard: may hang: ",
		},
		"OddFinalizers": {
			"What the API server stores is no reason to fail.", kialis(t, 0, 1),
			kialiWith(`"a\"b\\c","\u001b[2J","line\nbreak","\u202eolleh","ünï/cödé","","` + strings.Repeat("x", 5000) + `"`),
			5, "termguard: may hang: ",
		},
		"UnknownResource": {
			"Of a kind that no facts are about nothing is known to hang.", kialis(t, 0, 1),
			with(deleteKiali(`{"name":"kiali","namespace":"demo"}`), "kialis", "strangers", "kiali.io", "strange.example.com"),
			0, "",
		},
	}
	engine := realEngine(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client, url := serve(t, Options{Evaluator: engine, Facts: tc.facts, Deadline: time.Minute})
			_, got := post(t, client, url, body(t, v1, tc.request))
			warnings := got.Response.Warnings
			if !got.Response.Allowed || got.Response.AuditAnnotations["error"] != "" {
				t.Errorf("%s\nanswer: %+v", tc.reason, got.Response)
			}
			if len(warnings) != tc.lines || tc.lines > 0 && !strings.HasPrefix(warnings[0], tc.first) {
				t.Errorf("%s\nwant %d warnings, the first %q…; got:\n%s", tc.reason, tc.lines, tc.first, strings.Join(warnings, "\n"))
			}
			checkBudget(t, warnings)
		})
	}
}

func snapshotOf(t *testing.T, doc map[string]any) *cluster.World {
	t.Helper()
	text, err := json.Marshal(doc)
	if err == nil {
		doc = nil
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	world := cluster.NewWorld(cluster.Options{Now: func() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }})
	world.View(func(view map[string]any) { maps.Copy(view, doc) }) // it stays, as neither the time nor the facts change
	return world
}

// moody returns a handler, behind a real HTTPS server, with the policies in the binary, which fail
// at times. Policy p is set to deny.
func moody(f *testing.F) (*http.Client, string) {
	engine, world := realEngine(f), kialis(f, 3, 1)
	var calls atomic.Int64
	return serve(f, Options{Facts: world, Evaluator: evaluatorFunc(func(ctx context.Context, trigger policies.Trigger, input map[string]any) (policies.Result, error) {
		switch calls.Add(1) % 6 {
		case 0:
			panic("boom")
		case 1:
			return policies.Result{}, errors.New("boom")
		case 2:
			return policies.Result{Findings: []policies.Finding{hang("p", fmt.Sprint(input["ownership"]))}, Errors: []error{errors.New("boom")}}, nil
		case 3:
			return policies.Result{Findings: []policies.Finding{maybe("p", fmt.Sprint(input["request"]))}, Unseen: []policies.Unseen{{Reason: fmt.Sprint(input["request"])}}, Omitted: 7}, nil
		default:
			return engine.Evaluate(ctx, trigger, input, world)
		}
	}), Enforcement: config.Enforcement{Default: config.Warn, Policies: map[string]config.Mode{"p": config.Deny}}})
}

// FuzzServeHTTP sends anything.
func FuzzServeHTTP(f *testing.F) {
	for _, request := range []string{
		deleteNamespace, deleteKiali(`{"name":"kiali","finalizers":["a/b"]}`), `{}`, `{"uid":"u"}`, `{"uid":7}`,
		with(deleteNamespace, "DELETE", "UPDATE"), with(deleteNamespace, `{"name":"demo"}`, `{"name":"d\u0000","labels":{"termguard.dev/enforce":"deny"},"finalizers":[1],"managedFields":[{"fieldsV1":"x"}]}`),
	} {
		f.Add(body(f, v1, request))
		f.Add(body(f, "admission.k8s.io/v1beta1", request))
	}
	f.Add([]byte(""))
	f.Add([]byte("null"))
	client, url := moody(f)
	f.Fuzz(func(t *testing.T, sent []byte) {
		checkAnswer(t, client, url, sent)
	})
}

// FuzzRequest sends reviews that differ from good ones in their texts only.
func FuzzRequest(f *testing.F) {
	f.Add("DELETE", "", "", "namespaces", "demo", "demo", "kiali.io/finalizer", "warn", "")
	f.Add("DELETE", "", "kiali.io", "kialis", "demo", "kiali", "kiali.io/finalizer", "deny", "because")
	f.Add("UPDATE", "finalize", "", "namespaces", "demo", "demo", "a\r\nb", "", "\x1b[31m")
	f.Add("CREATE", "eviction", "", "pods", "demo", "web-0", "\xff", "Deny", "\u202e")
	client, url := moody(f)
	f.Fuzz(func(t *testing.T, operation, subresource, group, resource, namespace, name, finalizer, mode, reason string) {
		object := map[string]any{
			"metadata": map[string]any{
				"name": name, "namespace": namespace, "finalizers": []string{finalizer, "x" + finalizer},
				"labels":      map[string]string{config.EnforceLabel: mode, config.EnforceLabel + "." + name: mode},
				"annotations": map[string]string{AllowAnnotation: reason},
			},
			"spec": map[string]any{"finalizers": []string{finalizer}},
		}
		request, err := json.Marshal(map[string]any{
			"uid": "u1", "operation": operation, "subResource": subresource, "name": name, "namespace": namespace,
			"resource": map[string]string{"group": group, "resource": resource, "version": "v1"},
			"object":   object, "oldObject": object,
		})
		if err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, client, url, body(t, v1, string(request)))
	})
}

// checkAnswer sends a body, and checks what is true of every answer.
func checkAnswer(t *testing.T, client *http.Client, url string, sent []byte) {
	t.Helper()
	status, got := post(t, client, url, sent)
	if status != http.StatusOK {
		if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge {
			t.Fatalf("status %d", status)
		}
		return
	}
	rv, err := decodeReview(sent)
	if err != nil {
		t.Fatalf("answered a body that is no review: %v", err)
	}
	answer := got.Response
	if answer.UID != rv.request.UID || got.APIVersion != rv.apiVersion {
		t.Errorf("want uid %q in %s, got %q in %s", rv.request.UID, rv.apiVersion, answer.UID, got.APIVersion)
	}
	// A namespace may request denials by its label; a failure never denies.
	denial := answer.AuditAnnotations["decision"] == string(decisionDeny) && answer.AuditAnnotations["error"] == "" && answer.Result.Code == http.StatusForbidden
	if !answer.Allowed && !denial {
		t.Errorf("refused: %+v", answer)
	}
	checkBudget(t, answer.Warnings)
}

// checkBudget checks that warnings fit what the API server and people can take.
func checkBudget(t *testing.T, warnings []string) {
	t.Helper()
	total := 0
	for _, w := range warnings {
		n := utf8.RuneCountInString(w)
		total += n
		if n > 256 {
			t.Errorf("warning of %d characters: %q", n, w)
		}
		// As the API server sends it and kubectl reads it.
		header, err := utilnet.NewWarningHeader(299, "-", w)
		if err != nil {
			t.Errorf("warning %q: %v", w, err)
			continue
		}
		read, errs := utilnet.ParseWarningHeaders([]string{header})
		if len(errs) > 0 || len(read) != 1 || read[0].Text != w {
			t.Errorf("warning %q arrives as %+v, %v", w, read, errs)
		}
	}
	if len(warnings) > 15 || total > 4096 {
		t.Errorf("%d warnings of %d characters", len(warnings), total)
	}
}
