package answer

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

func TestDrain(t *testing.T) {
	world, engine := worldOf(t, "drain.yaml"), newEngine(t)
	names, err := ParseNames([]string{"node/n1", "node/n2", "node/n3"})
	if err != nil {
		t.Fatal(err)
	}
	subjects, missing, err := AllFromFacts(world, names)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Ask(t.Context(), engine, world, Question{Targets: subjects, Missing: missing, As: AsDrain})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := set.Text(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "drain.txt", text.Bytes())
	n1, n2 := set.Items[0], set.Items[1]
	if n1.Verdict != policies.Hangs || n2.Verdict == policies.Hangs {
		t.Errorf("n1 %s, n2 %s: want only n1 to hang; drain leaves the DaemonSet pod of n2", n1.Verdict, n2.Verdict)
	}
	if n2.EstimateSeconds == nil || *n2.EstimateSeconds != 93 {
		t.Errorf("estimate of n2 is %v s, want 91 s for its slowest pod plus 2 s for its tenth of a processor", n2.EstimateSeconds)
	}
	if len(set.Missing) != 1 || !strings.Contains(set.Missing[0], "n3") {
		t.Errorf("missing %q, want n3", set.Missing)
	}
	pod, err := FromFacts(world, Name{Object: policies.Object{Resource: "pod", Namespace: "shop", Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), engine, world, Question{Targets: []Subject{pod}, As: AsDrain}); err == nil || !strings.Contains(err.Error(), "only a node can be drained") {
		t.Errorf("error %v, want one saying that a pod is no node", err)
	}
	if _, err := Ask(t.Context(), engine, world, Question{Targets: subjects, As: AsEvict}); err == nil || !strings.Contains(err.Error(), "only a pod can be evicted") {
		t.Errorf("error %v, want one saying that a node is no pod", err)
	}
	held, err := FromFacts(world, Name{Object: policies.Object{Resource: "pod", Namespace: "shop", Name: "db-0"}})
	if err != nil {
		t.Fatal(err)
	}
	for as, want := range map[As]bool{AsEvict: true, AsDelete: false} {
		a, err := Ask(t.Context(), engine, world, Question{Targets: []Subject{held}, As: as})
		if err != nil {
			t.Fatal(err)
		}
		if blocked := slices.Contains(a.Items[0].policies(), "eviction-blocked"); blocked != want || a.As != as {
			t.Errorf("%s of a pod that a budget protects: %v", a.As, a.Items[0].policies())
		}
	}
}

// crowded returns a cluster with nodes, 5 budgets for each, and 50 pods on each; every second
// budget allows no disruption.
func crowded(t testing.TB, nodes int) (*cluster.World, []Subject) {
	t.Helper()
	var text strings.Builder
	budgets, names := 5*nodes, make([]string, nodes)
	for i := range budgets {
		fmt.Fprintf(&text, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b%d, namespace: ns%d}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: a%[1]d}}}, status: {disruptionsAllowed: %[3]d, currentHealthy: 10, desiredHealthy: 10, expectedPods: 10}}\n---\n", i, i%50, i%2)
	}
	for i := range names {
		names[i] = fmt.Sprintf("node/n%d", i)
		fmt.Fprintf(&text, "{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {conditions: [{type: Ready, status: 'True'}]}}\n---\n", i)
	}
	for i := range 50 * nodes {
		fmt.Fprintf(&text, "{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: ns%d, labels: {app: a%d}}, spec: {nodeName: n%d, containers: [{name: c, image: i}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}\n---\n", i, i%budgets%50, i%budgets, i%nodes)
	}
	world := worldFrom(t, text.String())
	targets, err := ParseNames(names)
	if err != nil {
		t.Fatal(err)
	}
	subjects, missing, err := AllFromFacts(world, targets)
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	return world, subjects
}

// counted is an Evaluator that counts its evaluations.
type counted struct {
	Evaluator
	n atomic.Int64
}

func (c *counted) Evaluate(ctx context.Context, trigger policies.Trigger, input map[string]any, facts policies.Facts) (policies.Result, error) {
	c.n.Add(1)
	return c.Evaluator.Evaluate(ctx, trigger, input, facts)
}

// Twice as many nodes, with twice as many pods and budgets, are twice the work: each node and each
// pod is evaluated once.
func TestDrainIsLinear(t *testing.T) {
	race.Skip(t)
	engine := newEngine(t)
	work := func(nodes int) float64 {
		world, subjects := crowded(t, nodes)
		evaluator := &counted{Evaluator: engine}
		ask := func() {
			set, err := Ask(t.Context(), evaluator, world, Question{Targets: subjects, As: AsDrain})
			if err != nil || set.Verdict != policies.Hangs {
				t.Fatal(set.Verdict, err)
			}
		}
		ask() // queries are prepared when they are first needed
		if want := int64(nodes + 50*nodes); evaluator.n.Load() != want {
			t.Errorf("%d evaluations for %d nodes with 50 pods each, want %d", evaluator.n.Load(), nodes, want)
		}
		return testing.AllocsPerRun(1, ask)
	}
	if few, many := work(5), work(10); many > 2.2*few {
		t.Errorf("%.0f allocations for 5 nodes, %.0f for 10", few, many)
	}
}

// BenchmarkDrain checks 100 nodes with 5,000 pods under 500 budgets.
func BenchmarkDrain(b *testing.B) {
	world, subjects := crowded(b, 100)
	engine := newEngine(b)
	b.ReportAllocs()
	for b.Loop() {
		set, err := Ask(b.Context(), engine, world, Question{Targets: subjects, As: AsDrain})
		if err != nil || set.Verdict != policies.Hangs {
			b.Fatal(set.Verdict, err)
		}
	}
}
