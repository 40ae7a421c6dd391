package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/policies"
)

const runbooksHead = `# You saw this warning. Now what?

<!-- Generated from the METADATA of the policies: run "make docs". -->

Find the word in brackets, such as ` + "`[orphaned-finalizer]`" + `, below: it names the policy. First, in any case:

1. A warning stops nothing: the delete has begun, and waits. After a refusal nothing has happened.
2. Run ` + "`termguard check TYPE/NAME -n NAMESPACE`" + `. It prints the evidence, and numbered steps with the commands for this very
   object. It needs nothing but your kubeconfig: [how to get it](install.md#the-command-line-alone).
3. Without it: do what stands behind **Now** below, in that order.
4. Force last, and only what is said to be forced. A finalizer that is removed by hand leaves behind what it protected.

` + "`termguard delete TYPE/NAME`" + ` carries the steps out, and asks before each. In a script, say ` + "`--yes`" + ` and nothing more: what
would touch anything else, or give something up, then ends the run with exit code 3, undone. ` + "`-o json`" + ` tells the open
question, for a person, with the flag that answers it: [delete](check.md#in-a-script). Where the webhook itself seems wrong,
[termguard doctor](doctor.md) looks at it.
`

// TestRunbooks holds docs/runbooks.md to the policies: each has its section.
func TestRunbooks(t *testing.T) {
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
	current(t, "docs/runbooks.md", page.String())
}
