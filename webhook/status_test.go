package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestStatus checks that a dry run reports the status to users who may edit objects in termguard's
// namespace, also while the facts are incomplete, and to no others; an edit does not request it.
func TestStatus(t *testing.T) {
	status := Status{
		Version: "v1", Replica: "termguard-x", Facts: "still reading the cluster", Policies: 40, CustomPolicies: []string{"a", "b"}, Configuration: "abc",
		Rejections: []string{"configmap x/y: no package"}, CertificateUntil: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Unseen: []string{"secrets: forbidden"},
	}
	const edit = `{"uid":"u","operation":"UPDATE","dryRun":true,"resource":{"group":"","version":"v1","resource":"services"},"kind":{"version":"v1","kind":"Service"},
		"name":"termguard","namespace":"termguard-system","object":{"metadata":{"name":"termguard","finalizers":["termguard.dev/status"]}},"oldObject":{"metadata":{"name":"termguard"}}}`
	client, url := serve(t, Options{Evaluator: finds(), Home: "termguard-system", Status: func() Status { return status }, Synced: func() bool { return false }})
	for request, reported := range map[string]bool{
		edit: true,
		with(edit, `"dryRun":true`, `"dryRun":false`):                                                              false,
		with(edit, `"namespace":"termguard-system"`, `"namespace":"tenant"`):                                       false,
		with(edit, `"oldObject":{"metadata":{`, `"oldObject":{"metadata":{"finalizers":["termguard.dev/status"],`): false,
		with(edit, `["termguard.dev/status"]`, `["a/b"]`):                                                          false,
	} {
		_, answer := post(t, client, url, body(t, v1, request))
		got, ok := ParseStatus(answer.Response.Warnings)
		if ok != reported || !answer.Response.Allowed {
			t.Errorf("reported: %v, want %v: %v\n%s", ok, reported, answer.Response, request)
		}
		want := status
		want.Unseen = []string{"1: secrets: forbidden"}
		if reported {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		}
	}
}

// TestStatusFits checks that any status fits the API server's limit.
func TestStatusFits(t *testing.T) {
	var s Status
	for n := range 100 {
		text := fmt.Sprintf("%d %s", n, strings.Repeat("x", 400))
		s.Rejections, s.Unseen, s.CustomPolicies = append(s.Rejections, text), append(s.Unseen, text), append(s.CustomPolicies, text)
	}
	s.Facts = strings.Repeat("\"", 400)
	lines := s.lines()
	for _, l := range lines {
		if utf8.RuneCountInString(l) > maxLine {
			t.Errorf("%d characters: %s", utf8.RuneCountInString(l), l)
		}
	}
	if len(lines) > maxLines {
		t.Errorf("%d lines", len(lines))
	}
	if got, _ := ParseStatus(lines); len(got.Rejections) != maxRejections || got.Rejections[maxRejections-1] != "and 98 more" {
		t.Errorf("refused: %q", got.Rejections)
	}
}
