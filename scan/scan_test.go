package scan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

func newEngine(t testing.TB) *policies.Engine {
	t.Helper()
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true}) // a slow machine is no failure
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// placeOf reads a fixture as scan reads a snapshot.
func placeOf(t testing.TB, file string) *Place {
	t.Helper()
	archive, err := snapshots.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = archive.Close() })
	kinds := slices.DeleteFunc(Kinds(), func(k Kind) bool { return k == Releases })
	place, err := FromCluster(t.Context(), live.Over(archive), archive.Options(cluster.Options{}), "", nil, kinds, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return place
}

// scanned returns the scan of objects in YAML documents.
func scanned(t testing.TB, text string, options Options) *Scan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), newEngine(t), []*Place{placeOf(t, file)}, options)
}

func contents(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSaysWhatCheckSays scans the worlds of all fixtures: scan and check agree about every object
// that scan evaluates, and scan evaluates every object about which check has a finding.
func TestSaysWhatCheckSays(t *testing.T) {
	files, err := filepath.Glob("../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine := newEngine(t)
	compared := 0
	for _, file := range files {
		place := placeOf(t, file)
		s := Run(t.Context(), engine, []*Place{place}, Options{})
		items := map[policies.Object]answer.Item{}
		for _, item := range s.Items {
			items[item.Target] = item
		}
		if s.Total().Objects != len(place.subjects) {
			t.Errorf("%s: %d of %d questions have an answer", file, s.Total().Objects, len(place.subjects))
		}
		for _, candidate := range place.subjects {
			subject := candidate.subject()
			q := answer.Question{Targets: []answer.Subject{subject}, Options: background(t)}
			if candidate.kind == Nodes {
				q.As = answer.AsDrain
			}
			all, err := answer.Ask(t.Context(), engine, place.World, q)
			if err != nil {
				t.Fatal(err)
			}
			want := all.Items[0]
			compared++
			item, ok := items[want.Target]
			if !ok {
				if want.Verdict != policies.Completes {
					t.Errorf("%s: %s: check says %s, the scan that it completes", file, subject, want.Verdict)
				}
				continue
			}
			if item.Verdict != want.Verdict || item.TerminatingSince != want.TerminatingSince {
				t.Errorf("%s: %s: check says %s, the scan %s", file, subject, want.Verdict, item.Verdict)
			}
			says := map[string]bool{}
			for _, h := range item.HeldBy {
				says[h.Says] = true
			}
			for _, f := range want.Findings {
				if f.Certainty == policies.Will && f.Severity != policies.Info && !f.Symptom && !says[f.Message] {
					// Another finding of the same cause may replace it.
					if len(item.HeldBy) == 0 {
						t.Errorf("%s: %s: the scan lacks a finding of check: %s", file, subject, f.Message)
					}
				}
			}
		}
	}
	if compared < 400 {
		t.Errorf("compared only %d answers", compared)
	}
}

func background(t testing.TB) map[string]any {
	t.Helper()
	options, err := question.FromFlags("background", -1, false)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// TestClasses checks that policies name the class of their findings in METADATA.
func TestClasses(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Policies() {
		if (p.Class == "") == slices.Contains(p.Triggers, policies.Delete) {
			t.Errorf("policy %s: class %q: want a class in METADATA of exactly the policies with trigger delete", p.ID, p.Class)
		}
	}
}

// TestGolden compares every output format for one cluster with golden files.
func TestGolden(t *testing.T) {
	live := slices.DeleteFunc(Kinds(), func(k Kind) bool { return k == Releases }) // as if a cluster without releases was asked
	s := scanned(t, contents(t, "testdata/cluster.yaml"), Options{Of: "testdata/cluster.yaml", Only: live})
	for name, write := range map[string]func(*bytes.Buffer) error{
		"scan.txt":     func(b *bytes.Buffer) error { return s.Text(b, false) },
		"scan-all.txt": func(b *bytes.Buffer) error { return s.Text(b, true) },
		"scan.json":    func(b *bytes.Buffer) error { return indented(b, s) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := write(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.Bytes())
		})
	}
}

// TestTogether checks that causes that unblock nothing alone are fixed together with other blockers
// of the same objects.
func TestTogether(t *testing.T) {
	const api = "\n---\n{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.%[1]s.test}, spec: {group: %[1]s.test, version: v1, service: {namespace: default, name: %[1]s}}, status: {conditions: [{type: Available, status: 'False', reason: ServiceNotFound, message: gone}]}}"
	text := "{apiVersion: termguard.dev/v1, kind: Cluster}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}, spec: {finalizers: [kubernetes]}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: cart}, spec: {finalizers: [kubernetes]}}"
	s := scanned(t, text+fmt.Sprintf(api, "a")+fmt.Sprintf(api, "b"), Options{Only: []Kind{Namespaces}})
	var out bytes.Buffer
	if err := s.Text(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fixing 2 of 2 root causes (broken 1 and 2) unblocks 2 of 2 objects",
		"may block all 2 namespaces; fixing it together with broken 2 unblocks 2 of 2 objects",
		"may block all 2 namespaces; fixing it together with broken 1 unblocks 2 of 2 objects",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}

func indented(b *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// golden compares got with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(contents(t, file), string(got)); diff != "" {
		t.Errorf("run UPDATE_GOLDEN=1 go test ./scan: -kept, +written:\n%s", diff)
	}
}

// TestFirstScreen checks that the summary of an ordinary cluster fits 24 lines of 100 columns.
func TestFirstScreen(t *testing.T) {
	race.Skip(t)
	s := scanned(t, contents(t, "testdata/cluster.yaml"), Options{Of: "prod"})
	text := s.Page(false).In(page.Style{Width: 120})
	if lines := strings.Count(text, "\n"); lines > 24 {
		t.Errorf("%d lines do not fit the first screen:\n%s", lines, text)
	}
}

// TestInterrupted checks that an interrupted scan reports what is known, and that it is partial.
func TestInterrupted(t *testing.T) {
	place := placeOf(t, "testdata/cluster.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	s := Run(ctx, newEngine(t), []*Place{place}, Options{Progress: func(done, of int) {
		if done >= 3 {
			cancel()
		}
	}})
	if n := s.Total().Objects; n < 3 || n >= len(place.subjects) || s.Interrupted == "" {
		t.Errorf("%d of %d are answered, interrupted: %q", n, len(place.subjects), s.Interrupted)
	}
	var out strings.Builder
	if err := s.Text(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "partial: ") {
		t.Errorf("no note that the answer is partial:\n%s", &out)
	}
	if !s.Failing(string(policies.Hangs)) {
		t.Error("objects that were not evaluated count")
	}
}

// TestMended removes each removable cause from the facts of all fixtures: the objects that it
// blocked are no longer blocked by it, and otherwise as before.
func TestMended(t *testing.T) {
	race.Skip(t)
	files, err := filepath.Glob("../policies/*/testdata/hang_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine := newEngine(t)
	taken, beside := map[string]int{}, 0
	for _, file := range append(files, "testdata/cluster.yaml") {
		place := placeOf(t, file)
		before := factsOf(t, place)
		s := Run(t.Context(), engine, []*Place{place}, Options{})
		if diff := cmp.Diff(before, factsOf(t, place)); diff != "" {
			t.Errorf("%s: a scan changed the facts: -before, +after:\n%s", file, diff)
		}
		for _, c := range s.Causes {
			if c.Class != policies.Broken || !c.removable() || slices.Equal(c.Policies, []string{"already-terminating"}) {
				continue
			}
			var questions []candidate
			before := map[policies.Object][]string{}
			for _, item := range s.Items {
				for _, h := range item.HeldBy {
					if h.Cause == c.ID {
						before[item.Target] = causesOf(item, c)
					}
				}
			}
			for _, one := range place.subjects {
				one.place = place
				subject := one.subject()
				if _, held := before[policies.Object{Resource: subject.Type.GroupResource().String(), Namespace: subject.Namespace, Name: subject.Name}]; held {
					questions = append(questions, one)
				}
			}
			after := Scan{}
			replies, err := place.without(t.Context(), engine, questions, background(t), []*Cause{&c})
			if err != nil {
				t.Fatal(err)
			}
			after.tell(replies)
			left := map[policies.Object]answer.Item{}
			for _, item := range after.Items {
				left[item.Target] = item
			}
			for target, others := range before {
				item := left[target]
				if slices.ContainsFunc(item.HeldBy, func(h answer.Hold) bool { return h.Cause == c.ID }) {
					t.Errorf("%s: %s is removed, but still blocks %s", file, c.ID, target.Ref())
				}
				if diff := cmp.Diff(others, causesOf(item, c)); diff != "" && item.Verdict != policies.Unknown {
					t.Errorf("%s: without %s, %s is held otherwise: -before, +after:\n%s", file, c.ID, target.Ref(), diff)
				}
				beside += len(others)
			}
			for _, policy := range c.Policies {
				taken[policy]++
			}
		}
	}
	for _, policy := range []string{
		"unavailable-apiservice", "failing-webhook-blocks-delete", "refused-request", "orphaned-finalizer", "crd-removed-with-finalizers", "finalizer-already-stuck",
		"unreachable-node", "node-disk-full", "node-already-stuck", "failing-conversion-webhook", "volume-driver-missing",
	} {
		if taken[policy] == 0 {
			t.Errorf("no cause of policy %s was taken out", policy)
		}
	}
	if beside < 5 {
		t.Errorf("only %d causes beside the removed ones", beside)
	}
}

// factsOf returns the facts as JSON has them.
func factsOf(t *testing.T, place *Place) (doc map[string]any) {
	t.Helper()
	place.World.View(func(all map[string]any) {
		text, err := json.Marshal(all)
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	delete(doc, "now")
	return doc
}

// causesOf returns the other causes that block an item.
func causesOf(item answer.Item, but Cause) []string {
	lines := []string{}
	for _, h := range item.HeldBy {
		switch {
		case h.Cause == but.ID, strings.HasSuffix(h.Cause, "already-terminating"): // which shows where no cause is left
		case strings.HasSuffix(h.Cause, "/known-bad-runtime") && but.Object != nil && but.Object.Resource == nodes: // it relies on the same events
		case len(but.Finalizers) > 0 && slices.Contains([]string{"missing-reference", "owner-reports-failure", "in-use", "needs-go-with-namespace"}, policyOf(h.Cause)): // about that finalizer, or what is deleted sooner without it
		default:
			lines = append(lines, h.Cause)
		}
	}
	slices.Sort(lines)
	return lines
}

// policyOf returns the policy that a cause's id begins with, if it does.
func policyOf(cause string) string {
	policy, _, _ := strings.Cut(cause, "/")
	return policy
}

// TestSubjectIsItsOwn checks that evaluating an object that arrived whole does not change it, since
// others read it at the same time.
func TestSubjectIsItsOwn(t *testing.T) {
	arrived := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "demo"}}}
	typ := answer.Type{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}
	subject := subjectOf(typ, arrived, authenticationv1.UserInfo{}, Custom)
	if len(arrived.Object) != 1 || subject.Object["kind"] != "Widget" || subject.Object["apiVersion"] != "x.io/v1" {
		t.Errorf("for %v: evaluated %v", arrived.Object, subject.Object)
	}
}

// TestManyTerminating checks that the number of Terminating objects beyond the limit is reported.
func TestManyTerminating(t *testing.T) {
	const of = maxTerminating + 100
	var objects strings.Builder
	for i := range of {
		fmt.Fprintf(&objects, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: c-%05d, uid: c-%05d, deletionTimestamp: '2026-11-25T10:00:00Z', finalizers: [x.io/f]}}\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: termguard.dev/v1, kind: Cluster}\n"+objects.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	place := placeOf(t, file)
	if n := len(place.subjects); n != maxTerminating || !slices.Contains(place.unseen, "100 more objects that are Terminating: the first 5000 were checked") {
		t.Errorf("%d evaluated, note %q", n, place.unseen)
	}
}
