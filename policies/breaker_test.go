package policies

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestBreaker sets a policy aside once it is late in a row and in more than one
// namespace, tries it again, and waits longer each time.
func TestBreaker(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var told []time.Duration
	b := NewBreaker([]string{"slow"}, func() time.Time { return now }, func(_ string, until time.Time) {
		if until.IsZero() {
			told = append(told, 0)
			return
		}
		told = append(told, until.Sub(now))
	})
	slow := Policy{ID: "slow"}
	late := func(places ...string) {
		for _, place := range places {
			b.late("slow", place)
		}
	}
	late("a", "a", "a", "a", "a", "a", "a", "a")
	if b.rests("slow") {
		t.Error("a tenant alone had it set aside")
	}
	late("b")
	if !b.rests("slow") || len(b.Aside()) != 1 {
		t.Error("late in two namespaces, and asked all the same")
	}
	now = now.Add(shortestOff)
	if b.rests("slow") || len(b.Aside()) != 0 {
		t.Error("it is not tried again")
	}
	late("a", "b")
	now = now.Add(2 * shortestOff)
	late("a")
	b.inTime(Policy{ID: "other"}, slow)
	late("a", "b", "a", "b")
	b.inTime(slow)
	for range 20 {
		late("a", "b", "a", "b", "a")
		now = now.Add(longestOff)
	}
	b.late("embedded", "a")
	for range 10 {
		b.late("embedded", "b")
	}
	if b.rests("embedded") {
		t.Error("one that is not people's own is set aside")
	}
	if len(told) < 5 || !slices.Equal(told[:5], []time.Duration{shortestOff, 2 * shortestOff, 0, shortestOff, 2 * shortestOff}) || told[len(told)-1] != longestOff {
		t.Errorf("told of %v", told)
	}
	var none *Breaker
	none.late("slow", "a")
	none.inTime(slow)
	if none.rests("slow") || none.Aside() != nil {
		t.Error("no Breaker sets something aside")
	}
}

// TestSlowPolicyIsSetAside: one of exponential evaluation is named, leaves the others
// their time, and is not asked any more.
func TestSlowPolicyIsSetAside(t *testing.T) {
	breaker := NewBreaker([]string{"bad"}, time.Now, nil)
	const forever = `deny contains {"msg": "x"} if {
	n := numbers.range(1, 100000)
	count([1 | some a in n; some b in n; a + b == -1]) > 0
}`
	e := engineOf(t, EngineOptions{Deadline: 400 * time.Millisecond, Breaker: breaker}, files("bad/bad.rego", withBody("bad", forever), "good/good.rego", withBody("good", good)))
	ask := func(namespace string) Result {
		t.Helper()
		result, err := e.Evaluate(t.Context(), Delete, deleteNamespace(namespace, nil), Document{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	for n := range 100 { // on a busy machine, some say nothing about it
		namespace := []string{"a", "b"}[n%2]
		result := ask(namespace)
		if len(result.Aside) > 0 {
			if result.Aside[0] != "bad" || len(result.Errors) > 0 || len(result.Findings) != 1 || n < lateInARow {
				t.Errorf("after %d reviews: %+v", n, result)
			}
			return
		}
		var of PolicyError
		if len(result.Errors) == 0 || !errors.As(result.Errors[0], &of) {
			t.Fatalf("nothing failed: %+v", result)
		}
		if of.Policy == "bad" && !errors.Is(of, errLate) && !errors.Is(of, context.DeadlineExceeded) {
			t.Fatalf("it failed for another reason: %v", of)
		}
	}
	t.Error("it is never set aside")
}
