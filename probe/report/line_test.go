package report

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	will := func(pod string) Finding {
		return Finding{Cause: Busy, Certainty: Will, Pod: &Pod{Namespace: "demo", Name: pod, UID: "u"}}
	}
	note := Finding{Cause: Stuck, Certainty: Note, Pod: &Pod{Namespace: "demo", Name: "web-0"}}
	for _, tt := range []struct {
		reason string
		report Report
		want   string
	}{
		{"nothing found", Report{}, "nothing blocks the deletion of pods"},
		{"a note blocks no pod", Report{Findings: []Finding{note}}, "nothing blocks the deletion of pods"},
		{"one", Report{Findings: []Finding{note, will("web-0")}}, "busy: pod demo/web-0"},
		{"several, and some that did not fit", Report{Findings: []Finding{will("a"), will("b")}, Omitted: 3}, "busy: pod demo/a (+4)"},
		{"a long name", Report{Findings: []Finding{will(strings.Repeat("é", 200)), will("b")}}, "busy: pod demo/" + strings.Repeat("é", 28) + "… (+1)"},
	} {
		got := tt.report.Line()
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
		if len(got) > maxLine {
			t.Errorf("%s: %d bytes, but node-problem-detector reads only %d", tt.reason, len(got), maxLine)
		}
	}
}
