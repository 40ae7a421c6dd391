package operators

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/termguard/termguard/test/scenario"
)

const Failed = "error"

// Unasked means no call of the webhook.
const Unasked = "not asked"

// Leaves means that others hang.
const Leaves = "leaves a hang"

// Row is one deletion.
type Row struct {
	Situation string `json:"situation"`
	Deleted   string `json:"deleted"`
	Webhook   string `json:"webhook"`
	Check     string `json:"check"`
	Snapshot  string `json:"snapshot"`
	// Really is scenario.Completes, scenario.Hangs or Leaves.
	Really string `json:"really"`
	Source string `json:"source,omitempty"`
}

func (r Row) Name() string { return r.Situation + ": " + r.Deleted }

func (r Row) answers() []answer {
	all := []answer{{"webhook", r.Webhook, r.Really}, {"check", r.Check, r.Really}, {"snapshot", r.Snapshot, r.Really}}
	return slices.DeleteFunc(all, func(a answer) bool { return a.verdict == Unasked })
}

type answer struct{ who, verdict, really string }

func (a answer) miss() bool { return a.verdict == scenario.Completes && a.really != scenario.Completes }

func (a answer) falseAlarm() bool { return a.verdict == scenario.Hangs && a.really != scenario.Hangs }

// If others hang, at-risk counts.
func (a answer) decisive() bool {
	return a.verdict == scenario.Hangs || a.verdict == scenario.Completes || a.verdict == scenario.AtRisk && a.really == Leaves
}

func (r Row) Wrong() string {
	var wrong []string
	for _, a := range r.answers() {
		switch {
		case a.miss():
			wrong = append(wrong, a.who+": miss")
		case a.falseAlarm():
			wrong = append(wrong, a.who+": false alarm")
		case a.verdict == scenario.Refused:
			wrong = append(wrong, a.who+": it was not refused")
		case a.verdict == Failed:
			wrong = append(wrong, a.who+": no answer")
		}
	}
	return strings.Join(wrong, ", ")
}

func judge(rows []Row, exceptions map[string]string) []string {
	var wrong []string
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.Name()] = seen[r.Name()] || r.Wrong() != ""
		if _, listed := exceptions[r.Name()]; !listed && r.Wrong() != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", r.Name(), r.Wrong()))
		}
	}
	for name := range exceptions {
		if is, played := seen[name]; played && !is {
			wrong = append(wrong, fmt.Sprintf("%s: it is right now: take it off the list of wrong rows", name))
		}
	}
	slices.Sort(wrong)
	return wrong
}

type Results struct {
	Operator string `json:"operator"`
	Rows     []Row  `json:"rows"`
}

func (r Results) write(dir string) error {
	before, err := readResults(dir)
	if err != nil {
		return err
	}
	for _, b := range before {
		if b.Operator == r.Operator {
			r.Rows = merge(b.Rows, r.Rows)
		}
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Operator+".json"), append(data, '\n'), 0o644)
}

func merge(old, rows []Row) []Row {
	merged := slices.Clone(old)
	for _, r := range rows {
		if i := slices.IndexFunc(merged, func(o Row) bool { return o.Name() == r.Name() }); i >= 0 {
			merged[i] = r
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

func readResults(dir string) (all []Results, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r Results
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, err
}

func table(out io.Writer, rows []Row) {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OPERATOR\tDELETED\tWEBHOOK\tCHECK\tSNAPSHOT\tREALLY\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Situation, r.Deleted, r.Webhook, r.Check, r.Snapshot, r.Really, r.Wrong())
	}
	t.Flush()
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
}

func page(out io.Writer, operators []Operator, results []Results) {
	var rows []Row
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	fmt.Fprintf(out, strings.ReplaceAll(head, "§", "`"), len(results), len(rows), count(rows))
	for _, r := range results {
		i := slices.IndexFunc(operators, func(o Operator) bool { return o.Name == r.Operator })
		if i < 0 {
			continue // no longer in the suite
		}
		o := operators[i]
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n```\n", o.Name, o.About)
		table(out, r.Rows)
		fmt.Fprintf(out, "```\n\n%s.\n", count(r.Rows))
		sources := map[string]string{}
		for _, row := range r.Rows {
			if row.Source != "" {
				sources[row.Name()] = row.Source
			}
		}
		list(out, "Reported by users:", sources)
		list(out, "Known errors:", o.Wrong)
		if o.Undecided != "" {
			fmt.Fprintf(out, "\nFew answers are decisive: %s.\n", o.Undecided)
		}
	}
}

func list(out io.Writer, title string, of map[string]string) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n", title)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(out, "- %s: %s\n", name, of[name])
	}
}

const head = `# Real operators

Reference: is termguard right about operators of other projects?

Other projects wrote these operators. Each is built from its project's Go module, installed with its project's manifests on a
real control plane, and runs as the process of its Deployment's pod, with that pod's rights. Before each deletion, the API server
calls the webhook, and §termguard check§ evaluates the live cluster and a snapshot. Then the object is deleted, and the test
watches it.

OPERATOR is the state of the operator. "Leaves a hang" means that the deletion finishes at once, but then the operator's objects
hang. "Completes" is wrong (a miss) if the deletion hangs or leaves a hang, and "hangs" is wrong (a false alarm) if it completes:
the row says so on the right, and the reason is below the table. If the API server does not call the webhook, which §termguard
check§ reports, no answer is counted: docs/limits.md lists these requests.

%d operators, %d deletions: %s.

To repeat it, as root:

§§§console
$ make operators                # some minutes for each, once it is built
$ make operators OPERATORS=kro
§§§
`

type counts struct{ answers, decisive, misses, falseAlarms, cautious int }

func count(rows []Row) (c counts) {
	for _, r := range rows {
		for _, a := range r.answers() {
			c.answers++
			if a.decisive() {
				c.decisive++
			}
			if a.miss() {
				c.misses++
			}
			if a.falseAlarm() {
				c.falseAlarms++
			}
			if a.verdict == scenario.AtRisk && a.really == scenario.Completes {
				c.cautious++
			}
		}
	}
	return c
}

func (c counts) String() string {
	return fmt.Sprintf("%d answers, %d of them decisive (%d %%); %d misses, %d false alarms, %d at-risk that complete",
		c.answers, c.decisive, 100*c.decisive/max(1, c.answers), c.misses, c.falseAlarms, c.cautious)
}
