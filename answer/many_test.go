package answer

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// TestManyItems checks that an answer about very many objects, each with a blocker and a step of its own, takes
// time and text in proportion to their number.
func TestManyItems(t *testing.T) {
	race.Skip(t)
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
			at := time.Now()
			do()
			t.Logf("%d items: %s: %s", n, what, time.Since(at))
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
	few, many := took(2000), took(20_000)
	for range 2 { // another process may have slowed it down
		few, many = min(few, took(2000)), min(many, took(20_000))
	}
	if many > 40*few {
		t.Errorf("2,000 items take %s, and 20,000 %s: want some ten times as long", few, many)
	}
}
