package teardown

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	gocmp "github.com/google/go-cmp/cmp/cmpopts"
)

func TestOrder(t *testing.T) {
	at := func(ranks ...Rank) func(int) Rank { return func(i int) Rank { return ranks[i] } }
	for name, tc := range map[string]struct {
		reason string
		n      int
		edges  []edge
		rank   func(int) Rank
		waves  [][]int
		left   []int
	}{
		"no edge":                  {"what is of one kind goes side by side", 3, nil, at(custom, custom, custom), [][]int{{0, 1, 2}}, nil},
		"ranks":                    {"kinds go in their order", 3, nil, at(nodes, custom, namespaces), [][]int{{1}, {2}, {0}}, nil},
		"an edge against the rank": {"what has to go first does, whatever it is", 2, []edge{{first: 1, then: 0}}, at(custom, volumes), [][]int{{1}, {0}}, nil},
		"a chain of one kind":      {"each waits for the one before", 3, []edge{{first: 0, then: 1}, {first: 1, then: 2}}, at(custom, custom, custom), [][]int{{0}, {1}, {2}}, nil},
		"a circle":                 {"two that wait for each other have no order, nor has what waits for them", 4, []edge{{first: 0, then: 1}, {first: 1, then: 0}, {first: 1, then: 2}}, at(custom, custom, namespaces, custom), [][]int{{3}}, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			waves, left := order(tc.n, tc.edges, tc.rank)
			if diff := cmp.Diff([][][]int{tc.waves, {tc.left}}, [][][]int{waves, {left}}, gocmp.EquateEmpty()); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCircle(t *testing.T) {
	edges := []edge{{first: 0, then: 1}, {first: 1, then: 2}, {first: 2, then: 0}, {first: 2, then: 3}}
	for _, left := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}} {
		round := circle(left, edges)
		if len(round) != 3 {
			t.Fatalf("got %v, want the three edges", round)
		}
		for i, e := range round {
			if next := round[(i+1)%len(round)]; e.then != next.first {
				t.Errorf("%v does not end where %v begins", e, next)
			}
		}
	}
	if round := circle(nil, edges); round != nil {
		t.Errorf("nothing is left, and %v is a circle", round)
	}
}

// FuzzOrder orders anything: each thing has one place, every edge is kept, no wave could
// have come earlier, and only what is in a circle or behind one is left.
func FuzzOrder(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, byte(seed*4), byte(seed*7))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size, many byte) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := int(size)
		var edges []edge
		for range many {
			if n > 1 {
				if e := (edge{first: random.IntN(n), then: random.IntN(n)}); e.first != e.then {
					edges = append(edges, e)
				}
			}
		}
		ranked := make([]Rank, n)
		for i := range ranked {
			ranked[i] = Rank(random.IntN(len(ranks)))
		}
		waves, left := order(n, edges, func(i int) Rank { return ranked[i] })
		at := make([]int, n)
		for i := range at {
			at[i] = -1
		}
		for w, wave := range waves {
			for _, i := range wave {
				if at[i] >= 0 {
					t.Fatalf("%d has two places", i)
				}
				at[i] = w
			}
		}
		for _, i := range left {
			if at[i] >= 0 {
				t.Fatalf("%d has a place, and is left", i)
			}
			at[i] = n + 1
			if !slices.ContainsFunc(edges, func(e edge) bool { return e.then == i && slices.Contains(left, e.first) }) {
				t.Fatalf("%d is left, and waits for nothing that is", i)
			}
		}
		if slices.Contains(at, -1) {
			t.Fatal("something has no place")
		}
		for _, e := range edges {
			if at[e.first] >= at[e.then] && at[e.first] <= n {
				t.Fatalf("%v: places %d and %d", e, at[e.first], at[e.then])
			}
		}
		if round := circle(left, edges); len(left) > 0 && len(round) < 2 {
			t.Fatalf("%v is left without a circle", left)
		}
	})
}
