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

// orphaned is a namespace with objects whose finalizer certainly nobody removes: its owner is known, and not installed.
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

// output is what a command says; it may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	on   func(said string)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	n, err := o.text.Write(p)
	said := o.text.String()
	o.mu.Unlock()
	if o.on != nil {
		o.on(said)
	}
	return n, err
}

func deleted(ctx context.Context, c *fakeCluster, stdin io.Reader, args ...string) (code int, out *output, errs string) {
	out = &output{}
	if who, asked := stdin.(*person); asked {
		stdin, out.on = who.File, who.reads
	}
	var stderr bytes.Buffer
	code = run(ctx, append([]string{"termguard", "delete", "--kubeconfig", c.kubeconfig}, args...), stdin, out, &stderr)
	return code, out, stderr.String()
}

// TestDeleteInterrupted interrupts a deletion with each of its requests and questions: run
// again, it finishes, and nothing else has gone.
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
			t.Error("an object of another namespace is gone")
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
		asked := 0
		out.on = func(said string) {
			if n := strings.Count(said, "[y/N] "); n > asked {
				if asked = n; n == question+1 {
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

// TestDeleteEndsAtOnce interrupts a deletion while the cluster does not answer, whatever it
// was asked: it ends without an answer, and tells what was done and what is left.
func TestDeleteEndsAtOnce(t *testing.T) {
	world := orphaned("a", "b")
	// interrupted has the cluster not answer the first request that is, interrupts, and
	// returns what is said, and how many requests there were by then.
	interrupted := func(is func(n int, request string) bool) (said string, asked int) {
		c := newFakeCluster(t, world)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var which string
		var all int // requests of who was interrupted may go on to arrive
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
		case said = <-ended:
		case <-time.After(time.Minute):
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("interrupted at %s, it does not end", which)
		}
		mu.Lock()
		defer mu.Unlock()
		if which != "" && (!strings.HasPrefix(said, "exit code 2: ") || !strings.Contains(said, "termguard: interrupted: ")) {
			t.Errorf("interrupted at %s: %s", which, said)
		}
		return said, all
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
		"Patching": {func(_ int, r string) bool { return strings.HasPrefix(r, "PATCH ") }, "interrupted: done until then: " + a + " (no answer came: it may be done); left: namespaces/demo; run the same command again to go on\n"},
		"Deleting": {func(_ int, r string) bool { return r == "DELETE "+demo }, "deletion of namespaces/demo (no answer came: it may be done); left: namespaces/demo; run"},
		"Waiting": {func(_ int, r string) bool {
			defer func() { changed = changed || r == "DELETE "+demo }()
			return changed && r == "GET "+demo
		}, "deletion of namespaces/demo; left: namespaces/demo; run"},
	} {
		if said, _ := interrupted(tc.is); !strings.Contains(said, tc.want) {
			t.Errorf("%s: want %q in: %s", name, tc.want, said)
		}
	}
}

// TestDeleteAnew leaves alone what is made anew between the plan and the request, whichever
// request it is.
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
		if !strings.Contains(out.text.String(), "was deleted and created again: left alone") {
			t.Errorf("%s: it is not told: %s%s", what, &out.text, errs)
		}
		now := c.objects["/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"]
		if now == nil || now["metadata"].(map[string]any)["deletionTimestamp"] != nil || len(now["metadata"].(map[string]any)["finalizers"].([]any)) != 1 {
			t.Errorf("%s: the one made anew is %v", what, now)
		}
	}
}

// TestDeleteMany confirms what is done to 403 objects once.
func TestDeleteMany(t *testing.T) {
	var names []string
	for i := range 403 {
		names = append(names, fmt.Sprintf("w%03d", i))
	}
	c := newFakeCluster(t, orphaned(names...))
	code, out, errs := deleted(t.Context(), c, answering(t, "y", "y"), "ns/demo")
	said := out.text.String()
	if code != 0 || c.has(demo) {
		t.Fatalf("exit code %d: %.3000s%s", code, said, errs)
	}
	if !strings.Contains(said, "  3. Then delete namespaces/demo\n     $ kubectl delete namespaces/demo\n") {
		t.Errorf("the plan does not end with the deletion: %.3000s", said)
	}
	if asked := strings.Count(said, "[y/N]"); asked != 2 {
		t.Errorf("asked %d times, want once for the finalizers, and once for the deletion", asked)
	}
	if commands := strings.Count(said, "$ kubectl patch"); commands != 2 { // in the plan, and where it is asked
		t.Errorf("%d commands that patch are shown, want one, twice", commands)
	}
	if done := strings.Count(said, "  done: kialis.kiali.io/"); done != 403 {
		t.Errorf("%d objects are told to be done", done)
	}
}

// TestDeleteForce forces only what is named by a flag, or answered on a terminal, --yes or not.
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
		"Yes":      {"a yes that is typed counts, for the question that was asked", func(t *testing.T) io.Reader { return answering(t, "n", "y") }, nil, []string{pod}, 1},
		"No":       {"a no does, too", func(t *testing.T) io.Reader { return answering(t, "n", "n") }, nil, nil, 1},
		"Piped":    {"what comes through a pipe answers nothing", func(*testing.T) io.Reader { return strings.NewReader("y\ny\ny\n") }, nil, nil, 3},
		"Named":    {"a flag that names it allows it", nil, []string{"--allow=force=po/demo/web"}, []string{pod}, 3},
		"Other":    {"one that names another does not", nil, []string{"--allow=force=pods/demo/other", "--allow=force=pods/other/web", "--allow=foreign=nodes/dead"}, nil, 3},
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

// TestDeleteDiscoversOnce holds a deletion to one discovery for each look at the cluster:
// the types that it finds serve the question, the facts, and the hands.
func TestDeleteDiscoversOnce(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	var mu sync.Mutex
	asked, looks, all := 0, 0, 0
	c.arrived = func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all++
		switch r.URL.Path {
		case "/apis":
			asked++
		case "/version":
			looks++
		}
	}
	if code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip"); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, &out.text, errs)
	}
	// The first look makes the plan, the second sees that its step has worked: some 50
	// requests each, one for each resource and group, and two tell what becomes of volumes.
	if looks != 2 || asked != 2 || all > 114 {
		t.Errorf("%d looks with %d discoveries and %d requests in all, want 2, 2 and at most 114", looks, asked, all)
	}
}

// TestDeleteUnknownOwner leaves a finalizer whose owner nobody knows to a person, at once, and
// tells why, also whoever has allowed to strip; one whose owner is known to be absent goes.
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
	const why = "may still remove the finalizer; it removes one only where it is certain that nobody else will"
	const uncovered = "; --allow strip does not cover that"
	for _, allow := range []bool{false, true} {
		c := newFakeCluster(t, world("acme.example/backup"))
		args := []string{"ns/demo", "--yes", "-o", "json", "--timeout=1h"}
		if allow {
			args = append(args, "--allow=strip")
		}
		code, out, errs := deleted(t.Context(), c, nil, args...)
		var told struct {
			Why   string
			Yours []deletion.Task
		}
		if err := json.Unmarshal(out.text.Bytes(), &told); err != nil || code != exitFound {
			t.Fatalf("exit code %d, %v: %s%s", code, err, &out.text, errs)
		}
		if !strings.Contains(told.Why, "have finalizer acme.example/backup") && !strings.Contains(told.Why, "has finalizer acme.example/backup") || !strings.HasPrefix(told.Why, "hangs (Terminating for ") {
			t.Errorf("the first line names no cause: %s", told.Why)
		}
		at := slices.IndexFunc(told.Yours, func(y deletion.Task) bool { return strings.Contains(y.Why, why) })
		if at < 0 || strings.HasSuffix(told.Yours[at].Why, uncovered) != allow || told.Yours[at].Command == "" {
			t.Errorf("allowed %v: %+v", allow, told.Yours)
		}
		if strings.Contains(errs, "not certain that the deletion hangs") || !c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") {
			t.Errorf("allowed %v: %s", allow, errs)
		}
	}
	c := newFakeCluster(t, world("kiali.io/finalizer"))
	if code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "--allow=strip"); c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") {
		t.Errorf("the owner is known: exit code %d: %s%s", code, &out.text, errs)
	}
}

// TestDeleteQuestion asks for what is done, and for nothing else, and takes what is neither yes
// nor no as a no, which it says.
func TestDeleteQuestion(t *testing.T) {
	c := newFakeCluster(t, orphaned("a"))
	code, out, errs := deleted(t.Context(), c, answering(t, "maybe", "n"), "ns/demo")
	said := out.text.String()
	for _, want := range []string{
		"\n\nRemove finalizer kiali.io/finalizer from kialis.kiali.io/a -n demo?\n  risked: what the finalizer protects stays behind, if nobody cleaned it up; it touches kialis.kiali.io/a -n demo (whose it is, its metadata does not tell)\n  $ kubectl patch kialis.kiali.io/a -n demo ",
		"\n[y/N] ",
		"\"maybe\" is neither yes nor no: taken as no\n",
		"  declined: If Kiali operator (Ansible operator) is gone for good",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q: exit code %d: %s%s", want, code, said, errs)
		}
	}
	if !c.has("/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a") || strings.Contains(said, `"n" is neither`) {
		t.Errorf("%s", said)
	}
}

// TestDeleteTypedAhead: what was typed before a question was shown is no answer to it.
func TestDeleteTypedAhead(t *testing.T) {
	c := newFakeCluster(t, orphaned("a", "b"))
	code, out, errs := deleted(t.Context(), c, answering(t).typesAhead(t, "y\ny\ny\ny\n"), "ns/demo", "--timeout=1ms")
	if asked := strings.Count(out.text.String(), "[y/N] "); code != exitFound || asked < 2 {
		t.Errorf("exit code %d, asked %d times: %s%s", code, asked, &out.text, errs)
	}
	if !c.has(demo) || strings.Contains(string(marshalled(t, c.objects[heldA])), `"finalizers":[]`) || c.objects[heldA] == nil {
		t.Errorf("something was done: %s", &out.text)
	}
}

// TestDeleteSkipsNothingUnsaid asks before a deletion that a step should come before, which it
// leaves to a person, --yes or not; and tells of the step where it goes ahead.
func TestDeleteSkipsNothingUnsaid(t *testing.T) {
	const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/acme-operator"
	ask := func(c *fakeCluster, flags ...string) (code int, told struct {
		Verdict, Why string
		Done         []string
		Questions    []deletion.Question
		Yours        []deletion.Task
	}) {
		code, out, errs := deleted(t.Context(), c, nil, append([]string{"clusterrolebinding/acme-operator", "--yes", "-o", "json", "--timeout=1ms"}, flags...)...)
		if err := json.Unmarshal(out.text.Bytes(), &told); err != nil {
			t.Fatalf("%v: %s%s", err, &out.text, errs)
		}
		return code, told
	}
	c := newFakeCluster(t, orphaned()+rbac)
	code, told := ask(c)
	if code != exitAsked || !c.has(binding) || len(told.Questions) != 1 || len(told.Yours) == 0 || told.Verdict != "at-risk" {
		t.Fatalf("exit code %d: %+v", code, told)
	}
	q := told.Questions[0]
	if !strings.Contains(q.Do, "all the same") || len(q.Allow) != 1 || q.Why != told.Yours[0].Do {
		t.Errorf("the question is %+v", q)
	}
	if code, told = ask(c, strings.Fields(q.Allow[0])...); code != 0 || c.has(binding) || len(told.Yours) == 0 {
		t.Errorf("exit code %d: %+v", code, told)
	}
}

// TestDeleteBrokenAPI asks all that a plan needs where an API is broken: what a finding explains
// is not unseen.
func TestDeleteBrokenAPI(t *testing.T) {
	c := newFakeCluster(t, orphaned("a")+`
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.gone.example.com}, spec: {group: gone.example.com, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: gone, name: gone}}, status: {conditions: [{type: Available, status: "False", reason: ServiceNotFound}]}}
`)
	c.broken = "gone.example.com/v1beta1"
	code, out, errs := deleted(t.Context(), c, nil, "ns/demo", "--yes", "-o", "json", "--timeout=1ms")
	var told struct{ Questions []deletion.Question }
	if err := json.Unmarshal(out.text.Bytes(), &told); err != nil || code != exitAsked {
		t.Fatalf("exit code %d, %v: %s%s", code, err, &out.text, errs)
	}
	var allow []string
	for _, q := range told.Questions {
		allow = append(allow, q.Allow...)
	}
	if want := []string{"--allow strip", "--allow force=apiservices.apiregistration.k8s.io/v1beta1.gone.example.com"}; !slices.Equal(slices.Sorted(slices.Values(allow)), slices.Sorted(slices.Values(want))) {
		t.Errorf("asked for %q, want %q: %s", allow, want, errs)
	}
	c.broken, c.hidden = "", []string{"secrets"} // which nothing explains
	if code, out, errs = deleted(t.Context(), c, nil, "ns/demo", "--yes", "--timeout=1ms"); code != exitFound || !strings.Contains(out.text.String(), "not all that matters can be seen") {
		t.Errorf("exit code %d: %s%s", code, &out.text, errs)
	}
}
