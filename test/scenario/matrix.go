package scenario

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func Matrix(out io.Writer, outcomes []Outcome) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Scenario.Name, b.Scenario.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tPREDICTED\tREALLY\tTOOK\t")
	alarms, misses, decided, played := 0, 0, 0, 0
	done := map[string]int{}
	for _, o := range outcomes {
		took, remark := "", strings.Join(o.Wrong, "; ")
		if o.Real == Completes {
			took = o.Took.Round(100 * time.Millisecond).String()
		}
		if o.Estimate != nil && remark == "" {
			remark = fmt.Sprintf("check said: within %d s", *o.Estimate)
		}
		if o.Err != nil {
			remark = "could not be played"
		} else {
			played++
		}
		if o.Real == Hangs && len(o.Wrong) == 0 && o.Err == nil {
			done[o.Scenario.Plan]++
		}
		if o.FalseAlarm() {
			alarms++
		}
		if o.Miss() {
			misses++
		}
		// An edit or an eviction gets warnings at most; so does a deletion that completes, after which
		// another hangs.
		leaves := o.Scenario.Leaves
		most := o.Scenario.Edit != nil || o.Scenario.Evict != "" || leaves != nil && leaves.Reality == Hangs && len(o.Wrong) == 0
		if o.Err == nil && o.Predicted != Unknown && (o.Predicted != AtRisk || most) {
			decided++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.Scenario.Name, o.Predicted, o.Real, took, remark)
	}
	table.Flush()
	fmt.Fprintf(out, "\n%d played: %d false alarms, %d misses, decisive in %d of %d (%d %%)\n",
		played, alarms, misses, decided, played, 100*decided/max(1, played))
	fmt.Fprintf(out, "plans carried out: %d by restoring, %d by removing what blocks, %d by force; %d need a person\n",
		done[Restores], done[Runs], done[Force], done[Person])
}

// Tally prints how often each scenario was played, and how it ended.
func Tally(out io.Writer, outcomes []Outcome) {
	played, hung := map[string]int{}, map[string]int{}
	predicted := map[string]map[string]bool{}
	for _, o := range outcomes {
		name := o.Scenario.Name
		if o.Err != nil {
			continue
		}
		if predicted[name] == nil {
			predicted[name] = map[string]bool{}
		}
		played[name]++
		predicted[name][o.Predicted] = true
		if o.Real == Hangs {
			hung[name]++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tPREDICTED\tPLAYED\tHUNG")
	for _, name := range slices.Sorted(maps.Keys(played)) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", name, strings.Join(slices.Sorted(maps.Keys(predicted[name])), ", "), played[name], hung[name])
	}
	table.Flush()
}
