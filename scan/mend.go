package scan

import (
	"context"
	"maps"
	"slices"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/policies"
)

const (
	// maxMended bounds the causes that are removed one by one, and maxAgain the evaluations for all.
	maxMended, maxAgain = 20, 20_000
)

// mend evaluates each broken cause's objects without it, and all blocked objects without any broken cause.
func (s *Scan) mend(ctx context.Context, engine answer.Evaluator, answers []reply, held map[string][]int, options map[string]any) {
	budget := maxAgain
	var broken []*Cause
	together := map[int]bool{}
	for i := range s.Causes {
		c := &s.Causes[i]
		if c.Class != policies.Broken || !c.removable() {
			continue
		}
		broken = append(broken, c)
		for _, n := range held[c.ID] {
			together[n] = true
		}
	}
	for i, c := range broken {
		if i == maxMended || len(held[c.ID]) > budget {
			break
		}
		budget -= len(held[c.ID])
		c.Mended = again(ctx, engine, answers, held[c.ID], options, c)
		others := s.beside(c, broken)
		if c.Mended == nil || c.Mended.Free > 0 || len(others) == 0 || len(held[c.ID]) > budget {
			continue
		}
		budget -= len(held[c.ID])
		if m := again(ctx, engine, answers, held[c.ID], options, append(others, c)...); m != nil && m.Free > 0 {
			c.Mended = m
			for _, other := range others {
				m.With = append(m.With, other.ID)
			}
		}
	}
	switch {
	case len(broken) == 1:
		s.Mended = broken[0].Mended
	case len(broken) > 1 && len(together) <= budget:
		s.Mended = again(ctx, engine, answers, slices.Sorted(maps.Keys(together)), options, broken...)
	}
}

// beside returns the set of other causes that most often block the objects of c.
func (s *Scan) beside(c *Cause, some []*Cause) (others []*Cause) {
	counts, sets := map[string]int{}, map[string][]*Cause{}
	best := ""
	for _, item := range s.Items {
		holds := func(cause *Cause) bool {
			return slices.ContainsFunc(item.HeldBy, func(h answer.Hold) bool { return h.Cause == cause.ID })
		}
		if !holds(c) {
			continue
		}
		key, with := "", []*Cause(nil)
		for _, other := range some {
			if other != c && holds(other) {
				key, with = key+other.ID+" ", append(with, other)
			}
		}
		sets[key] = with
		if counts[key]++; counts[key] > counts[best] {
			best = key
		}
	}
	return sets[best]
}

// again evaluates questions without causes; nil if interrupted.
func again(ctx context.Context, engine answer.Evaluator, answers []reply, which []int, options map[string]any, causes ...*Cause) *Mended {
	byPlace := map[*Place][]candidate{}
	for _, i := range which {
		q := answers[i].candidate
		byPlace[q.place] = append(byPlace[q.place], q)
	}
	m := &Mended{Objects: len(which)}
	for place, questions := range byPlace {
		replies, err := place.without(ctx, engine, questions, options, causes)
		if err != nil {
			return nil
		}
		for _, a := range replies {
			switch {
			case !a.answered:
				return nil
			case a.item.Verdict == policies.Completes || a.item.Symptoms():
				m.Free++
			case a.item.Verdict == policies.Unknown:
				m.Unknown++
			case len(m.StillHeld) < maxNames:
				m.StillHeld = append(m.StillHeld, a.item.Target.Ref())
			}
		}
	}
	return m
}

// removable reports whether the facts can be evaluated without the cause.
func (c *Cause) removable() bool {
	if len(c.Finalizers) > 0 {
		return c.owned
	}
	if c.Object == nil {
		return false
	}
	switch c.Object.Resource {
	case apiservices, validating, mutating, definitions, nodes, csinodes:
		return true
	}
	return false
}
