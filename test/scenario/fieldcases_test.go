package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFieldCases compares test/results/field-cases.md with the policies and scenarios.
func TestFieldCases(t *testing.T) {
	page, err := os.ReadFile("../../test/results/field-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([a-z0-9-]+)`")
	rows, threads, counts := 0, 0, [3]int{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 9 || strings.HasPrefix(cells[2], "-") || strings.TrimSpace(cells[2]) == "threads" {
			continue
		}
		rows++
		var numbers [4]int
		for i := range numbers {
			if text := strings.TrimSpace(cells[i+2]); text != "" {
				if numbers[i], err = strconv.Atoi(text); err != nil {
					t.Errorf("%s: %v", cells[1], err)
				}
			}
		}
		if numbers[0] != numbers[1]+numbers[2]+numbers[3] {
			t.Errorf("%s: %d threads, which are not %v", cells[1], numbers[0], numbers[1:])
		}
		threads += numbers[0]
		for i := range counts {
			counts[i] += numbers[i+1]
		}
		for _, policy := range word.FindAllStringSubmatch(cells[6], -1) {
			if _, err := os.Stat(filepath.Join("../../policies", strings.ReplaceAll(policy[1], "-", "_"))); err != nil {
				t.Errorf("%s: no policy %s", cells[1], policy[1])
			}
		}
		for _, name := range word.FindAllStringSubmatch(cells[7], -1) {
			if !slices.ContainsFunc(scenarios, func(s Scenario) bool { return s.Name == name[1] }) {
				t.Errorf("%s: no scenario %s", cells[1], name[1])
			}
		}
	}
	if rows == 0 || threads != 150 {
		t.Errorf("%d rows with %d threads, want 150", rows, threads)
	}
	if sum := fmt.Sprintf("Together %d of the 150 are reported, %d in part, and %d are not", counts[0], counts[1], counts[2]); !strings.Contains(string(page), sum) {
		t.Errorf("the page does not say: %s", sum)
	}
}
