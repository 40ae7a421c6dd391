package teardown

import (
	"slices"
)

// An edge says that one thing has to be gone before another is deleted, by their places
// in a list, and why.
type edge struct {
	first, then int
	why         string
	plain       bool // it says no more than where a thing is
}

// order puts n things into waves: what is in one may be deleted at once, the next when all
// of it is gone. Of what may go, the things of the smallest rank do. What waits for itself,
// in a circle, and what waits for that, is left.
func order(n int, edges []edge, rank func(int) Rank) (waves [][]int, left []int) {
	waits, behind := make([]int, n), make([][]int, n)
	for _, e := range edges {
		waits[e.then]++
		behind[e.first] = append(behind[e.first], e.then)
	}
	ready := map[Rank][]int{}
	for i := range n {
		if waits[i] == 0 {
			ready[rank(i)] = append(ready[rank(i)], i)
		}
	}
	placed := make([]bool, n)
	for len(ready) > 0 {
		next := Rank(len(ranks))
		for r := range ready {
			next = min(next, r)
		}
		wave := ready[next]
		delete(ready, next)
		slices.Sort(wave)
		waves = append(waves, wave)
		for _, i := range wave {
			placed[i] = true
			for _, then := range behind[i] {
				if waits[then]--; waits[then] == 0 {
					ready[rank(then)] = append(ready[rank(then)], then)
				}
			}
		}
	}
	for i := range n {
		if !placed[i] {
			left = append(left, i)
		}
	}
	return waves, left
}

// circle is one among what is left: each has to be gone before the next, and the last before
// the first.
func circle(left []int, edges []edge) (found []edge) {
	if len(left) == 0 {
		return nil
	}
	among := map[int]bool{}
	for _, i := range left {
		among[i] = true
	}
	before := map[int]edge{}
	for _, e := range edges {
		if among[e.first] && among[e.then] {
			before[e.then] = e
		}
	}
	seen := map[int]int{}
	for at := left[0]; ; {
		e, waits := before[at]
		if !waits {
			return nil
		}
		if began, again := seen[at]; again {
			found = found[began:]
			slices.Reverse(found)
			return found
		}
		seen[at] = len(found)
		found = append(found, e)
		at = e.first
	}
}
