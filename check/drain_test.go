package check

import (
	"bytes"
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

func TestParseNames(t *testing.T) {
	for args, want := range map[string]string{"": "got no argument", "node/": "is no object", "n1": "has no name"} {
		if _, err := ParseNames(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", args, err, want)
		}
	}
}
