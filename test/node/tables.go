package node

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/termguard/termguard/test/scenario"
)

// Tables prints what was found: estimates against measured times, and what shows
// of each hang.
func Tables(w io.Writer, outcomes []Outcome) {
	slices.SortFunc(outcomes, func(a, b Outcome) int { return cmp.Compare(a.Scenario.Name, b.Scenario.Name) })
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, "| pod\t| estimate\t| measured\t|")
	fmt.Fprintln(tw, "|---\t|---:\t|---:\t|")
	for _, o := range outcomes {
		if o.Scenario.Shape != "" && o.Real == scenario.Completes {
			fmt.Fprintf(tw, "| %s\t| %d s\t| %.1f s\t|\n", o.Scenario.Shape, o.Estimate, o.Took.Seconds())
		}
	}
	fmt.Fprintln(tw, "\n| scenario\t| before the delete\t| the node\t| took\t|")
	fmt.Fprintln(tw, "|---\t|---\t|---\t|---:\t|")
	for _, o := range outcomes {
		took := "-"
		if o.Real == scenario.Completes {
			took = fmt.Sprintf("%.1f s", o.Took.Seconds())
		}
		fmt.Fprintf(tw, "| %s\t| %s\t| %s\t| %s\t|\n", o.Scenario.Name, o.Predicted, o.Real, took)
	}
	tw.Flush()
	fmt.Fprintln(w, "\nWhat the API shows:")
	for _, o := range outcomes {
		fmt.Fprintf(w, "\n%s (%s): %s\n", o.Scenario.Name, o.Real, o.Scenario.About)
		for _, line := range o.Shows {
			fmt.Fprintln(w, "  "+strings.TrimSpace(line))
		}
		for _, line := range o.Wrong {
			fmt.Fprintln(w, "  WRONG: "+line)
		}
	}
}
