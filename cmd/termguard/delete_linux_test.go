package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/termguard/termguard/deletion"
	"github.com/termguard/termguard/internal/race"
)

// orphaned returns a namespace with objects whose finalizer no controller removes: its owner is
// known and not installed.
func orphaned(names ...string) string {
	world := `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kialis.kiali.io}, spec: {group: kiali.io, scope: Namespaced, names: {kind: Kiali, plural: kialis}, versions: [{name: v1alpha1, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1alpha1]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: other, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: demo}}
`
	for _, name := range names {
		world += fmt.Sprintf("---\n{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: %s, namespace: demo, finalizers: [kiali.io/finalizer]}}\n", name)
	}
	return world
}

const demo = "/api/v1/namespaces/demo"

// output holds the output of a command; it may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	on   func(transcript string)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	n, err := o.text.Write(p)
	transcript := o.text.String()
	o.mu.Unlock()
	if o.on != nil {
		o.on(transcript)
	}
	return n, err
}

func deleted(ctx context.Context, c *fakeCluster, stdin io.Reader, args ...string) (code int, out *output, errs string) {
	out = &output{}
	if who, ok := stdin.(*person); ok {
		stdin, out.on = who.File, who.reads
	}
	var stderr bytes.Buffer
	code = run(ctx, append([]string{"termguard", "delete", "--kubeconfig", c.kubeconfig}, args...), stdin, out, &stderr)
	return code, out, stderr.String()
}

// TestDeleteInterrupted interrupts a deletion at each of its requests and questions: run again, it
// finishes, and no other object is deleted.
func TestDeleteInterrupted(t *testing.T) {
	world := orphaned("a", "b", "c")
	finish := func(t *testing.T, c *fakeCluster) {
		t.Helper()
		c.before = nil
		code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip")
		if code == exitFailed && strings.Contains(errs, "nothing to delete") && !c.has(demo) {
			return // the request had arrived
		}
		if code != 0 || c.has(demo) {
			t.Errorf("run again: exit code %d: %s%s", code, &out.text, errs)
		}
		if !c.has("/apis/kiali.io/v1alpha1/namespaces/other/kialis/a") {
			t.Error("an object of another namespace was deleted")
		}
	}
	const most = 20
	requests := 0
	for ; requests < most; requests++ {
		c := newFakeCluster(t, world)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		c.before = func(string) {
			if n++; n == requests+1 {
				cancel()
			}
		}
		code, out, errs := deleted(ctx, c, nil, "ns/demo", "--yes", "--allow=strip")
		ended := ctx.Err() != nil
		cancel()
		if !ended {
			if code != 0 {
				t.Fatalf("not interrupted: exit code %d: %s%s", code, &out.text, errs)
			}
			break
		}
		if code != exitFailed || !strings.Contains(errs, "interrupted: ") {
			t.Errorf("interrupted at request %d: exit code %d: %s%s", requests+1, code, &out.text, errs)
		}
		finish(t, c)
	}
	if requests < 4 || requests == most {
		t.Errorf("interrupted at %d requests, want three patches and a deletion", requests)
	}
	for question := range 2 {
		c := newFakeCluster(t, world)
		ctx, cancel := context.WithCancel(t.Context())
		terminal, keys := typing(t)
		out := &output{}
		questions := 0
		out.on = func(transcript string) {
			if n := strings.Count(transcript, "[y/N] "); n > questions {
				if questions = n; n == question+1 {
					cancel()
					return
				}
				go fmt.Fprintln(keys, "y")
			}
		}
		var errs bytes.Buffer
		code := run(ctx, []string{"termguard", "delete", "--kubeconfig", c.kubeconfig, "ns/demo"}, terminal, out, &errs)
		cancel()
		if code != exitFailed || !strings.Contains(errs.String(), "interrupted: ") {
			t.Errorf("interrupted at question %d: exit code %d: %s%s", question+1, code, &out.text, &errs)
		}
		finish(t, c)
	}
}

// TestDeleteEndsAtOnce interrupts a deletion while the cluster does not answer one of its requests:
// it ends without the answer, and reports what was done and what is left.
func TestDeleteEndsAtOnce(t *testing.T) {
	world := orphaned("a", "b")
	// interrupted leaves the first request that is matches without an answer, interrupts, and
	// returns the output and the number of requests up to then.
	interrupted := func(is func(n int, request string) bool) (transcript string, requests int) {
		c := newFakeCluster(t, world)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var which string
		var all int // requests sent before the interrupt may still arrive
		c.arrived = func(r *http.Request) {
			mu.Lock()
			all++
			silent := which == "" && is(all, r.Method+" "+r.URL.Path)
			if silent {
				which = fmt.Sprintf("request %d, %s %s", all, r.Method, r.URL.Path)
			}
			mu.Unlock()
			if silent {
				cancel()
				select {
				case <-r.Context().Done():
				case <-t.Context().Done():
				}
			}
		}
		ended := make(chan string, 1)
		go func() {
			code, out, errs := deleted(ctx, c, nil, "ns/demo", "--yes", "--allow=strip", "--request-timeout=1h")
			ended <- fmt.Sprintf("exit code %d: %s%s", code, &out.text, errs)
		}()
		select {
		case transcript = <-ended:
		case <-time.After(time.Minute):
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("interrupted at %s, the command does not end", which)
		}
		mu.Lock()
		defer mu.Unlock()
		if which != "" && (!strings.HasPrefix(transcript, "exit code 2: ") || !strings.Contains(transcript, "termguard: interrupted: ")) {
			t.Errorf("interrupted at %s: %s", which, transcript)
		}
		return transcript, all
	}
	_, all := interrupted(func(int, string) bool { return false })
	samples := 20
	if race.Detector {
		samples = 5
	}
	for sample := 1; sample <= all; sample += 1 + all/samples {
		interrupted(func(n int, _ string) bool { return n == sample })
	}
	const a = "kialis.kiali.io/a -n demo"
	changed := false
	for name, tc := range map[string]struct {
		is   func(int, string) bool
		want string
	}{
		"Reading":  {func(int, string) bool { return true }, "interrupted: nothing was changed\n"},
		"Patching": {func(_ int, r string) bool { return strings.HasPrefix(r, "PATCH ") }, "interrupted: done until then: " + a + " (no response: it may be done); left: namespaces/demo; run the same command again to go on\n"},
		"Deleting": {func(_ int, r string) bool { return r == "DELETE "+demo }, "deletion of namespaces/demo (no response: it may be done); left: namespaces/demo; run"},
		"Waiting": {func(_ int, r string) bool {
			defer func() { changed = changed || r == "DELETE "+demo }()
			return changed && r == "GET "+demo
		}, "deletion of namespaces/demo; left: namespaces/demo; run"},
	} {
		if transcript, _ := interrupted(tc.is); !strings.Contains(transcript, tc.want) {
			t.Errorf("%s: %q is missing from: %s", name, tc.want, transcript)
		}
	}
}

// TestDeleteAnew checks that an object that is recreated between the plan and a request is left
// alone, whichever request it is.
func TestDeleteAnew(t *testing.T) {
	for _, what := range []string{"PATCH /apis/kiali.io/v1alpha1/namespaces/demo/kialis/a", "DELETE /apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"} {
		c := newFakeCluster(t, orphaned("a"))
		c.before = func(request string) {
			if request == what {
				c.before = nil
				c.apply("{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: demo, finalizers: [kiali.io/finalizer]}}")
			}
		}
		_, out, errs := deleted(t.Context(), c, nil, "kialis/a", "-n", "demo", "--yes", "--allow=strip", "--timeout=1ms")
		if !strings.Contains(out.text.String(), "was recreated: left alone") {
			t.Errorf("%s: not reported: %s%s", what, &out.text, errs)
		}
		now := c.objects["/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"]
		if now == nil || now["metadata"].(map[string]any)["deletionTimestamp"] != nil || len(now["metadata"].(map[string]any)["finalizers"].([]any)) != 1 {
			t.Errorf("%s: the recreated object is %v", what, now)
		}
	}
}

// TestDeleteMany checks that a step for 403 objects is confirmed once.
func TestDeleteMany(t *testing.T) {
	var names []string
	for i := range 403 {
		names = append(names, fmt.Sprintf("w%03d", i))
	}
	c := newFakeCluster(t, orphaned(names...))
	code, out, errs := deleted(t.Context(), c, answering(t, "y", "y"), "ns/demo")
	transcript := out.text.String()
	if code != 0 || c.has(demo) {
		t.Fatalf("exit code %d: %.3000s%s", code, transcript, errs)
	}
	if !strings.Contains(transcript, "  3. Then delete namespaces/demo\n     $ kubectl delete namespaces/demo\n") {
		t.Errorf("the plan does not end with the deletion: %.3000s", transcript)
	}
	if questions := strings.Count(transcript, "[y/N]"); questions != 2 {
		t.Errorf("%d questions, want one for the finalizers and one for the deletion", questions)
	}
	if commands := strings.Count(transcript, "$ kubectl patch"); commands != 2 { // in the plan, and where it is asked
		t.Errorf("%d patch commands in the output, want one, twice", commands)
	}
	if done := strings.Count(transcript, "  done: kialis.kiali.io/"); done != 403 {
		t.Errorf("%d objects reported as done", done)
	}
}

// TestDeleteForce checks that an object is forced only if a flag or an answer on a terminal names
// it, with --yes or without.
func TestDeleteForce(t *testing.T) {
	const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Node, metadata: {name: dead}, status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: demo, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 30, finalizers: [x.io/kept-by-the-fake]}, spec: {nodeName: dead, containers: [{name: c, image: c}]}, status: {phase: Running}}
`
	const pod = demo + "/pods/web"
	for name, tc := range map[string]struct {
		reason string
		stdin  func(*testing.T) io.Reader
		flags  []string
		gone   []string
		code   int
	}{
		"Yes":      {"a yes typed after its question counts", func(t *testing.T) io.Reader { return answering(t, "n", "y") }, nil, []string{pod}, 1},
		"No":       {"so does a no", func(t *testing.T) io.Reader { return answering(t, "n", "n") }, nil, nil, 1},
		"Piped":    {"input from a pipe is no answer", func(*testing.T) io.Reader { return strings.NewReader("y\ny\ny\n") }, nil, nil, 3},
		"Named":    {"a flag that names the object allows it", nil, []string{"--allow=force=po/demo/web"}, []string{pod}, 3},
		"Other":    {"a flag that names another object does not", nil, []string{"--allow=force=pods/demo/other", "--allow=force=pods/other/web", "--allow=foreign=nodes/dead"}, nil, 3},
		"Restores": {"no other class allows it", nil, []string{"--allow=restore", "--allow=strip"}, nil, 3},
	} {
		c := newFakeCluster(t, world)
		var gone []string
		c.before = func(request string) {
			if path, ok := strings.CutPrefix(request, "DELETE "); ok {
				gone = append(gone, path)
			}
		}
		var stdin io.Reader
		if tc.stdin != nil {
			stdin = tc.stdin(t)
		}
		code, out, errs := deleted(t.Context(), c, stdin, append([]string{"pod/web", "-n", "demo", "--yes", "--timeout=1ms"}, tc.flags...)...)
		if code != tc.code || !slices.Equal(gone, tc.gone) {
			t.Errorf("%s: %s: exit code %d, deleted %v, want %d and %v: %s%s", name, tc.reason, code, gone, tc.code, tc.gone, &out.text, errs)
		}
	}
}

// TestDeleteDiscoversOnce checks that a deletion discovers types once for each evaluation of the
// cluster: the target, the facts and the actions share them.
func TestDeleteDiscoversOnce(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	var mu sync.Mutex
	discoveries, evaluations, all := 0, 0, 0
	c.arrived = func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all++
		switch r.URL.Path {
		case "/apis":
			discoveries++
		case "/version":
			evaluations++
		}
	}
	if code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip"); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, &out.text, errs)
	}
	// The first evaluation makes the plan, the second checks that its step has worked: some 50
	// requests each, one for each resource and group, and two for the volumes of the target in each.
	if evaluations != 2 || discoveries != 2 || all > 116 {
		t.Errorf("%d evaluations, %d discoveries, %d requests in all, want 2, 2 and at most 116", evaluations, discoveries, all)
	}
}

// TestDeleteUnknownOwner checks that a finalizer with an unknown owner is left to a person at once,
// with the reason, even if --allow strip is set; one whose owner is known to be absent is removed.
func TestDeleteUnknownOwner(t *testing.T) {
	since := time.Now().Add(-8 * time.Minute).UTC().Format(time.RFC3339)
	world := func(finalizer string) string {
		return `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kialis.kiali.io}, spec: {group: kiali.io, scope: Namespaced, names: {kind: Kiali, plural: kialis}, versions: [{name: v1alpha1, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1alpha1]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo, deletionTimestamp: "` + since + `"}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating, conditions: [{type: NamespaceContentRemaining, status: "True", reason: SomeResourcesRemain, message: "Some resources are remaining: kialis.kiali.io has 1 resource instances"}]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: demo, finalizers: [` + finalizer + `], deletionTimestamp: "` + since + `"}}
`
	}
	const why = "an unknown or unseen controller may still remove the finalizer"
	const uncovered = "; --allow strip does not cover that"
	for _, allow := range []bool{false, true} {
		c := newFakeCluster(t, world("acme.example/backup"))
		args := []string{"ns/demo", "--yes", "-o", "json", "--timeout=1h"}
		if allow {
			args = append(args, "--allow=strip")
		}
		code, out, errs := deleted(t.Context(), c, nil, args...)
		var answer struct {
			Why   string
			Yours []deletion.Task
		}
		if err := json.Unmarshal(out.text.Bytes(), &answer); err != nil || code != exitFindings {
			t.Fatalf("exit code %d, %v: %s%s", code, err, &out.text, errs)
		}
		if !strings.Contains(answer.Why, "have finalizer acme.example/backup") && !strings.Contains(answer.Why, "has finalizer acme.example/backup") || !strings.HasPrefix(answer.Why, "hangs (Terminating for ") {
			t.Errorf("first line without a cause: %s", answer.Why)
		}
		at := slices.IndexFunc(answer.Yours, func(y deletion.Task) bool { return strings.Contains(y.Why, why) })
		if at < 0 || strings.HasSuffix(answer.Yours[at].Why, uncovered) != allow || answer.Yours[at].Command == "" {
			t.Errorf("allowed %v: %+v", allow, answer.Yours)
		}
		if strings.Contains(errs, "not certain that the deletion hangs") || !c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") {
			t.Errorf("allowed %v: %s", allow, errs)
		}
	}
	c := newFakeCluster(t, world("kiali.io/finalizer"))
	if code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip"); c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") {
		t.Errorf("with a known owner: exit code %d: %s%s", code, &out.text, errs)
	}
}

// TestDeleteQuestion checks that each action has one question, and that an answer other than yes or
// no counts as no, which is said.
func TestDeleteQuestion(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	code, out, errs := deleted(t.Context(), c, answering(t, "maybe", "n"), "ns/demo")
	transcript := out.text.String()
	for _, want := range []string{
		"\n\nRemove finalizer kiali.io/finalizer from kialis.kiali.io/a -n demo?\n  risked: anything that the finalizer's owner has not cleaned up: it is leaked; it touches kialis.kiali.io/a -n demo (its metadata names no owner)\n  $ kubectl patch kialis.kiali.io/a -n demo ",
		"\n[y/N] ",
		"\"maybe\" is neither yes nor no: taken as no\n",
		"  declined: If Kiali operator (Ansible operator) will not run again",
	} {
		if !strings.Contains(transcript, want) {
			t.Errorf("want %q: exit code %d: %s%s", want, code, transcript, errs)
		}
	}
	if !c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") || strings.Contains(transcript, `"n" is neither`) {
		t.Errorf("%s", transcript)
	}
}

// TestDeleteTypedAhead checks that a line typed before a question was shown does not answer it.
func TestDeleteTypedAhead(t *testing.T) {
	c := newFakeCluster(t, orphaned("a", "b"))
	code, out, errs := deleted(t.Context(), c, answering(t).typesAhead(t, "y\ny\ny\ny\n"), "ns/demo", "--timeout=1ms")
	if questions := strings.Count(out.text.String(), "[y/N] "); code != exitFindings || questions < 2 {
		t.Errorf("exit code %d, %d questions: %s%s", code, questions, &out.text, errs)
	}
	if !c.has(demo) || strings.Contains(string(marshalled(t, c.objects[heldA])), `"finalizers":[]`) || c.objects[heldA] == nil {
		t.Errorf("got an action: %s", &out.text)
	}
}

// TestDeleteSkipsNothingUnsaid checks that a deletion needs confirmation, with --yes or without, if
// a step that should come before it is left to a person; the output names the step if the deletion
// continues.
func TestDeleteSkipsNothingUnsaid(t *testing.T) {
	const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/acme-operator"
	ask := func(c *fakeCluster, flags ...string) (code int, answer struct {
		Verdict, Why string
		Done         []string
		Questions    []deletion.Question
		Yours        []deletion.Task
	}) {
		code, out, errs := deleted(t.Context(), c, nil, append([]string{"clusterrolebinding/acme-operator", "--yes", "-o", "json", "--timeout=1ms"}, flags...)...)
		if err := json.Unmarshal(out.text.Bytes(), &answer); err != nil {
			t.Fatalf("%v: %s%s", err, &out.text, errs)
		}
		return code, answer
	}
	c := newFakeCluster(t, orphaned()+rbac)
	code, answer := ask(c)
	if code != exitQuestion || !c.has(binding) || len(answer.Questions) != 1 || len(answer.Yours) == 0 || answer.Verdict != "at-risk" {
		t.Fatalf("exit code %d: %+v", code, answer)
	}
	q := answer.Questions[0]
	if !strings.Contains(q.Do, "all the same") || len(q.Allow) != 1 || q.Why != answer.Yours[0].Do {
		t.Errorf("question: %+v", q)
	}
	if code, answer = ask(c, strings.Fields(q.Allow[0])...); code != 0 || c.has(binding) || len(answer.Yours) == 0 {
		t.Errorf("exit code %d: %+v", code, answer)
	}
}

// TestDeleteBrokenAPI checks that a plan reads all that it needs while an API is broken: facts
// whose absence a finding explains are not unseen.
func TestDeleteBrokenAPI(t *testing.T) {
	c := newFakeCluster(t, orphaned("a")+`
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.gone.example.com}, spec: {group: gone.example.com, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: gone, name: gone}}, status: {conditions: [{type: Available, status: "False", reason: ServiceNotFound}]}}
`)
	c.broken = "gone.example.com/v1beta1"
	code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "-o", "json", "--timeout=1ms")
	var answer struct{ Questions []deletion.Question }
	if err := json.Unmarshal(out.text.Bytes(), &answer); err != nil || code != exitQuestion {
		t.Fatalf("exit code %d, %v: %s%s", code, err, &out.text, errs)
	}
	var allow []string
	for _, q := range answer.Questions {
		allow = append(allow, q.Allow...)
	}
	if want := []string{"--allow strip", "--allow force=apiservices.apiregistration.k8s.io/v1beta1.gone.example.com"}; !slices.Equal(slices.Sorted(slices.Values(allow)), slices.Sorted(slices.Values(want))) {
		t.Errorf("requested permission %q, want %q: %s", allow, want, errs)
	}
	c.broken, c.hidden = "", []string{"secrets"} // which nothing explains
	if code, out, errs = deleted(t.Context(), c, nil, "ns/demo", "--yes", "--timeout=1ms"); code != exitFindings || !strings.Contains(out.text.String(), "relevant facts are unseen") {
		t.Errorf("exit code %d: %s%s", code, &out.text, errs)
	}
}
