package check

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/termguard/termguard/policies"
)

// drawnReport is an answer in which every text that somebody else may have written is the
// same.
func drawnReport(text string) Report {
	o := policies.Object{Resource: "kialis.kiali.io", Namespace: text, Name: text}
	f := policies.Finding{Policy: "orphaned-finalizer", Certainty: policies.Will, Severity: policies.High, Message: text, Objects: []policies.Object{o}, Evidence: []string{text}}
	return Report{
		Kind: "Check", Target: policies.Object{Resource: "namespaces", Name: text + "0"}, Verdict: policies.Hangs, Findings: []policies.Finding{f},
		WaitsFor: []Wait{{Finalizer: text, Resource: text, Names: []string{text}, Count: 1, Owner: text}},
		Plan:     []Step{{Step: policies.Step{Kind: policies.Mend, Do: text, Command: text}, Why: text}}, Unseen: []string{text},
	}
}

// FuzzDraw holds that no text is markup, in the drawing and in the page: the drawing is
// XML with the same elements whatever it is, and both have the same marks.
func FuzzDraw(f *testing.F) {
	for _, text := range []string{"plain", "<script>alert(1)</script>", "\" onload=\"alert(1)", "</title></svg>", "]]>", "&amp;", "\x00", "\u202e", "\xff", "\ufffe\uffff", "'", strings.Repeat("<", 300)} {
		f.Add(text)
	}
	write := func(t testing.TB, text string) (svg, page string) {
		var a, b bytes.Buffer
		if err := errors.Join(drawnReport(text).SVG(&a), drawnReport(text).HTML(&b)); err != nil {
			t.Fatal(err)
		}
		return a.String(), b.String()
	}
	marks := func(text string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("<>\"'", r) {
				return r
			}
			return -1
		}, text)
	}
	wantSVG, wantPage := write(f, "plain")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || strings.Contains(text, ": ") { // which are told in other lines
			return
		}
		svg, page := write(t, text)
		if marks(svg) != marks(wantSVG) || marks(page) != marks(wantPage) {
			t.Errorf("%q is markup", text)
		}
		for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: the drawing is no XML: %v", text, err)
			}
		}
	})
}

// TestDrawnTree: the drawing has a box for each line of the tree in the text.
func TestDrawnTree(t *testing.T) {
	world := worldOf(t, "cluster.yaml")
	s, err := FromFacts(world, Name{Type: "namespaces", Name: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Ask(t.Context(), newEngine(t), world, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var svg, page bytes.Buffer
	if err := errors.Join(report.SVG(&svg), report.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	lines := 1
	var count func(n *node)
	count = func(n *node) {
		for _, below := range n.below {
			lines++
			count(below)
		}
	}
	count(report.tree(inDrawings))
	if boxes := strings.Count(svg.String(), "<rect "); boxes != lines || lines < 4 {
		t.Errorf("%d boxes for %d lines", boxes, lines)
	}
	for _, step := range report.Plan {
		if step.Command != "" && !strings.Contains(page.String(), escaped(step.Command)) {
			t.Errorf("the page does not have the command %s", step.Command)
		}
	}
	if found := regexp.MustCompile(`(?i)<script|(src|href)=|@import|url\(|style="`).FindString(page.String()); found != "" {
		t.Errorf("the page would load, or its policy would refuse, %s", found)
	}
}
