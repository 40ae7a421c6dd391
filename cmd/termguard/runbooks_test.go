package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/termguard/termguard/policies"
)

const runbooksHead = `# You saw this warning. Now what?

<!-- Generated from the METADATA of the policies: run "make docs". -->

The word in brackets at the end of a warning is the policy: ` + "`[orphaned-finalizer]`" + `. Find it below. In any case, and first:

1. A warning does not stop a delete: it has begun, and waits. After a refusal, nothing has happened.
2. ` + "`termguard check TYPE/NAME -n NAMESPACE`" + ` has the evidence, and numbered steps with the commands for this very object.
3. Force only what it says may be forced, and last: a finalizer that is stripped leaves behind what it protected.

Below is the same for each policy, in general. Where the webhook itself seems
wrong, [termguard doctor](doctor.md) looks at it.
`

// TestRunbooks holds docs/runbooks.md to the policies: each has its section.
func TestRunbooks(t *testing.T) {
	const file = "../../docs/runbooks.md"
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(runbooksHead)
	line := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, p := range set.Policies() {
		fmt.Fprintf(&page, "\n## %s\n\n**%s.** %s\n\n**Now:** %s\n\n**It may be wrong where:** %s\n\n[Examples, messages and sources](../policies/%s/README.md)\n",
			p.ID, line(p.Title), line(p.Description), line(p.Remedy), line(p.Limits), p.Folder)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != page.String() {
		t.Errorf("%s is not current: run make docs: %v", file, err)
	}
}
