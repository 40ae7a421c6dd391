// Package report tests the HTML page of a scan in a browser.
package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// browser returns the path of chromium. The tests are skipped without it or axe-core; make report installs
// both.
func browser(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine: apt-get install chromium, and run make report")
	}
	if _, err := os.Stat("node_modules/axe-core/axe.min.js"); err != nil {
		t.Skip("axe-core is not installed: run make report")
	}
	return path
}

// evil is appended to each text that others control.
const evil = `"><img src=x onerror="document.body.dataset.evil=1"><script>document.body.dataset.evil=1</script>` + "\u202e</script>"

// sample returns a scan of n objects that shows everything that a page can.
func sample(text string, n int) *scan.Scan {
	o := policies.Object{Resource: "namespaces", Name: "shop" + text}
	s := &scan.Scan{
		Answer: answer.Answer{Of: "prod" + text, Verdict: policies.Hangs, Unseen: []policies.Unseen{{Resource: "secrets", Reason: "forbidden" + text}}},
		At:     "2026-11-21T08:00:00Z",
		Counts: []scan.Count{{Kind: scan.Namespaces, Objects: 214, Hangs: 200, AtRisk: 4, Unknown: 2, Completes: 8}, {Kind: scan.Nodes, Objects: 9, Hangs: 1, Completes: 8}},
		Causes: []scan.Cause{
			{
				ID: "a", Class: policies.Broken, Object: &policies.Object{Resource: "apiservices.apiregistration.k8s.io", Name: "v1beta1.metrics.k8s.io"}, Title: "APIService v1beta1.metrics.k8s.io is unavailable (ServiceNotFound)" + text, Policies: []string{"unavailable-apiservice"}, Certainty: policies.Will, Holds: 200,
				ByKind: map[scan.Kind]int{scan.Namespaces: 200}, Names: []string{"namespaces/shop", "namespaces/cart" + text}, Evidence: []string{"Available=False" + text},
				Steps: []policies.Step{
					{Kind: policies.Mend, Do: "Bring back Service monitoring/prometheus-adapter" + text},
					{Kind: policies.Remove, Do: "Or delete it", Command: "kubectl delete apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io" + text},
				},
				Mended: &scan.Mended{Objects: 200, Free: 199},
			},
			{ID: "b", Class: policies.Order, Title: "Storage in use" + text, Policies: []string{}, Certainty: policies.May, Holds: 4, ByKind: map[scan.Kind]int{scan.Claims: 4}, Names: []string{"persistentvolumeclaims/data -n cart"}, Evidence: []string{}, Steps: []policies.Step{}},
		},
		Mended: &scan.Mended{Objects: 200, Free: 199},
	}
	for _, since := range []string{"2026-10-18T07:00:00Z", "2026-11-20T07:00:00Z"} {
		s.Items = append(s.Items, answer.Item{Kind: string(scan.Terminating), Target: o, TerminatingSince: since, Verdict: policies.Hangs, HeldBy: []answer.Hold{{Says: "APIService" + text}}})
	}
	for i := range n {
		item := answer.Item{
			Kind: string(scan.Namespaces), Target: policies.Object{Resource: "namespaces", Name: fmt.Sprintf("ns-%d%s", i, text)}, Verdict: policies.Hangs,
			HeldBy: []answer.Hold{{Cause: "a", Certainty: policies.Will, Says: "APIService v1beta1.metrics.k8s.io is unavailable" + text, Objects: []policies.Object{{Resource: "apiservices.apiregistration.k8s.io", Name: "v1beta1.metrics.k8s.io"}}}},
		}
		if i%7 == 0 {
			item.Verdict, item.HeldBy[0].Cause = policies.AtRisk, "b"
		}
		s.Items = append(s.Items, item)
	}
	return s
}

// writePage adds scripts that the page's policy allows.
func writePage(t *testing.T, s *scan.Scan, scripts ...string) string {
	t.Helper()
	var out strings.Builder
	if err := s.HTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, script := range scripts {
		sum := sha256.Sum256([]byte(script))
		text = strings.Replace(text, "script-src ", "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"' ", 1)
		text = strings.Replace(text, "</body>", "<script>"+script+"</script></body>", 1)
	}
	file := filepath.Join(t.TempDir(), "scan.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, file string, args ...string) string {
	t.Helper()
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files", "--user-data-dir=" + t.TempDir()}, append(args, "file://"+file)...)
	cmd := exec.CommandContext(t.Context(), browser(t), args...)
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return string(out)
}

var dataAnswer = regexp.MustCompile(`data-answer="([^"]*)"`)

func readAnswer(t *testing.T, dom string, into any) {
	t.Helper()
	match := dataAnswer.FindStringSubmatch(dom)
	if match == nil {
		t.Fatal("the script of the test did not run")
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(match[1])), into); err != nil {
		t.Fatal(err)
	}
}

// TestUse filters, unfolds and copies, with hostile text everywhere.
func TestUse(t *testing.T) {
	browser(t)
	const script = `
addEventListener("load", async () => {
  const seen = {};
  const visible = () => [...document.querySelectorAll("#objects [data-verdict]")].filter((row) => !row.hidden).length;
  seen.all = visible();
  search.value = "ns-11"; filter.dispatchEvent(new Event("submit", {cancelable: true}));
  seen.matches = visible();
  search.value = ""; verdict.value = "at-risk"; verdict.dispatchEvent(new Event("change"));
  seen.atRisk = visible();
  seen.said = shown.textContent;
  verdict.value = ""; kind.value = "nodes"; kind.dispatchEvent(new Event("change"));
  seen.nodes = visible();
  kind.value = ""; kind.dispatchEvent(new Event("change"));
  location.hash = "#cause-1"; await new Promise((done) => setTimeout(done, 50));
  seen.unfolded = document.getElementById("cause-1").open;
  const button = document.querySelector("button.copy");
  seen.offered = !button.hidden;
  button.click();
  for (let i = 0; i < 200 && button.textContent === "Copy"; i++) await new Promise((done) => setTimeout(done, 50));
  seen.copied = button.textContent;
  seen.evil = document.body.dataset.evil || "";
  seen.images = document.images.length;
  seen.overflows = document.documentElement.scrollWidth > innerWidth;
  document.body.dataset.answer = JSON.stringify(seen);
});`
	var seen struct {
		All, Matches, AtRisk, Nodes, Images int
		Said, Copied, Evil                  string
		Unfolded, Offered, Overflows        bool
	}
	readAnswer(t, open(t, writePage(t, sample(evil, 20), script), "--virtual-time-budget=20000", "--dump-dom"), &seen)
	if seen.All != 20 || seen.Matches != 1 || seen.AtRisk != 3 || seen.Nodes != 0 || seen.Said != "3 of 20 objects are shown" {
		t.Errorf("filter: %+v", seen)
	}
	if !seen.Unfolded || !seen.Offered || !strings.HasPrefix(seen.Copied, "Copied") && !strings.HasPrefix(seen.Copied, "Selected") {
		t.Errorf("unfold and copy: %+v", seen)
	}
	if seen.Evil != "" || seen.Images != 0 {
		t.Errorf("text of the cluster runs: %+v", seen)
	}
	if seen.Overflows {
		t.Error("the page is wider than the window")
	}
}

// TestPolicy checks that a script outside the page's policy does not run.
func TestPolicy(t *testing.T) {
	browser(t)
	file := writePage(t, sample("", 1))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "</body>", `<script>document.body.dataset.evil = 1</script></body>`, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if dom := open(t, file, "--dump-dom"); strings.Contains(dom, "data-evil") || !strings.Contains(dom, "dataset.evil") {
		t.Error("a script runs that the policy does not name")
	}
}

func TestAccessible(t *testing.T) {
	browser(t)
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	const script = `
addEventListener("load", async () => {
  for (const row of document.querySelectorAll("details")) row.open = true;
  const found = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]});
  document.body.dataset.answer = JSON.stringify({
    violations: found.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html.slice(0, 100)).slice(0, 2).join(" ")),
    passes: found.passes.length, dark: matchMedia("(prefers-color-scheme: dark)").matches, width: innerWidth,
    overflows: document.documentElement.scrollWidth > innerWidth,
  });
});`
	file := writePage(t, sample("", 5), script, string(axe))
	for name, args := range map[string][]string{"light": nil, "dark": {"--force-dark-mode"}} {
		var seen struct {
			Violations []string
			Passes     int
			Dark       bool
		}
		readAnswer(t, open(t, file, append(args, "--virtual-time-budget=20000", "--dump-dom")...), &seen)
		for _, v := range seen.Violations {
			t.Errorf("%s: %s", name, v)
		}
		if seen.Passes < 15 || seen.Dark != (name == "dark") {
			t.Errorf("%s: %d rules passed, dark %v: that is too little to mean anything", name, seen.Passes, seen.Dark)
		}
	}
}

// frame returns a page in a frame of 360 pixels: chromium has no window that narrow.
func frame(t *testing.T, file string) string {
	t.Helper()
	frame := filepath.Join(filepath.Dir(file), "narrow.html")
	text := `<!doctype html><style>body { margin: 0 }</style><body><iframe id="f" src="scan.html" width="360" height="1200" style="border: 0"></iframe><script>
f.onload = () => setTimeout(() => { const d = f.contentDocument, w = f.contentWindow; document.body.dataset.answer = JSON.stringify({width: w.innerWidth, scroll: d.documentElement.scrollWidth, head: Math.max(...[...d.querySelectorAll("th")].map((th) => th.clientHeight))}) }, 200)</script>`
	if err := os.WriteFile(frame, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return frame
}

// TestNarrow checks that the page does not scroll sideways at 360 pixels, even with long names.
func TestNarrow(t *testing.T) {
	browser(t)
	var seen struct{ Width, Scroll, Head int }
	readAnswer(t, open(t, frame(t, writePage(t, sample(strings.Repeat("x", 253), 5))), "--virtual-time-budget=5000", "--dump-dom"), &seen)
	if seen.Width != 360 || seen.Scroll > 360 {
		t.Errorf("%d pixels are %d wide", seen.Width, seen.Scroll)
	}
	if seen.Head > 70 { // two lines
		t.Errorf("words of a table are broken: a heading is %d pixels high", seen.Head)
	}
}

func TestLarge(t *testing.T) {
	browser(t)
	const script = `addEventListener("load", () => setTimeout(() => {
  document.body.dataset.answer = JSON.stringify({ms: performance.timing.loadEventEnd - performance.timing.navigationStart, rows: document.querySelectorAll("#objects [data-verdict]").length});
}, 0));`
	var seen struct{ Ms, Rows int }
	readAnswer(t, open(t, writePage(t, sample("", 100_000), script), "--dump-dom"), &seen)
	t.Logf("%d objects are open after %d ms", seen.Rows, seen.Ms)
	if seen.Rows != 100_000 {
		t.Errorf("%d objects are there", seen.Rows)
	}
}

func TestScreenshots(t *testing.T) {
	browser(t)
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("no folder for pictures: make report has one")
	}
	file := writePage(t, sample("", 12))
	for name, shot := range map[string][]string{
		"light":  {file, "--window-size=1100,1000"},
		"dark":   {file, "--window-size=1100,1000", "--force-dark-mode"},
		"narrow": {frame(t, file), "--window-size=500,1200"},
	} {
		open(t, shot[0], append(shot[1:], "--virtual-time-budget=3000", "--screenshot="+filepath.Join(folder, name+".png"))...)
	}
}
