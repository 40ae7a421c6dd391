package answer

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// TestOwnPolicy checks a snapshot against custom rules: the result of a rule that reads labels is
// unknown, whether it requires a label or the lack of one; the result of a rule that reads the name
// is known.
func TestOwnPolicy(t *testing.T) {
	race.Skip(t)
	for name, tc := range map[string]struct {
		rule string
		want policies.Verdict
	}{
		"Label":   {`input.request.oldObject.metadata.labels.keep == "yes"`, policies.Unknown},
		"NoLabel": {`not input.request.oldObject.metadata.labels.owner`, policies.Unknown},
		"Name":    {`input.request.name == "plain"`, policies.Refused},
		"Other":   {`input.request.name == "other"`, policies.Completes},
	} {
		t.Run(name, func(t *testing.T) {
			engine := engineWith(t, tc.rule)
			world := worldOf(t, "cluster.yaml")
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "plain"}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), engine, world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != tc.want {
				t.Errorf("verdict %s, want %s: %q %+v", report.Verdict, tc.want, report.Unseen, report.Findings)
			}
			if unseen := strings.Join(policies.UnseenTexts(report.Unseen), "\n"); (tc.want == policies.Unknown) != strings.Contains(unseen, "policy own: not evaluated") {
				t.Errorf("unseen: %s", unseen)
			}
		})
	}
}

// TestOwnPolicyOfWhoAsks checks custom rules that read the user of the request: if the user is
// unknown, so is their result.
func TestOwnPolicyOfWhoAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		rule, user string
		want       policies.Verdict
	}{
		"Nobody":   {`input.request.userInfo.username == "jane"`, "", policies.Unknown},
		"NotThey":  {`not "sre" in object.get(input.request.userInfo, "groups", [])`, "", policies.Unknown},
		"APerson":  {`request.person`, "", policies.Unknown},
		"Jane":     {`input.request.userInfo.username == "jane"`, "jane", policies.Refused},
		"John":     {`input.request.userInfo.username == "jane"`, "john", policies.Completes},
		"NotRead":  {`input.request.oldObject.metadata.labels.keep == "yes"`, "", policies.Completes},
		"Whatever": {`some key, _ in input.request; key == "never"`, "", policies.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			engine := engineWith(t, tc.rule)
			world := worldOf(t, "cluster.yaml")
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "plain"}})
			if err != nil {
				t.Fatal(err)
			}
			subject.Stub, subject.User.Username = "", tc.user
			report, err := ask(t.Context(), engine, world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != tc.want {
				t.Errorf("verdict %s, want %s: %q %+v", report.Verdict, tc.want, report.Unseen, report.Findings)
			}
			if unseen := strings.Join(policies.UnseenTexts(report.Unseen), "\n"); (tc.want == policies.Unknown) != strings.Contains(unseen, "policy own: not evaluated: it reads the user") {
				t.Errorf("unseen: %s", unseen)
			}
		})
	}
}

// TestForeignCauses checks causes of a custom rule that name what is not the target's: the answer shows them, folded,
// and termguard delete takes none of their steps.
func TestForeignCauses(t *testing.T) {
	race.Skip(t)
	const step = `"steps": [{"kind": "remove", "do": "Delete pod a", "action": {"verb": "delete", "objects": ["pods/a"], "namespace": "other"}}]`
	for name, tc := range map[string]struct {
		reason, finding string
		findings        int
		says            string
	}{
		"Namespace": {"an object of another namespace", `deny contains {"msg": "pod a blocks it", "cause": {"object": {"resource": "pods", "namespace": "other", "name": "a"}}, ` + step + `}`, 1, "pod a blocks it"},
		"NoNode":    {"a node that does not exist", `deny contains {"msg": "node none is down", "cause": {"object": {"resource": "nodes", "name": "none"}, "node": "none"}, ` + step + `}`, 1, "node none is down"},
		"Many":      {"64 causes", `deny contains {"msg": sprintf("pod %d blocks it", [n]), "cause": {"object": {"resource": "pods", "namespace": "other", "name": sprintf("p%d", [n])}}, "steps": [{"kind": "remove", "do": sprintf("Delete pod %d", [n]), "action": {"verb": "delete", "objects": [sprintf("pods/p%d", [n])], "namespace": "other"}}]} if some n in numbers.range(1, 64)`, 64, "and 61 more (-o full has each)"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, world := engineWith(t, "false }\n\n"+tc.finding+"\n\nnever if { false"), worldOf(t, "cluster.yaml")
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "plain"}})
			if err != nil {
				t.Fatal(err)
			}
			subject.Unseen = nil
			report, err := ask(t.Context(), engine, world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.all.Foresee(t.Context(), engine, world); err != nil {
				t.Fatal(err)
			}
			for _, s := range report.all.Plan {
				if s.Action != nil && s.Advice == "" {
					t.Errorf("%s: termguard delete would run %s", tc.reason, s.Command)
				}
			}
			text := report.all.Page(false).String()
			if lines := strings.Count(text, "\n"); len(report.Findings)+report.Omitted != tc.findings || !strings.Contains(text, tc.says) || lines > 40 {
				t.Errorf("%s: %d findings, %d omitted, %d lines:\n%s", tc.reason, len(report.Findings), report.Omitted, lines, text)
			}
		})
	}
}

// engineWith returns the policies of the binary and one custom rule.
func engineWith(t *testing.T, rule string) *policies.Engine {
	t.Helper()
	own := fstest.MapFS{"own/own.rego": {Data: []byte(strings.ReplaceAll(`# METADATA
# title: A rule
# description: What happens.
# related_resources:
#   - ref: https://example.com
# custom:
#   id: own
#   severity: medium
#   triggers: [delete]
#   needs: [input.request.oldObject.metadata.name]
#   remedy: Do it.
#   limits: None.
package termguard.own

import data.termguard.lib.request

deny contains {"kind": "forbidden", "msg": "no"} if { RULE }

named := request.name
`, "RULE", rule))}}
	set, err := policies.Load(policies.Embedded(), own)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}
