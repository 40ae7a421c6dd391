package webhook

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// deletionOf returns the request for the deletion of a namespace.
func deletionOf(name string) *question.Request {
	return question.Target{Resource: namespaceResource, Name: name}.Delete(nil)
}

const lastLine = `termguard: run "kubectl termguard check namespaces/demo" for evidence and the safe way out` + orSee

const orSee = ", or see https://github.com/termguard/termguard/blob/main/docs/runbooks.md"

func TestWarnings(t *testing.T) {
	many := func(n int, policy string) []policies.Finding {
		var findings []policies.Finding
		for i := range n {
			findings = append(findings, hang(policy, fmt.Sprint("it waits for ", i)))
		}
		return findings
	}
	held := hang("p", "2 kialis.kiali.io hold finalizer f")
	held.Objects = []policies.Object{
		{Resource: "kialis.kiali.io", Namespace: "demo", Name: "a"},
		{Resource: "kialis.kiali.io", Namespace: "other", Name: "secret"},
		{Resource: "namespaces", Name: "demo"},
		{Resource: "kialis.kiali.io", Namespace: "demo", Name: "b"},
	}
	cases := map[string]struct {
		reason   string
		name     string
		findings []policies.Finding
		omitted  int
		notices  []string
		show     bool
		want     []string
	}{
		"Nothing": {reason: "No finding, no warning."},
		"Order": {
			reason:   "Certainty comes before severity.",
			findings: []policies.Finding{info("i", "slow"), maybe("m", "perhaps"), hang("w", "surely")},
			want:     []string{"termguard: will hang: surely [w]", "termguard: slow [i]", "termguard: may hang: perhaps [m]", lastLine},
		},
		"Kinds": {
			reason: "Not everything that stands in the way is a hang.",
			findings: []policies.Finding{
				{Policy: "r", Certainty: policies.Will, Severity: policies.High, Kind: policies.KindRefused, Message: "nobody answers"},
				{Policy: "f", Certainty: policies.Will, Severity: policies.High, Kind: policies.KindForbidden, Message: "not on Fridays"},
			},
			want: []string{"termguard: will be refused: nobody answers [r]", "termguard: forbidden: not on Fridays [f]", lastLine},
		},
		"Twice": {
			reason:   "Nobody needs to read the same twice.",
			findings: []policies.Finding{hang("p", "x"), hang("p", "x")},
			want:     []string{"termguard: will hang: x [p]", lastLine},
		},
		"ManyOfOnePolicy": {
			reason:   "One policy does not crowd out the others.",
			findings: append(many(16, "p"), maybe("q", "perhaps")),
			want: []string{
				"termguard: will hang: it waits for 0 [p]", "termguard: will hang: it waits for 1 [p]", "termguard: will hang: it waits for 2 [p]",
				"termguard: will hang: and 13 more findings [p]", "termguard: may hang: perhaps [q]", lastLine,
			},
		},
		"FourOfOnePolicy": {
			reason:   "A line that says 'and 1 more finding' is no shorter than the one it hides.",
			findings: many(4, "p"),
			want: []string{
				"termguard: will hang: it waits for 0 [p]", "termguard: will hang: it waits for 1 [p]", "termguard: will hang: it waits for 2 [p]",
				"termguard: will hang: it waits for 3 [p]", lastLine,
			},
		},
		"NamesHidden": {
			reason:   "A user who may delete a namespace may lack the right to list its objects.",
			findings: []policies.Finding{held},
			want:     []string{"termguard: will hang: 2 kialis.kiali.io hold finalizer f [p]", lastLine},
		},
		"NamesShown": {
			reason:   "Only names in the same namespace, and only if configured.",
			findings: []policies.Finding{held}, show: true,
			want: []string{"termguard: will hang: 2 kialis.kiali.io hold finalizer f (a, b) [p]", lastLine},
		},
		"OddCharacters": {
			reason:   "Nothing may break the header, nor fool who reads it on a terminal.",
			findings: []policies.Finding{hang("p", "finalizer a\r\nb\x1b[31m\u202ec\xff of 日本")},
			want:     []string{"termguard: will hang: finalizer a\uFFFD\uFFFDb\uFFFD[31m\uFFFDc\uFFFD of 日本 [p]", lastLine},
		},
		"LongName": {
			reason: "A link that is cut off leads nowhere.",
			name:   strings.Repeat("n", 120), findings: []policies.Finding{hang("p", "x")},
			want: []string{"termguard: will hang: x [p]", `termguard: run "kubectl termguard check namespaces/` + strings.Repeat("n", 120) + `" for evidence and the safe way out`},
		},
		"Omitted": {
			reason:   "What the policies left out is counted.",
			findings: []policies.Finding{hang("p", "x")}, omitted: 1,
			want: []string{"termguard: will hang: x [p]", "termguard: and 1 more finding", lastLine},
		},
		"Fills": {
			reason:   "Fifteen lines that say all need no line that says how many more.",
			findings: manyPolicies(14),
			want:     append(linesOf(14), lastLine),
		},
		"Overflows": {
			reason:   "One more, and the last line but one counts the folded ones.",
			findings: manyPolicies(15),
			want:     append(linesOf(13), "termguard: and 2 more findings", lastLine),
		},
		"FillsAndOmitted": {
			reason:   "The line with the number needs its room too.",
			findings: manyPolicies(14), omitted: 3,
			want: append(linesOf(13), "termguard: and 4 more findings", lastLine),
		},
		"Notices": {
			reason:  "Notes about termguard come after the findings.",
			notices: []string{"a", "b", "c", "d"}, findings: []policies.Finding{hang("p", "x")},
			want: []string{"termguard: will hang: x [p]", "termguard: a", "termguard: b", "termguard: c", lastLine},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := warnings(deletionOf(cmp.Or(tc.name, "demo")), tc.findings, tc.omitted, tc.notices, tc.show)
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nwarnings: -want, +got:\n%s", tc.reason, diff)
			}
			checkBudget(t, got)
		})
	}
}

// manyPolicies returns findings of n policies.
func manyPolicies(n int) (findings []policies.Finding) {
	for i := range n {
		findings = append(findings, hang(fmt.Sprintf("p%02d", i), "x"))
	}
	return findings
}

// linesOf returns the warnings about manyPolicies.
func linesOf(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("termguard: will hang: x [p%02d]", i))
	}
	return lines
}

func TestWarningsStayInBudget(t *testing.T) {
	var findings []policies.Finding
	for i := range 40 {
		for j := range 5 {
			findings = append(findings, hang(fmt.Sprint("policy-", i), strings.Repeat("ü", 250)+fmt.Sprint(j)))
		}
	}
	got := warnings(deletionOf(strings.Repeat("n", 253)), findings, 50, []string{strings.Repeat("x", 500), "b", "c", "d"}, true)
	checkBudget(t, got)
	if want := "termguard: and 238 more findings"; len(got) != maxLines || got[10] != want {
		t.Errorf("want %d lines, the eleventh %q; got %d lines, %q", maxLines, want, len(got), got[10])
	}
}

func TestRefusal(t *testing.T) {
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	cases := map[string]struct {
		reason string
		r      *question.Request
		why    []policies.Finding
		want   string
	}{
		"SafeToPaste": {
			reason: "Names of roles may have characters that are special to a shell.",
			r:      question.Target{Resource: roles, Name: "a b';rm"}.Delete(nil),
			why:    []policies.Finding{hang("p", "x"), hang("q", "y")},
			want: `termguard: deleting clusterroles.rbac.authorization.k8s.io/a b';rm is refused: will hang: x (and 1 more finding) [p]. ` +
				`Evidence and the safe way out: kubectl termguard check 'clusterroles.rbac.authorization.k8s.io/a b'\'';rm'` + orSee + `. ` +
				`To go ahead all the same: kubectl annotate 'clusterroles.rbac.authorization.k8s.io/a b'\'';rm' termguard.dev/allow-hang='REASON'`,
		},
		"FinalizerEdit": {
			reason: "Such an edit does not hang: it leaves something behind.",
			r:      question.Target{Resource: namespaceResource, Name: "demo"}.Edit(nil),
			why:    []policies.Finding{hang("p", "x")},
			want: `termguard: changing the finalizers of namespaces/demo is refused: unsafe: x [p]. ` +
				`Evidence and the safe way out: kubectl termguard check namespaces/demo` + orSee + `. ` +
				`To go ahead all the same: kubectl annotate namespaces/demo termguard.dev/allow-hang='REASON'`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, refusal(tc.r, tc.why, true)); diff != "" {
				t.Errorf("%s\nrefusal: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
