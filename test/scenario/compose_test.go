package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
)

// TestComposed explores new worlds for as long as COMPOSE_FOR says, by a seed that it prints and COMPOSE_SEED
// repeats. With -short it is always the same batch, so that a failure is due to the change at hand.
// COMPOSE_SHRINK shrinks a world that fails.
func TestComposed(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	crowded.Wait()
	// Hanging objects of one world are retried for ever and slow down the rest.
	const batch, size, batchesPerLab, short = 16, 5, 8, 1
	lasting, seed := 10*time.Minute, uint64(time.Now().UnixNano())
	if !lab.Nightly() {
		seed = 1
	}
	if text := os.Getenv("COMPOSE_FOR"); text != "" {
		var err error
		if lasting, err = time.ParseDuration(text); err != nil {
			t.Fatalf("COMPOSE_FOR: %v", err)
		}
	}
	if text := os.Getenv("COMPOSE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("COMPOSE_SEED: %v", err)
		}
	}
	t.Logf("COMPOSE_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var g *Guarded
	t.Cleanup(func() {
		if g != nil {
			g.Stop()
		}
	})
	tally := map[string]int{}
	over := func(n int, began time.Time) bool {
		if !lab.Nightly() {
			return n == short
		}
		return time.Since(began) >= lasting
	}
	for began, n := time.Now(), 0; !over(n, began); n++ {
		if n%batchesPerLab == 0 {
			if g != nil {
				g.Stop()
			}
			var err error
			if g, err = PatientGuard(t.Context(), lab.Options{Progress: t.Output()}); err != nil {
				t.Fatal(err)
			}
		}
		var settingUp, exploring sync.WaitGroup
		outcomes := make([]Outcome, batch)
		worlds := make([]Composed, batch)
		around, err := g.surround(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		befall := sync.OnceValue(func() error {
			settingUp.Wait()
			return g.befall(t.Context(), around)
		})
		settingUp.Add(batch)
		for i := range batch {
			worlds[i] = Compose(r, fmt.Sprintf("w%d-%d", n, i), size)
			worlds[i].Mortal = around.name
			exploring.Go(func() {
				done := sync.OnceFunc(settingUp.Done)
				defer done()
				outcomes[i] = g.Explore(t.Context(), worlds[i], func() error { done(); return befall() })
			})
		}
		exploring.Wait()
		if err := g.clear(t.Context(), around); err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			if o.Err != nil {
				t.Errorf("%v: %v", worlds[i], o.Err)
				continue
			}
			tally[o.Predicted+", "+o.Real]++
			if len(o.Wrong) == 0 {
				continue
			}
			world := worlds[i]
			if os.Getenv("COMPOSE_SHRINK") != "" && around == (surroundings{}) {
				world = g.Shrink(t.Context(), world, o.Wrong[0])
			}
			t.Errorf("%s: predicted %s, outcome %s\ntermguard's answer:\n  %s\n%v\nshrunk to %v:\n%s", o.Wrong[0], o.Predicted, o.Real,
				strings.Join(o.Warnings, "\n  "), worlds[i], world, strings.Join(world.render().objects, "\n---\n"))
		}
		played := 0
		for _, n := range tally {
			played += n
		}
		t.Logf("%d worlds so far; predicted, really: %v", played, tally)
	}
}
