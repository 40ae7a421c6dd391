package scenario

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/test/lab"
)

// crowded is done when the scenarios that break their cluster have ended: other clusters then take their place.
var crowded sync.WaitGroup

// TestScenarios plays every scenario, in parallel in two clusters (-short: the quick ones, in one); those that
// affect a whole cluster run one by one in four others. REPEAT=N plays N times only those of the latter that
// depend on the order in which a namespace is emptied. With DELETE=fresh, termguard delete deletes, if the plan
// has no step for a person; with DELETE=stuck, kubectl delete ran before. With DELETE=beside, it runs with each
// flag, and no object changes that was not named.
func TestScenarios(t *testing.T) {
	crowded.Add(1)
	quiet := sync.OnceFunc(crowded.Done)
	t.Cleanup(quiet)
	t.Parallel()
	scenarios, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool { return !s.Quick })
	}
	repeat := 1
	if text := os.Getenv("REPEAT"); text != "" {
		if repeat, err = strconv.Atoi(text); err != nil {
			t.Fatalf("REPEAT: %v", err)
		}
		scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool { return !s.ordered() })
	}
	by, err := deleting()
	if err != nil {
		t.Fatal(err)
	}
	if by == Stuck || by == Fresh {
		scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool { return !s.deletable() })
	}
	var mu sync.Mutex
	var outcomes []Outcome
	t.Cleanup(func() {
		var table strings.Builder
		switch by {
		case "":
			Matrix(&table, outcomes)
		case Beside:
			Harms(&table, outcomes)
			if err := besidePage(outcomes); err != nil {
				t.Error(err)
			}
		default:
			Deletions(&table, outcomes)
		}
		if repeat > 1 {
			Tally(&table, outcomes)
		}
		t.Log("\n" + table.String())
		if path := os.Getenv("MATRIX"); path != "" {
			if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	runs, err := newRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runs.write(outcomes); err != nil {
			t.Error(err)
		}
	})
	play := func(t *testing.T, g *Guarded, s Scenario, ready func()) {
		t.Helper()
		if !runs.serves(s) {
			ready()
			t.Skipf("needs Kubernetes %s; this is %s", s.Since, lab.Version)
		}
		for range repeat {
			o := g.Play(t.Context(), runs.scenario(s), ready)
			mu.Lock()
			outcomes = append(outcomes, o)
			mu.Unlock()
			if o.Err != nil {
				t.Error(o.Err)
			}
			if len(o.Wrong) > 0 {
				t.Errorf("%s\npredicted %s; outcome %s\n- %s\ntermguard's answer:\n  %s", s.About, o.Predicted, o.Real, strings.Join(o.Wrong, "\n- "), strings.Join(o.Warnings, "\n  "))
			}
		}
	}
	guard := func(t *testing.T) *Guarded {
		t.Helper()
		g, err := PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Stop)
		if g.by = by; by == Beside {
			if err := g.standBy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	var alone, together, software []Scenario
	for _, s := range scenarios {
		switch {
		case s.Exclusive:
			alone = append(alone, s)
		case len(s.Live.Programs) > 0:
			software = append(software, s)
		default:
			together = append(together, s)
		}
	}
	const labs = 4 // an idle one takes half a GB of memory, and little of a core
	var breaking sync.WaitGroup
	for first := range min(labs, len(alone)) {
		t.Run("one by one", func(t *testing.T) {
			breaking.Add(1) // not before: -run may leave it out
			t.Cleanup(breaking.Done)
			t.Parallel()
			g := guard(t)
			for i := first; i < len(alone); i += labs {
				t.Run(alone[i].Name, func(t *testing.T) { play(t, g, alone[i], func() {}) })
			}
		})
	}
	go func() {
		breaking.Wait()
		quiet()
	}()
	size := waveSize
	if by == Beside {
		size /= 4
	}
	sides := 2 // one is set up while the other is watched
	if testing.Short() {
		sides = 1
	}
	for side := range slices.Chunk(together, len(together)/sides+1) {
		t.Run("side by side", func(t *testing.T) {
			t.Parallel()
			g := guard(t)
			w, n := &wave{}, 0
			for _, s := range side {
				t.Run(s.Name, func(t *testing.T) {
					if n++; n > size {
						w, n = &wave{before: w}, 1
					}
					w := w
					w.settingUp.Add(1)
					w.playing.Add(1)
					t.Cleanup(w.playing.Done)
					t.Parallel()
					done := sync.OnceFunc(w.settingUp.Done)
					t.Cleanup(done)
					if w.before != nil {
						w.before.playing.Wait()
					}
					play(t, g, s, func() { done(); w.settingUp.Wait() })
				})
			}
		})
	}
	// A cluster runs one of each program, so its scenarios take turns.
	for half := range slices.Chunk(software, len(software)/2+1) {
		t.Run("real software", func(t *testing.T) {
			t.Parallel()
			crowded.Wait()
			g := guard(t)
			var settingUp sync.WaitGroup
			components := map[string]*component{}
			for _, s := range half {
				t.Run(s.Name, func(t *testing.T) {
					c := components[s.Live.Programs[0].Component]
					if c == nil {
						settingUp.Add(1) // not before: -run may leave it out
						c = &component{up: sync.OnceFunc(settingUp.Done)}
						components[s.Live.Programs[0].Component] = c
					}
					t.Parallel()
					c.turn.Lock()
					defer c.turn.Unlock()
					t.Cleanup(c.up)
					play(t, g, s, func() { c.up(); settingUp.Wait() })
				})
			}
		})
	}
}

// With more at once on two cores, the measured times are the machine's.
const waveSize = 20

type wave struct {
	before             *wave
	settingUp, playing sync.WaitGroup
}

// component is published software that a cluster runs once.
type component struct {
	turn sync.Mutex
	up   func() // called once it is installed
}

// TestScoring checks that a scenario that is wrong in any way fails.
func TestScoring(t *testing.T) {
	hang := Scenario{Expect: []string{Hangs}, Reality: Hangs, Blocker: "x.io/f"}
	ok := Scenario{Expect: []string{Completes}, Reality: Completes}
	tests := map[string]struct {
		reason   string
		scenario Scenario
		real     string
		warnings []string
		wrong    int
	}{
		"right":           {"predicted, named and true", hang, Hangs, []string{"will hang: x.io/f"}, 0},
		"silent and true": {"no finding, and it completes", ok, Completes, nil, 0},
		"miss":            {"silence before a hang is unfair, a miss, and names nothing", hang, Hangs, nil, 3},
		"false alarm":     {"a hang that does not come is unfair and a false alarm", ok, Completes, []string{"will hang: x"}, 2},
		"wrong blocker":   {"right for the wrong reason is wrong", hang, Hangs, []string{"will hang: y.io/g"}, 1},
		"hedged":          {"may hang is neither alarm nor miss, but wrong here", hang, Hangs, []string{"may hang: x.io/f"}, 1},
		"other reality":   {"the scenario itself must be right about the world", hang, Completes, []string{"will hang: x.io/f"}, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Outcome{Scenario: tc.scenario, Predicted: Verdict(tc.warnings), Real: tc.real, Warnings: tc.warnings}
			o.judge()
			if len(o.Wrong) != tc.wrong {
				t.Errorf("%s\nwant %d things wrong, got %q", tc.reason, tc.wrong, o.Wrong)
			}
		})
	}
}

// TestOtherWays checks that an answer fails if it contradicts the outcome, or differs.
func TestOtherWays(t *testing.T) {
	item := func(certainty policies.Certainty, message string) answer.Item {
		verdict := policies.Verdict(Hangs)
		if certainty != policies.Will {
			verdict = AtRisk
		}
		return answer.Item{Verdict: verdict, Findings: []policies.Finding{{Policy: "p", Certainty: certainty, Message: message}}}
	}
	hang := item(policies.Will, "x.io/f since 3 s")
	snapshot := &cluster.World{}
	webhook := prediction{way: asWebhook, report: hang}
	tests := map[string]struct {
		reason  string
		answers []prediction
		wrong   int
	}{
		"same":           {"a moment later, the words may differ", []prediction{webhook, {checkLive, item(policies.Will, "x.io/f since 4 s"), nil, asWebhook}}, 0},
		"less sure":      {"it contradicts the outcome, and differs", []prediction{webhook, {checkLive, item(policies.May, "x.io/f"), snapshot, asWebhook}}, 2},
		"all clear":      {"that is unfair, a miss, names nothing, and differs", []prediction{webhook, {scanLive, answer.Item{Verdict: Completes}, snapshot, asWebhook}}, 4},
		"unknown":        {"an answer over the whole cluster must be certain, and name the blocker", []prediction{webhook, {checkLive, answer.Item{Verdict: Unknown}, snapshot, asWebhook}}, 3},
		"not reported":   {"a snapshot may lack the facts", []prediction{{checkSnapshot, answer.Item{Verdict: Unknown}, snapshot, ""}}, 0},
		"in other words": {"of one world, scan says what check says to the word", []prediction{{checkSnapshot, hang, snapshot, ""}, {scanSnapshot, item(policies.Will, "x.io/f since 4 s"), snapshot, checkSnapshot}}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Outcome{Scenario: Scenario{Expect: []string{Hangs}, Reality: Hangs, Blocker: "x.io/f"}, Real: Hangs}
			for i := range tc.answers {
				if tc.answers[i].world == nil {
					tc.answers[i].world = new(cluster.World)
				}
			}
			if wrong := o.others(tc.answers); len(wrong) != tc.wrong {
				t.Errorf("%s\nwant %d things wrong, got %q", tc.reason, tc.wrong, wrong)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	got := Warnings("Warning: something else\nWarning: termguard: will hang: x\n\nnamespace \"a\" deleted\n")
	if diff := cmp.Diff([]string{"will hang: x"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Parallel, because each scenario waits until all are set up.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "256"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
