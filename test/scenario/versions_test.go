package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/termguard/termguard/test/lab"
)

// The table is between these lines of docs/support.md, and in Chinese.
const (
	versionsBegin = "<!-- made from test/scenario/versions.json: make versions -->\n"
	versionsEnd   = "<!-- end -->\n"
)

var brought = map[string]string{
	"1.33": "ServiceCIDR",
	"1.34": "ResourceClaim (DRA) and VolumeAttributesClass",
	"1.36": "MutatingAdmissionPolicy",
}

var versionsPages = map[string]struct {
	head, lacks, and, none, nothing string
	words                           *strings.Replacer
}{
	"docs/support.md":       {"| Kubernetes | scenarios played | as predicted | not as predicted | not played: it does not serve these in v1 |", "%s (%d scenarios)", ", ", "none", "nothing", strings.NewReplacer()},
	"docs/support.zh-CN.md": {"| Kubernetes | 跑过的场景 | 与预测一致 | 与预测不符 | 没有跑：它不以 v1 提供这些 |", "%s（%d 个场景）", "、", "无", "无", strings.NewReplacer(" and ", "和", " (", "（", ")", "）")},
}

func versionsTable(t *testing.T, page string, runs []*Run) string {
	t.Helper()
	words := versionsPages[page]
	var b strings.Builder
	b.WriteString(words.head + "\n| --- | --- | --- | --- | --- |\n")
	for _, r := range runs {
		var lacks []string
		for since, scenarios := range r.Lacks {
			if brought[since] == "" {
				t.Errorf("versions_test.go does not say what Kubernetes %s brought, which %q are about", since, scenarios)
			}
			lacks = append(lacks, fmt.Sprintf(words.lacks, words.words.Replace(brought[since]), len(scenarios)))
		}
		slices.Sort(lacks)
		if lacks == nil {
			lacks = []string{words.nothing}
		}
		wrong := strings.Join(r.Wrong, words.and)
		if wrong == "" {
			wrong = words.none
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s |\n", r.Version, r.Played, r.Played-len(r.Wrong), wrong, strings.Join(lacks, words.and))
	}
	return b.String()
}

// TestVersions compares the table in docs/support.md, and in Chinese, with the runs. UPDATE_GOLDEN=1 writes it.
func TestVersions(t *testing.T) {
	runs, err := readRuns(Versions)
	if err != nil {
		t.Fatal(err)
	}
	for name := range versionsPages {
		want := versionsTable(t, name, runs)
		file := filepath.Join(lab.Root(), name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(data), versionsBegin)
		is, after, ended := strings.Cut(rest, versionsEnd)
		switch {
		case !ok || !ended:
			t.Errorf("%s has no lines %q and %q", name, versionsBegin, versionsEnd)
		case is == want:
		case os.Getenv("UPDATE_GOLDEN") != "":
			if err := os.WriteFile(file, []byte(before+versionsBegin+want+versionsEnd+after), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is not current: run make versions; want\n%s", name, want)
		}
	}
}

func TestRunScenario(t *testing.T) {
	hang := Scenario{Policies: []string{"p"}, Expect: []string{Hangs}, Blocker: "b", Reality: Hangs, Remains: "namespace x", Plan: Restores, Cure: []string{"c"}}
	since := func(s Scenario, hangs, sure string) Scenario {
		s.HangsSince, s.SureSince = hangs, sure
		return s
	}
	race := hang
	race.Expect, race.Reality = []string{AtRisk}, Varies
	sure := Scenario{Expect: []string{Completes}, Reality: Completes, RiskPolicies: []string{"p"}, SureSince: "1.33"}
	risk := sure
	risk.Policies, risk.Expect, risk.Reality = []string{"p"}, []string{AtRisk}, Varies
	tests := map[string]struct {
		reason         string
		scenario, want Scenario
	}{
		"as it is":          {"no versions are mentioned", hang, hang},
		"sure later":        {"it is a race before", since(hang, "", "1.33"), since(race, "", "1.33")},
		"safe later":        {"a policy sees the risk that there is before", sure, risk},
		"hangs later":       {"it completes before, and nothing is to be named or cured", since(hang, "1.31", ""), since(Scenario{Expect: []string{Completes}, Reality: Completes}, "1.31", "")},
		"hangs for as long": {"the version itself counts", since(hang, "1.30", "1.30"), since(hang, "1.30", "1.30")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Run{at: version.MustParseSemantic("v1.30.14")}
			if diff := cmp.Diff(tc.want, r.scenario(tc.scenario)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", tc.reason, diff)
			}
		})
	}
}
