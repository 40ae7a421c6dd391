package scenario

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Matrix prints each outcome, and how often predictions and reality met.
func Matrix(out io.Writer, outcomes []Outcome) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Scenario.Name, b.Scenario.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tPREDICTED\tREALLY\tTOOK\t")
	alarms, misses, decided, played := 0, 0, 0, 0
	for _, o := range outcomes {
		took, remark := "", strings.Join(o.Wrong, "; ")
		if o.Real == Completes {
			took = o.Took.Round(100 * time.Millisecond).String()
		}
		if o.Err != nil {
			remark = "could not be played"
		} else {
			played++
		}
		if o.FalseAlarm() {
			alarms++
		}
		if o.Miss() {
			misses++
		}
		if o.Predicted == Hangs || o.Predicted == Completes {
			decided++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.Scenario.Name, o.Predicted, o.Real, took, remark)
	}
	table.Flush()
	fmt.Fprintf(out, "\n%d played: %d false alarms, %d misses, decisive in %d of %d (%d %%)\n",
		played, alarms, misses, decided, played, 100*decided/max(1, played))
}
