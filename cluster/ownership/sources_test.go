package ownership

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrder compares the list of sources with the one in ARCHITECTURE.md: each line there begins
// with the name of a source.
func TestOrder(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, called []string
	for _, line := range regexp.MustCompile(`(?m)^\d+\. ([^\n]*)$`).FindAllStringSubmatch(string(text), -1) {
		for _, s := range append(sources[:len(sources):len(sources)], inferences...) {
			if strings.HasPrefix(line[1], s.name) {
				documented = append(documented, s.name)
			}
		}
	}
	for _, s := range append(sources[:len(sources):len(sources)], inferences...) {
		called = append(called, s.name)
	}
	if diff := cmp.Diff(documented, called); diff != "" {
		t.Errorf("order in ARCHITECTURE.md: -documented +code\n%s", diff)
	}
}
