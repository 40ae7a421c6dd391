package scan

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/termguard/termguard/answer"
)

func pageOf(t testing.TB, s *Scan) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.HTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzPage checks that no text of a cluster becomes markup: the page has the same tags and
// attributes for any text. Only these characters end text and double quotes in HTML.
func FuzzPage(f *testing.F) {
	for _, text := range []string{
		"plain", "<script>alert(1)</script>", "</script><script>alert(1)</script>", "\" onclick=\"alert(1)", "' onclick='x", "<!--", "]]>", "&lt;script&gt;", "\x00<\x00img src=x onerror=alert(1)>", "\u202e<b>", "\xff<i>", "</style>", "</title>", "javascript:alert(1)",
	} {
		f.Add(text)
	}
	plain := marks(pageOf(f, hostileScan("plain")))
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" { // which has fewer lines
			return
		}
		got := pageOf(t, hostileScan(text))
		if marks := marks(got); marks != plain {
			t.Errorf("%q is markup: %s, want %s", text, marks, plain)
		}
		odd(t, strings.ReplaceAll(got, "\r", ""))
	})
}

// marks returns the characters of a page that begin or end markup, without its style and its
// script.
func marks(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("<>\"'", r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// TestPageHostile checks that words in markup are ours, or left out.
func TestPageHostile(t *testing.T) {
	const evil = "\"><script>alert(1)</script>"
	s := hostileScan("plain")
	s.Items[0].Verdict, s.Items[0].Kind = evil, evil
	s.Causes[0].Class = evil
	s.Items[0].HeldBy = append(s.Items[0].HeldBy, answer.Hold{Cause: "nowhere", Says: evil})
	if got := pageOf(t, s); strings.Contains(got, evil) || strings.Count(got, "<script>") != 1 {
		t.Error("a word of the scan is markup")
	}
}

// TestPage checks the page without a script and without a network.
func TestPage(t *testing.T) {
	s := scanned(t, contents(t, "testdata/cluster.yaml"), Options{Of: "prod"})
	got := pageOf(t, s)
	for _, want := range []string{
		`<html lang="en">`, `default-src 'none'`, `script-src 'sha256-`, `style-src 'sha256-`, "APIService v1beta1.metrics.k8s.io is unavailable (ServiceNotFound)",
		"fixing it unblocks 2 of 4 objects", "Terminating now", "namespaces/old", `href="#cause-0"`, "kubectl delete apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if match := regexp.MustCompile(`(?i)(src|href)="(?:[a-z]+:|//|/)[^"]*"|@import|url\(|style="| on[a-z]+="`).FindString(got); match != "" {
		t.Errorf("the page would load, or its policy would refuse, %s", match)
	}
	for _, item := range s.Items {
		if !strings.Contains(got, item.Target.Ref()) {
			t.Errorf("%s is not in the page", item.Target.Ref())
		}
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if ids[id[1]] {
			t.Errorf("two elements have the id %s", id[1])
		}
		ids[id[1]] = true
	}
	for _, label := range regexp.MustCompile(`(?:aria-labelledby|href)="#?([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if !ids[label[1]] {
			t.Errorf("nothing has the id %s", label[1])
		}
	}
}

// BenchmarkPage writes a page of 100,000 objects.
func BenchmarkPage(b *testing.B) {
	s := hostileScan("plain")
	item := s.Items[0]
	for range 100_000 {
		s.Items = append(s.Items, item)
	}
	for b.Loop() {
		var out bytes.Buffer
		if err := s.HTML(&out); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(out.Len())/(1<<20), "MiB")
	}
}
