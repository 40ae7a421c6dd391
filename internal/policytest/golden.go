package policytest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/termguard/termguard/policies"
)

// GoldenFile records the findings in a policy's fixtures.
const GoldenFile = "findings.golden"

const goldenHead = "# The findings in each fixture, whole. Written by the tests: read the diff.\n"

// Golden builds a GoldenFile, a line for each part of each finding, without parts from METADATA.
type Golden struct {
	of  map[string]policies.Policy
	out strings.Builder
}

// NewGolden returns a Golden for the findings of a set of policies.
func NewGolden(set *policies.Set) *Golden {
	g := &Golden{of: map[string]policies.Policy{}}
	for _, p := range set.Policies() {
		g.of[p.ID] = p
	}
	g.out.WriteString(goldenHead)
	return g
}

func (g *Golden) line(depth int, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`)
	fmt.Fprintf(&g.out, "%s%s\n", strings.Repeat("  ", depth), text)
}

// Add adds the findings in a fixture.
func (g *Golden) Add(fixture string, result policies.Result) {
	g.line(0, "%s", fixture)
	for _, f := range result.Findings {
		g.line(1, "%s: %s [%s]", f.Says(), f.Message, f.Policy)
		if f.Cause != (policies.Cause{}) {
			g.line(2, "cause: %s", compact(f.Cause))
		}
		for _, o := range f.Objects {
			g.line(2, "object: %s %s", o.Resource, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
		}
		if f.Field != "" {
			g.line(2, "field: %s", f.Field)
		}
		for _, evidence := range f.Evidence {
			g.line(2, "evidence: %s", evidence)
		}
		if f.EstimateSeconds != nil {
			g.line(2, "estimate: %d s", *f.EstimateSeconds)
		}
		for _, step := range f.Steps {
			g.step(step)
		}
		if f.Remedy != g.of[f.Policy].Remedy && len(f.Steps) == 0 {
			g.line(2, "remedy: %s", f.Remedy)
		}
		if f.Manifest != g.of[f.Policy].Manifest {
			g.line(2, "manifest: %s", compact(f.Manifest))
		}
	}
	for _, unseen := range result.Unseen {
		g.line(1, "unseen: %s", unseen)
	}
	if result.Omitted > 0 {
		g.line(1, "omitted: %d", result.Omitted)
	}
}

func (g *Golden) step(s policies.Step) {
	g.line(2, "%s: %s", s.Kind, s.Do)
	if s.Hearsay != "" {
		g.line(3, "hearsay: %s", s.Hearsay)
	}
	if s.Command != "" {
		g.line(3, "$ %s", s.Command)
	}
	if s.Action != nil {
		g.line(3, "action: %s", compact(s.Action))
	}
}

func compact(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // plain fields, written to memory
	return strings.TrimSpace(out.String())
}

// String returns the text of the GoldenFile.
func (g *Golden) String() string { return g.out.String() }

// Differs describes the first difference from want, or "".
func (g *Golden) Differs(want string) string {
	expected, got := strings.Split(want, "\n"), strings.Split(g.String(), "\n")
	line := func(lines []string, i int) string {
		if i < len(lines) {
			return fmt.Sprintf("%q", lines[i])
		}
		return "nothing"
	}
	fixture := ""
	for i := range max(len(expected), len(got)) {
		if i < len(expected) && strings.HasSuffix(expected[i], ".yaml") {
			fixture = expected[i]
		}
		if have, expect := line(got, i), line(expected, i); have != expect {
			return fmt.Sprintf("%s:%d: (%s) want %s, found %s", GoldenFile, i+1, fixture, expect, have)
		}
	}
	return ""
}
