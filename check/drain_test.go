package check

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

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
	set, err := DrainAll(t.Context(), engine, world, subjects, missing)
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
		t.Errorf("n1 %s, n2 %s: want n1 to hang, and not n2, whose DaemonSet's pod stays anyway", n1.Verdict, n2.Verdict)
	}
	if n2.EstimateSeconds == nil || *n2.EstimateSeconds < 90 {
		t.Errorf("n2 takes %v s, want the 90 of its slowest pod", n2.EstimateSeconds)
	}
	if len(set.Missing) != 1 || !strings.Contains(set.Missing[0], "n3") {
		t.Errorf("missing %q, want n3", set.Missing)
	}
	pod, err := FromFacts(world, Name{Type: "pod", Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Drain(t.Context(), engine, world, pod); err == nil || !strings.Contains(err.Error(), "only a node can be drained") {
		t.Errorf("error %v, want one that says that a pod is no node", err)
	}
}

// BenchmarkDrain asks about 100 nodes with 5,000 pods under 500 budgets.
func BenchmarkDrain(b *testing.B) {
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b%d, namespace: ns%d}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: a%[1]d}}}, status: {disruptionsAllowed: %[3]d, currentHealthy: 10, desiredHealthy: 10, expectedPods: 10}}\n---\n", i, i%50, i%2)
	}
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("node/n%d", i)
		fmt.Fprintf(&text, "{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {conditions: [{type: Ready, status: 'True'}]}}\n---\n", i)
	}
	for i := range 5000 {
		fmt.Fprintf(&text, "{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: ns%d, labels: {app: a%d}}, spec: {nodeName: n%d, containers: [{name: c, image: i}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}\n---\n", i, i%500%50, i%500, i%100)
	}
	world, engine := worldFrom(b, text.String()), newEngine(b)
	nodes, err := ParseNames(names)
	if err != nil {
		b.Fatal(err)
	}
	subjects, missing, err := AllFromFacts(world, nodes)
	if err != nil || len(missing) > 0 {
		b.Fatal(err, missing)
	}
	b.ReportAllocs()
	for b.Loop() {
		set, err := DrainAll(b.Context(), engine, world, subjects, missing)
		if err != nil || set.Verdict != policies.Hangs {
			b.Fatal(set.Verdict, err)
		}
	}
}
