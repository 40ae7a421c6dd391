package triage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/policies"
)

// ofRelease is what a policy says of an object in a manifest of a release, whose
// cause is one operator.
func ofRelease(file, object, message string, once bool) lint.Finding {
	o, operator := policies.Object{Resource: "things.example.com", Name: object}, policies.Object{Resource: "deployments.apps", Name: "operator"}
	return lint.Finding{
		Finding:  policies.Finding{Policy: "p", Severity: policies.Medium, Message: message, Objects: []policies.Object{o, operator}, Manifest: policies.Manifest{Once: once}},
		Question: lint.DeleteSet, Target: o, Object: o, Place: lint.Place{File: file, Line: 1},
	}
}

// TestBundleReleases tells once what two releases of one manifest say, each of objects with
// one cause, and names all of their places.
func TestBundleReleases(t *testing.T) {
	var findings []lint.Finding
	for _, file := range []string{"v1.yaml", "v2.yaml"} {
		for _, object := range []string{"a", "b", "c"} {
			findings = append(findings, ofRelease(file, object, object+" outlives it", true))
		}
	}
	kept, prints := triage.Bundle(findings, strings.Split("123456", ""))
	if len(kept) != 1 || len(prints) != 1 || prints[0] != "1" {
		t.Fatalf("%d findings, prints %q: want the first", len(kept), prints)
	}
	if want := "the same at v1.yaml:1, v1.yaml:1, v2.yaml:1 and 2 more"; strings.Join(kept[0].Evidence, "") != want {
		t.Errorf("evidence %q, want %q", kept[0].Evidence, want)
	}
}

// FuzzBundle bundles what is said of sets of nearly the same files: each finding stands or is
// counted at one that stands.
func FuzzBundle(f *testing.F) {
	f.Add("\x00\x01\x02\x10\x11\x12")
	f.Add("\x81\x01\x81\x11\x91")
	f.Fuzz(func(t *testing.T, shape string) {
		var findings []lint.Finding
		var prints []string
		for i, b := range []byte(shape) {
			findings = append(findings, ofRelease(fmt.Sprintf("v%d.yaml", b>>4&3), string('a'+rune(b&3)), fmt.Sprint(b>>2&1), b>>7 == 0))
			prints = append(prints, fmt.Sprint(i))
		}
		kept, of := triage.Bundle(findings, prints)
		if len(kept) != len(of) || len(kept) > len(findings) || len(kept) == 0 && len(findings) > 0 {
			t.Errorf("%d of %d findings, %d prints", len(kept), len(findings), len(of))
		}
	})
}
