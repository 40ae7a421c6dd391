package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

var (
	goldenMessage = regexp.MustCompile(`^  ((?:will|may) (?:hang|be refused): .*) \[([a-z0-9-]+)\]$`)
	goldenStep    = regexp.MustCompile(`^    (evidence|mend|remove|force): (.*)$`)
	digits        = regexp.MustCompile(`\d+`)
)

// TestMessages holds test/results/messages.md to the golden findings: each message of a policy, in each certainty,
// with its evidence and steps. Texts that differ only in digits are shown once.
func TestMessages(t *testing.T) {
	race.Skip(t)
	set, err := policies.LoadEverything()
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("# Messages\n\nWhat does termguard say? Each message of each policy, then its evidence and steps, from the fixtures of the policies. " +
		"Written by `UPDATE_GOLDEN=1 go test -run TestMessages ./policies`: read it from top to bottom after a change.\n")
	for _, p := range set.Policies() {
		golden, err := os.ReadFile(filepath.Join(p.Folder, "testdata", policytest.GoldenFile))
		if err != nil {
			t.Fatal(err)
		}
		lists := map[string][]string{}
		seen := map[string]bool{}
		add := func(kind, text string) {
			if key := kind + digits.ReplaceAllString(text, "0"); !seen[key] {
				seen[key] = true
				lists[kind] = append(lists[kind], text)
			}
		}
		own := false
		for line := range strings.Lines(string(golden)) {
			line = strings.TrimRight(line, "\n")
			if m := goldenMessage.FindStringSubmatch(line); m != nil {
				if own = m[2] == p.ID; own {
					add("", m[1])
				}
			} else if m := goldenStep.FindStringSubmatch(line); m != nil && own {
				add(m[1], m[2])
			}
		}
		if len(lists[""]) == 0 {
			t.Errorf("the fixtures of %s show no message of it", p.ID)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n\n```\n", p.ID, p.Title)
		for _, kind := range []string{"", "evidence", "mend", "remove", "force"} {
			for _, text := range lists[kind] {
				fmt.Fprintln(&page, strings.TrimPrefix(kind+": "+text, ": "))
			}
		}
		page.WriteString("```\n")
	}
	compareGolden(t, "../test/results/messages.md", page.String())
}
