package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

// ofRelease returns a finding about an object in a manifest of a release, whose cause is one
// operator.
func ofRelease(file, object, message string, once bool) lint.Finding {
	o, operator := policies.Object{Resource: "things.example.com", Name: object}, policies.Object{Resource: "deployments.apps", Name: "operator"}
	return lint.Finding{
		Finding:  policies.Finding{Policy: "p", Severity: policies.Medium, Message: message, Objects: []policies.Object{o, operator}, Manifest: policies.Manifest{Once: once}},
		Question: lint.DeleteSet, Target: o, Object: o, Place: files.Place{File: file, Line: 1},
	}
}

// TestByCauseReleases checks that findings of two releases of one manifest, about objects with one
// cause, become one with all places.
func TestByCauseReleases(t *testing.T) {
	var findings []lint.Finding
	for _, file := range []string{"v1.yaml", "v2.yaml"} {
		for _, object := range []string{"a", "b", "c"} {
			findings = append(findings, ofRelease(file, object, object+" outlives it", true))
		}
	}
	kept := lint.ByCause(findings)
	if len(kept) != 1 || kept[0].Object != findings[0].Object {
		t.Fatalf("%v: want the first", kept)
	}
	if want := "the same at v1.yaml:1, v1.yaml:1, v2.yaml:1 and 2 more"; strings.Join(kept[0].Evidence, "") != want {
		t.Errorf("evidence %q, want %q", kept[0].Evidence, want)
	}
}

// FuzzByCause bundles the findings of nearly identical files: each finding is shown, or counted at
// one that is.
func FuzzByCause(f *testing.F) {
	f.Add("\x00\x01\x02\x10\x11\x12")
	f.Add("\x81\x01\x81\x11\x91")
	f.Fuzz(func(t *testing.T, shape string) {
		var findings []lint.Finding
		for _, b := range []byte(shape) {
			findings = append(findings, ofRelease(fmt.Sprintf("v%d.yaml", b>>4&3), string('a'+rune(b&3)), fmt.Sprint(b>>2&1), b>>7 == 0))
		}
		kept := lint.ByCause(findings)
		if len(kept) > len(findings) || len(kept) == 0 && len(findings) > 0 {
			t.Errorf("%d of %d findings", len(kept), len(findings))
		}
	})
}
