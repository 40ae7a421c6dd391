package node

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/termguard/termguard/test/scenario"
)

// Tables prints estimates beside times, and symptoms of hangs.
func Tables(w io.Writer, outcomes []Outcome) {
	slices.SortFunc(outcomes, func(a, b Outcome) int { return cmp.Compare(a.Scenario.Name, b.Scenario.Name) })
	fmt.Fprintln(w, "| pod | estimate | measured |")
	fmt.Fprintln(w, "|---|---:|---:|")
	for _, o := range outcomes {
		if o.Scenario.Shape != "" && o.Real == scenario.Completes {
			estimate := "none"
			if o.Estimate > 0 {
				estimate = fmt.Sprintf("%d s", o.Estimate)
			}
			fmt.Fprintf(w, "| %s | %s | %.1f s |\n", o.Scenario.Shape, estimate, o.Took.Seconds())
		}
	}
	fmt.Fprintln(w, "\n| pods of one node at once | estimate | measured | processor time of the node |")
	fmt.Fprintln(w, "|---|---:|---:|---:|")
	for _, o := range outcomes {
		if o.Scenario.Copies > 0 && o.Real == scenario.Completes {
			fmt.Fprintf(w, "| %s | %d s | %.1f s | %.1f s |\n", o.Scenario.Crowd, o.Estimate, o.Took.Seconds(), o.Work.Seconds())
		}
	}
	fmt.Fprintln(w, "\n| scenario | before the delete | the node | took |")
	fmt.Fprintln(w, "|---|---|---|---:|")
	for _, o := range outcomes {
		took := "-"
		if o.Real == scenario.Completes {
			took = fmt.Sprintf("%.1f s", o.Took.Seconds())
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", o.Scenario.Name, o.Predicted, o.Real, took)
	}
	fmt.Fprintln(w, "\nWhat the API shows:")
	for _, o := range outcomes {
		fmt.Fprintf(w, "\n%s (%s): %s\n", o.Scenario.Name, o.Real, o.Scenario.About)
		for _, line := range o.Shows {
			fmt.Fprintln(w, "  "+strings.TrimSpace(line))
		}
		for _, line := range o.Diagnosis {
			fmt.Fprintln(w, "  check: "+line)
		}
		for _, line := range o.Wrong {
			fmt.Fprintln(w, "  WRONG: "+line)
		}
	}
}
