package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/termguard/termguard/test/lab"
)

// Versions has results by version of Kubernetes.
const Versions = "versions.json"

type Run struct {
	Version string `json:"version"`
	// Lacks are scenarios without objects in that version, by the version that introduced them.
	Played int                 `json:"played"`
	Wrong  []string            `json:"wrong,omitempty"`
	Lacks  map[string][]string `json:"lacks,omitempty"`

	mu sync.Mutex
	at *version.Version
}

func newRun() (*Run, error) {
	at, err := version.ParseSemantic(lab.Version)
	return &Run{Version: lab.Version, Lacks: map[string][]string{}, at: at}, err
}

func (r *Run) serves(s Scenario) bool {
	if s.Since == "" || r.at.AtLeast(version.MustParseGeneric(s.Since)) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lacks[s.Since] = append(r.Lacks[s.Since], s.Name)
	slices.Sort(r.Lacks[s.Since])
	return false
}

func (r *Run) scenario(s Scenario) Scenario {
	before := func(since string) bool { return since != "" && r.at.LessThan(version.MustParseGeneric(since)) }
	switch {
	case before(s.HangsSince):
		s.Expect, s.Reality = []string{Completes}, Completes
		s.Policies, s.Blocker, s.Remains, s.Plan, s.Cure = nil, "", "", "", nil
	case before(s.SureSince):
		s.Expect, s.Reality = []string{AtRisk}, Varies
		s.Policies = append(s.Policies, s.RiskPolicies...)
	}
	return s
}

func (r *Run) write(outcomes []Outcome) error {
	file := os.Getenv("VERSIONS")
	if file == "" {
		return nil
	}
	for _, o := range outcomes {
		if r.Played++; o.Err != nil || len(o.Wrong) > 0 {
			r.Wrong = append(r.Wrong, o.Scenario.Name)
		}
	}
	slices.Sort(r.Wrong)
	runs, err := readRuns(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	runs = append(slices.DeleteFunc(runs, func(other *Run) bool { return other.Version == r.Version }), r)
	slices.SortFunc(runs, func(a, b *Run) int { return strings.Compare(a.Version, b.Version) })
	data, err := json.MarshalIndent(runs, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func readRuns(file string) (runs []*Run, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &runs); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return runs, nil
}
