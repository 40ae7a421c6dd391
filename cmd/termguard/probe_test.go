package main

import (
	"strings"
	"testing"

	"github.com/termguard/termguard/probe/report"
)

func TestPluginLine(t *testing.T) {
	will := func(pod string) report.Finding {
		return report.Finding{Cause: report.Busy, Certainty: report.Will, Pod: &report.Pod{Namespace: "demo", Name: pod, UID: "u"}}
	}
	note := report.Finding{Cause: report.Stuck, Certainty: report.Note, Pod: &report.Pod{Namespace: "demo", Name: "web-0"}}
	for _, tt := range []struct {
		reason string
		report report.Report
		want   string
	}{
		{"nothing found", report.Report{}, "nothing keeps pods from going"},
		{"a note holds nobody up", report.Report{Findings: []report.Finding{note}}, "nothing keeps pods from going"},
		{"one", report.Report{Findings: []report.Finding{note, will("web-0")}}, "busy: pod demo/web-0"},
		{"several, and some that did not fit", report.Report{Findings: []report.Finding{will("a"), will("b")}, Omitted: 3}, "busy: pod demo/a (+4)"},
		{"a long name", report.Report{Findings: []report.Finding{will(strings.Repeat("é", 200)), will("b")}}, "busy: pod demo/" + strings.Repeat("é", 28) + "… (+1)"},
	} {
		got := pluginLine(tt.report)
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
		if len(got) > maxPluginLine {
			t.Errorf("%s: %d bytes, of which node-problem-detector reads %d", tt.reason, len(got), maxPluginLine)
		}
	}
}
