package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/internal/race"
)

func TestCheckFindings(t *testing.T) {
	race.Skip(t)
	cases := map[string]struct{ reason, body, want string }{
		"Good":       {"every key that there is", `deny contains {"msg": "x", "kind": "forbidden", "objects": [{"resource": "pods"}], "evidence": ["y"], "field": "z", "estimate_seconds": 1, "remedy": "r", "steps": [{"kind": "mend", "do": "x"}], "cause": {"title": "t", "finalizer": "f", "owner": {"name": "o", "state": "down"}}, "manifest": {"severity": "low"}}`, ""},
		"Unknowable": {"expressions over facts of any shape are left to the evaluation", `deny contains input.request.oldObject.metadata.annotations`, ""},
		"Set":        {"a set is a list", `deny contains {"msg": "x", "evidence": {"a" | true}}`, ""},
		"Text":       {"a text is no finding", `deny contains "it hangs"`, "bad/bad.rego:15: a member of deny: want an object with msg, got a string"},
		"OneOfTwo":   {"one rule of several", "deny contains {\"msg\": \"x\"}\n\ndeny contains 7", "a member of deny: want an object with msg, got a number"},
		"NoMessage":  {"no result", `warn contains {"objects": []}`, "a member of warn: msg is missing"},
		"Message":    {"a name from other engines", `warn contains {"message": "x"}`, `message: unknown key; did you mean "msg"?`},
		"Misspelt":   {"a key that does not exist", `warn contains {"msg": "x", "evidnce": []}`, `evidnce: unknown key; did you mean "evidence"?`},
		"Number":     {"a text is wanted", `warn contains {"msg": 1}`, "msg: want a string, got a number"},
		"Element":    {"a list of other things", `warn contains {"msg": "x", "objects": ["pods"]}`, "objects: want a list of objects, got an array"},
		"Kind":       {"a word that is none of the kinds", `deny contains {"msg": "x", "kind": "forbiden"}`, `bad/bad.rego:15: kind "forbiden": want one of [refused forbidden]; did you mean "forbidden"?`},
		"StepKind":   {"a word that is none of the kinds of steps", `deny contains {"msg": "x", "steps": [{"kind": "men", "do": "y"}]}`, `kind "men": want one of [mend remove force]; did you mean "mend"?`},
		"NoList":     {"one text in place of a list", `warn contains {"msg": "x", "evidence": "y"}`, "evidence: want a list of strings, got a string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Load(files("bad/bad.rego", withBody("bad", tc.body)))
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\nLoad(...): %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestFindingsOfOurs checks the policies in the binary.
func TestFindingsOfOurs(t *testing.T) {
	race.Skip(t)
	set, err := load(true, Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if err := set.checkFindings(); err != nil {
		t.Error(err)
	}
}

func TestFindingKinds(t *testing.T) {
	race.Skip(t)
	cases := map[string]struct {
		reason, body, says string
		verdict            Verdict
	}{
		"Hang":         {"without a kind it hangs", `deny contains {"msg": "x"}`, "will hang", Hangs},
		"Forbidden":    {"a rule of one's own need not pretend to be a hang", `deny contains {"msg": "x", "kind": "forbidden"}`, "forbidden", Refused},
		"MayForbidden": {"it may", `warn contains {"msg": "x", "kind": "forbidden"}`, "may be forbidden", AtRisk},
		"Refused":      {"a rejected policy does not start", "deny contains {\"msg\": \"x\", \"kind\": \"refused\"}\n\ndeny contains {\"msg\": \"y\"}", "will be refused", Refused},
		"MayRefused":   {"it may", "warn contains {\"msg\": \"x\", \"kind\": \"refused\"}", "may be refused", AtRisk},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, EngineOptions{Deadline: time.Minute}, files("own/own.rego", withBody("own", tc.body)))
			result, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{})
			if err != nil || len(result.Errors) > 0 || len(result.Findings) == 0 {
				t.Fatalf("%s\nEvaluate(...) = %+v, %v", tc.reason, result, err)
			}
			if got := result.Findings[0].Says(); got != tc.says || result.Verdict() != tc.verdict {
				t.Errorf("%s\nit says %q, verdict %s; want %q, %s", tc.reason, got, result.Verdict(), tc.says, tc.verdict)
			}
		})
	}
}
