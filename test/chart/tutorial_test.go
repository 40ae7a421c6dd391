package chart

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// said is a block of commands, and what must be in its output, if it says so.
var said = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?")

// TestTutorial runs the commands of docs/getting-started.md and docs/policies.md,
// block by block, against a cluster that termguard guards, and holds their output to
// the pages.
func TestTutorial(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var blocks [][]string
	for _, page := range []string{"getting-started.md", "policies.md"} {
		text, err := os.ReadFile(filepath.Join(scenario.Root(), "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		found := said.FindAllStringSubmatch(string(text), -1)
		if len(found) < 5 {
			t.Fatalf("docs/%s has %d blocks of commands: are they written in another way now?", page, len(found))
		}
		blocks = append(blocks, found...)
	}
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	g, err := scenario.PatientGuard(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	folder := t.TempDir()
	for _, block := range blocks {
		commands, want := block[1], strings.Split(strings.TrimSpace(block[2]), "\n")
		var last lab.Result
		run := func(ctx context.Context) (_ bool, err error) {
			last, err = g.Shell(ctx, "set -e; cd "+folder+"; PATH="+filepath.Dir(binary)+":$PATH\n"+commands)
			for _, line := range want {
				if !strings.Contains(last.Stdout+last.Stderr, line) {
					return false, err
				}
			}
			return true, err
		}
		ok := false
		if block[2] == "" {
			ok, err = run(ctx)
			ok = ok && last.Code == 0
		} else { // what comes into force takes its two seconds, and more on a busy machine
			ok, err = true, g.Await(ctx, 60*time.Second, "what the page says", run)
		}
		if err != nil || !ok {
			t.Fatalf("\n%s\nexits with %d, want %q in its output: %v\n%s%s", commands, last.Code, want, err, last.Stdout, last.Stderr)
		}
	}
	examined(t, g)
}
