package policies

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/termguard/termguard/internal/race"
)

// TestReadsObject separates policies that need the object, or the user, from those for which a
// snapshot is enough.
func TestReadsObject(t *testing.T) {
	race.Skip(t)
	for name, tc := range map[string]struct {
		imports, body string
		object, user  bool
	}{
		"labels":                 {"", `input.request.oldObject.metadata.labels["a"] == "b"`, true, false},
		"annotations, not there": {"", `not input.request.oldObject.metadata.annotations`, true, false},
		"spec by object.get":     {"", `object.get(input.request.oldObject, ["spec", "replicas"], 1) > 0`, true, false},
		"a path that varies":     {"", `some path in ["spec", "status"]; input.request.oldObject[path]`, true, false},
		"the object as a whole":  {"", `object := input.request.oldObject; count(object) > 0`, true, false},
		"the input as a whole":   {"", `walk(input, [_, "b"])`, true, true},
		"by another rule":        {"", `helps`, true, false},
		"by an import":           {"import input.request.oldObject.spec", `spec.replicas == 1`, true, false},
		"who asks":               {"", `input.request.userInfo.username == "a"`, false, true},
		"by the library":         {"import data.termguard.lib.request", `request.person`, false, true},
		"its name":               {"", `input.request.name == "b"`, false, false},
		"its finalizers":         {"", `"b" in input.request.oldObject.metadata.finalizers`, false, false},
		"name by object.get":     {"", `object.get(input.request, "name", "") == "b"`, false, false},
		"the library's own":      {"import data.termguard.lib.request", `request.deleting; request.name == "b"`, false, false},
		"the request as a whole": {"", `some key, _ in input.request; key == "b"`, true, true},
		"who asks, and labels":   {"", `input.request.userInfo.uid == input.request.oldObject.metadata.labels.uid`, true, true},
		"the time":               {"", `data.cluster.now == "b"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("IMPORTS", tc.imports, "BODY", tc.body).Replace(`# METADATA
# title: A rule
# description: What happens.
# related_resources:
#   - ref: https://example.com
# custom:
#   id: some-rule
#   severity: medium
#   triggers: [delete]
#   resources: [pods]
#   remedy: Do it.
#   limits: None.
package termguard.some_rule

IMPORTS

deny contains {"msg": "no"} if { BODY }

helps if input.request.oldObject.spec.x == 1
`)
			if name != "by another rule" {
				text, _, _ = strings.Cut(text, "\nhelps")
			}
			set, err := Load(fstest.MapFS{"some_rule/some_rule.rego": {Data: []byte(text)}})
			if err != nil {
				t.Fatal(err)
			}
			if p := set.policies[0]; p.ReadsObject != tc.object || p.ReadsUser != tc.user {
				t.Errorf("reads the object: %v, want %v; the user: %v, want %v", p.ReadsObject, tc.object, p.ReadsUser, tc.user)
			}
		})
	}
}

// TestReaders evaluates a stub of an object: the result of a policy that reads the object does not
// count.
func TestReaders(t *testing.T) {
	result := Result{Readers: []string{"own"}, Findings: []Finding{{Policy: "own", Certainty: Will, Kind: KindForbidden}}}
	got := result.WithoutObject("a snapshot")
	if got.Verdict() != Unknown || len(got.Findings) > 0 || !slices.ContainsFunc(got.Unseen, func(u Unseen) bool { return u.What == "policy own" }) {
		t.Errorf("WithoutObject: %+v", got)
	}
	if got := (Result{}).WithoutObject("a snapshot"); got.Verdict() != Completes {
		t.Errorf("WithoutObject without readers: %+v", got)
	}
}
