package scan

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

func restless(ctx context.Context) error { return ctx.Err() }

// TestSurveySaysWhatCheckSays counts in the worlds of all fixtures what check is certain of,
// of each object.
func TestSurveySaysWhatCheckSays(t *testing.T) {
	files, err := filepath.Glob("../policies/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine := newEngine(t)
	found := 0
	for _, file := range files {
		world := worldFrom(t, contents(t, file))
		place, err := FromFacts(world)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := map[By]int{}
		for _, a := range place.subjects {
			if a.kind == Nodes || a.kind == Terminating {
				continue
			}
			report, err := check.Ask(t.Context(), engine, world, a.subject(), background(t))
			if err != nil {
				t.Fatal(err)
			}
			certain := map[string]bool{}
			for _, f := range report.Findings {
				if f.Severity != policies.Info && f.Certainty == policies.Will && !certain[f.Policy] {
					certain[f.Policy] = true
					want[By{f.Policy, a.kind}]++
				}
			}
		}
		survey := Survey{World: world, Engine: func() check.Evaluator { return engine }, Rest: restless}
		tally, err := survey.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, tally.Undeletable); diff != "" {
			t.Errorf("%s: -check, +survey:\n%s", file, diff)
		}
		found += len(want)
	}
	if found < 50 {
		t.Errorf("only %d figures were compared", found)
	}
}

// terminatingWorld has two custom resources that wait for an owner that is not there, with a
// third whose owner nobody knows to be absent, and a claim that waits for a pod.
const terminatingWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop, uid: ns}, spec: {finalizers: [kubernetes]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kialis.kiali.io}, spec: {group: kiali.io, scope: Namespaced, names: {kind: Kiali, plural: kialis}, versions: [{name: v1alpha1, served: true, storage: true}]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: shop, uid: a, deletionTimestamp: "2020-11-01T08:00:00Z", finalizers: [kiali.io/finalizer]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: b, namespace: shop, uid: b, deletionTimestamp: "2020-11-01T07:00:00Z", finalizers: [kiali.io/finalizer]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: c, namespace: shop, uid: c, finalizers: [kiali.io/finalizer]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, uid: p, deletionTimestamp: "2020-11-01T09:00:00Z"}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running}}
`

// TestSurvey counts objects, those included that the facts do not name, and tells for how long
// the oldest has been Terminating.
func TestSurvey(t *testing.T) {
	world := worldNaming(t, 2, terminatingWorld)
	engine := newEngine(t)
	survey := Survey{World: world, Engine: func() check.Evaluator { return engine }, Rest: restless}
	tally, err := survey.Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[By]int{
		{"orphaned-finalizer", Namespaces}: 1, {"crd-removed-with-finalizers", Definitions}: 1, {"orphaned-finalizer", Custom}: 3,
	} {
		if tally.Undeletable[by] != want {
			t.Errorf("%v: %d, want %d: %v", by, tally.Undeletable[by], want, tally.Undeletable)
		}
	}
	for held, want := range map[Held]int{ // of what is in a namespace the kind, and no name
		{By{"orphaned-finalizer", Namespaces}, "namespaces", "", "shop"}:                                                          1,
		{By{"crd-removed-with-finalizers", Definitions}, "customresourcedefinitions.apiextensions.k8s.io", "", "kialis.kiali.io"}: 1,
		{By{"orphaned-finalizer", Custom}, "kialis.kiali.io", "shop", ""}:                                                         3,
	} {
		if tally.Held[held] != want || tally.Policies[held.Policy].Title == "" {
			t.Errorf("%v: %d, want %d: %v", held, tally.Held[held], want, tally.Held)
		}
	}
	var now time.Time
	world.Read(func(f cluster.Facts) { now = f.Now() })
	oldest := now.Sub(time.Date(2020, 11, 1, 7, 0, 0, 0, time.UTC))
	if got := tally.Terminating[By{"orphaned-finalizer", Custom}]; got != oldest {
		t.Errorf("the oldest custom resource: %s, want %s: %v", got, oldest, tally.Terminating)
	}
	pods := 0
	for by := range tally.Terminating {
		if by.Kind == Terminating {
			pods++
		}
	}
	if pods != 1 {
		t.Errorf("the pod is told of %d times: %v", pods, tally.Terminating)
	}
}

// TestSurveyRests before each look at the facts, and ends when it is told to.
func TestSurveyRests(t *testing.T) {
	world := worldFrom(t, terminatingWorld)
	engine := newEngine(t)
	full, asked := errors.New("enough"), 0
	survey := Survey{World: world, Engine: func() check.Evaluator { asked++; return engine }}
	rests := 0
	survey.Rest = func(context.Context) error { rests++; return nil }
	if _, err := survey.Round(t.Context()); err != nil || rests <= asked {
		t.Errorf("%d rests for %d questions: %v", rests, asked, err)
	}
	rests = 0
	survey.Rest = func(context.Context) error {
		if rests++; rests == 3 {
			return full
		}
		return nil
	}
	if _, err := survey.Round(t.Context()); !errors.Is(err, full) || rests != 3 {
		t.Errorf("%d rests, and then %v", rests, err)
	}
}

// TestSurveyBound: who fills a namespace has no more asked than is in other namespaces.
func TestSurveyBound(t *testing.T) {
	text := terminatingWorld
	for i := range 3 * maxInNamespace {
		text += "---\n" + `{apiVersion: v1, kind: ConfigMap, metadata: {name: c` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `, namespace: shop, deletionTimestamp: "2020-11-01T08:00:00Z", finalizers: [x.io/` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `]}}` + "\n"
	}
	var groups []group
	worldFrom(t, text).Read(func(f cluster.Facts) { groups = groupsIn(f, "shop") })
	asked := 0
	for _, g := range groups {
		asked += len(g.names)
	}
	if asked != maxInNamespace {
		t.Errorf("%d questions, want %d", asked, maxInNamespace)
	}
}
