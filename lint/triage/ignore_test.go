package triage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseIgnore(t *testing.T) {
	day := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason, text string
		want         Ignore
		err          string
	}{
		"One":        {reason: "The usual form.", text: " orphaned-finalizer -- the operator is up", want: Ignore{Policies: []string{"orphaned-finalizer"}, Reason: "the operator is up"}},
		"Several":    {reason: "Separated as people do.", text: "a,b, c  --  x", want: Ignore{Policies: []string{"a", "b", "c"}, Reason: "x"}},
		"Until":      {reason: "The last day.", text: "a -- moved in Q4 until 2026-12-31 ", want: Ignore{Policies: []string{"a"}, Reason: "moved in Q4", Until: day}},
		"UntilWord":  {reason: "A reason may say until.", text: "a -- not until then", want: Ignore{Policies: []string{"a"}, Reason: "not until then"}},
		"Dashes":     {reason: "A reason may have dashes.", text: "a -- x --y -- z", want: Ignore{Policies: []string{"a"}, Reason: "x --y -- z"}},
		"NoDay":      {reason: "There is no such day.", text: "a -- x until 2026-02-30", err: `"2026-02-30" is no day: want YYYY-MM-DD`},
		"German":     {reason: "Dates have one form.", text: "a -- x until 31.12.2026", err: `"31.12.2026" is no day`},
		"NoReason":   {reason: "Nobody remembers why.", text: "a", err: "it gives no reason; write: ID[,ID] -- reason [until YYYY-MM-DD]"},
		"Blank":      {reason: "Nor then.", text: "a --  ", err: "it gives no reason"},
		"OnlyUntil":  {reason: "Nor then.", text: "a -- until 2026-12-31", err: "it gives no reason"},
		"NoPolicy":   {reason: "All policies is none.", text: " -- x", err: "it names no policy"},
		"Empty":      {reason: "Nothing.", text: "", err: "it names no policy"},
		"HalfDashes": {reason: "Dashes inside a word are part of it.", text: "a--b x", err: `"a--b" is no id of a policy; write: ID[,ID] -- reason [until YYYY-MM-DD]`},
		"TooLong":    {reason: "Nobody writes so much.", text: "a -- " + strings.Repeat("x", maxIgnore), err: "longer than 4096 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseIgnore(tc.text)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s\nwant an error with %q, got %v", tc.reason, tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzParseIgnore(f *testing.F) {
	f.Add("a,b -- reason until 2026-12-31")
	f.Add("a--b -- \x00 --")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := ParseIgnore(text)
		if err != nil {
			return
		}
		if len(i.Policies) == 0 || strings.TrimSpace(i.Reason) == "" {
			t.Fatalf("accepted %q as %+v", text, i)
		}
		// Written again, it reads the same.
		again := strings.Join(i.Policies, ",") + " -- " + i.Reason
		if !i.Until.IsZero() {
			again += " until " + i.Until.Format(time.DateOnly)
		}
		second, err := ParseIgnore(again)
		if len(again) <= maxIgnore && (err != nil || !cmp.Equal(i.Policies, second.Policies)) {
			t.Errorf("%q reads as %+v, and again as %+v, %v", text, i, second, err)
		}
	})
}
