package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

func needs(t *testing.T) {
	t.Helper()
	if needs := lab.RealNodeNeeds(); needs != "" {
		t.Skip("a real node needs " + needs)
	}
}

func load(t *testing.T) (scenarios []Scenario) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(strings.TrimSuffix(filepath.Base(file), ".yaml"), string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scenarios = append(scenarios, s)
	}
	return scenarios
}

// crowded applies outside nightly runs.
const crowded = 50

// TestScenarios plays completing scenarios on one node and hanging ones on another; scenarios that break their
// node have their own.
func TestScenarios(t *testing.T) {
	scenarios := load(t)
	needs(t)
	g, err := scenario.PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	var mu sync.Mutex
	var outcomes []Outcome
	var off []Scenario // may have been disturbed by others
	t.Cleanup(func() { // before the lab stops
		var table strings.Builder
		Tables(&table, outcomes)
		t.Log("\n" + table.String())
		if path := os.Getenv("TABLES"); path != "" {
			if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	// Nothing is certain for the neighbours of hanging scenarios.
	shared := map[string]func() (*lab.RealNode, error){}
	for reality, name := range map[string]string{scenario.Completes: "shared", scenario.Hangs: "stuck"} {
		shared[reality] = sync.OnceValues(func() (*lab.RealNode, error) { return g.StartRealNode(t.Context(), name) })
	}
	play := func(t *testing.T, s Scenario, ready func()) {
		t.Helper()
		if s.Copies > crowded && !lab.Nightly() {
			t.Skip("so many pods take a node for minutes: make nightly plays it")
		}
		start := shared[s.Reality]
		switch {
		case s.Kernel:
			start = func() (*lab.RealNode, error) { return startKernelNode(t, g, s.Name) }
		case s.Own:
			start = func() (*lab.RealNode, error) { return g.StartRealNode(t.Context(), s.Name) }
		}
		node, err := start()
		if err != nil {
			t.Fatal(err)
		}
		if s.Own || s.Kernel {
			t.Cleanup(func() {
				if err := node.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		o := Play(t.Context(), g, node, s, ready)
		if s.Shape != "" && o.Err == nil {
			switch late := near(o); {
			case late != nil && len(o.Wrong) == 0 && !s.again: // its neighbours may have disturbed it
				t.Log(late, "- once more, alone")
				mu.Lock()
				off = append(off, s)
				mu.Unlock()
				return
			case late != nil:
				o.Wrong = append(o.Wrong, late.Error())
			}
		}
		mu.Lock()
		outcomes = append(outcomes, o)
		mu.Unlock()
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if len(o.Wrong) > 0 {
			t.Errorf("%s\nit was predicted that it %s; it %s after %.1fs\n- %s", s.About, o.Predicted, o.Real, o.Took.Seconds(), strings.Join(o.Wrong, "\n- "))
		}
	}
	// Setting up needs the machine, waiting does not. Measured scenarios must not wait for the machine.
	setUp, measured := make(chan struct{}, 4), make(chan struct{}, 6)
	own := make(chan struct{}, nodesAtOnce(t))
	t.Run("faults", func(t *testing.T) {
		for _, s := range scenarios {
			if s.Shape == "" && !s.Alone {
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					if s.Own {
						own <- struct{}{}
						t.Cleanup(func() { <-own }) // last of all
					}
					setUp <- struct{}{}
					done := sync.OnceFunc(func() { <-setUp })
					t.Cleanup(done)
					play(t, s, done)
				})
			}
		}
	})
	t.Run("shapes", func(t *testing.T) {
		for _, s := range scenarios {
			if s.Shape != "" {
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					measured <- struct{}{}
					defer func() { <-measured }()
					play(t, s, func() {})
				})
			}
		}
	})
	t.Run("shapes", func(t *testing.T) { // "shapes#01", so that a pattern for the first group matches this one
		for _, s := range off {
			again, err := s.Again()
			if err != nil {
				t.Fatal(err)
			}
			t.Run(s.Name, func(t *testing.T) { play(t, again, func() {}) })
		}
	})
	for _, s := range off {
		if !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Scenario.Name == s.Name }) {
			t.Errorf("%s was off beside others, and was not played alone: select TestScenarios/shapes/%[1]s", s.Name)
		}
	}
	for _, s := range scenarios {
		if s.Alone {
			t.Run(s.Name, func(t *testing.T) { play(t, s, func() {}) })
		}
	}
}

// startKernelNode needs NFS=1: a kernel with an NFS client is slow, and beside other tests it misses every
// deadline.
func startKernelNode(t *testing.T, g *scenario.Guarded, name string) (*lab.RealNode, error) {
	t.Helper()
	if os.Getenv("NFS") == "" {
		t.Skip("a kernel in user mode wants the machine for itself: make test-nfs plays it")
	}
	if needs := lab.KernelNodeNeeds(); needs != "" {
		t.Skip("a node with a kernel of its own needs " + needs)
	}
	programs, err := lab.BuildNFSServer(t.Context(), t.Output())
	if err != nil {
		return nil, err
	}
	node, err := g.StartKernelNode(t.Context(), name)
	if err != nil {
		return nil, err
	}
	return node, node.ImportProgram(t.Context(), "lab.local/nfs-server:1", filepath.Join(programs, "nfs-server"))
}

// nodesAtOnce bounds scenarios' own nodes. The kernel limits inotify instances per user (inotify(7)), and a
// kubelet without one exits; beyond eight nodes per core, kubelets take all processor time.
func nodesAtOnce(t *testing.T) int {
	t.Helper()
	const file = "/proc/sys/fs/inotify/max_user_instances"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	// A node takes about ten, and everything else here 68: of the usual 128, six nodes are left.
	return max(1, min((limit-68)/10, 8*runtime.NumCPU()))
}

// near allows 2 s or 20 %, whichever is larger; no estimate counts as 0. A namespace may be deleted up to 5 s
// earlier, because its controller looks again after that time
// (pkg/controller/namespace/namespace_controller.go, namespaceDeletionGracePeriod) and its last pod may be
// deleted just before or just after.
func near(o Outcome) error {
	off := o.Took.Seconds() - float64(o.Estimate)
	bound := max(2, 0.2*float64(o.Estimate))
	earlier := bound
	if strings.HasPrefix(o.Scenario.Delete, "namespace ") {
		earlier += 5
	}
	if off < -earlier || off > bound {
		return fmt.Errorf("the estimate is %d s, and it took %.1f s", o.Estimate, o.Took.Seconds())
	}
	return nil
}
