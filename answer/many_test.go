package answer

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// TestManyItems checks that an answer about very many objects, each with a blocker and a step of its own, takes
// time and memory in proportion to their number.
func TestManyItems(t *testing.T) {
	race.Skip(t)
	const maxEach = 24 << 10 // bytes, garbage included
	took := func(n int) time.Duration {
		a := NewAnswer(AsDelete)
		for i := range n {
			o := policies.Object{Resource: "widgets.x.io", Namespace: fmt.Sprint("n", i%100), Name: fmt.Sprint("w", i)}
			action := &policies.Action{Verb: policies.VerbDelete, Objects: []string{"gadgets.x.io/" + o.Name}, Namespace: o.Namespace}
			a.Items = append(a.Items, Item{Target: o, Verdict: policies.Hangs, Unseen: []policies.Unseen{{What: o.Name + " itself", Reason: "forbidden"}}, Findings: []policies.Finding{{
				Policy: "p", Certainty: policies.Will, Severity: policies.High, Message: fmt.Sprint("it waits for gadget ", i),
				Steps: []policies.Step{{Kind: policies.Remove, Do: fmt.Sprint("Delete gadget ", i), Command: action.Command(), Action: action}},
			}}})
		}
		began := time.Now()
		step := func(what string, do func()) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			do()
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / uint64(n); each > maxEach {
				t.Errorf("%d items: %s: %d bytes for each, want at most %d", n, what, each, maxEach)
			}
		}
		step("sum", a.sum)
		step("order", func() { a.Order, a.Circle = order(cluster.NewWorld(cluster.Options{}), a.Items) })
		for name, write := range map[string]func(io.Writer) error{
			"text": a.Text, "name": a.Blocked, "dot": a.DOT,
			"full": func(w io.Writer) error { return a.Page(true).Write(w, page.Style{}) },
			"wide": func(w io.Writer) error { return a.Wide().Write(w, page.Style{}) },
		} {
			step(name, func() {
				if err := write(io.Discard); err != nil {
					t.Fatal(err)
				}
			})
		}
		a.form = asList
		step("list", func() { _ = a.Text(io.Discard) })
		return time.Since(began)
	}
	few, many := took(10_000), took(100_000)
	for range 2 {
		if many > 40*few { // another process may have slowed it down
			few, many = max(few, took(10_000)), min(many, took(100_000))
		}
	}
	if many > 40*few {
		t.Errorf("10,000 items take %s, and 100,000 %s: want some ten times as long", few, many)
	}
}
