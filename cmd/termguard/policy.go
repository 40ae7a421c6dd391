package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

func newPolicy() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show policies, and write your own",
		Args:  cobra.NoArgs,
		RunE:  needsCommand,
	}
	c.AddCommand(newPolicyList(), newPolicyExplain(), newPolicyCatalog(),
		newPolicyNew(), newPolicyTest())
	return c
}

func newPolicyList() *cobra.Command {
	var settings settingsFlags
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the policies",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := settings.load()
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(set.Policies(), c.OutOrStdout())
			}
			var list page.Page
			var rows [][]page.Cell
			for _, p := range set.Policies() {
				rows = append(rows, []page.Cell{{Text: p.ID}, {Text: string(p.Severity)}, {Text: triggers(p)}, {Text: p.Title}})
			}
			list.Table([]string{"ID", "SEVERITY", "TRIGGERS", "TITLE"}, rows)
			return list.Write(c.OutOrStdout(), page.Style{})
		},
	}
	settings.addPolicies(c.Flags())
	outputOf(c, &output, "text or json", "text", "json")
	return c
}

func triggers(p policies.Policy) string {
	var names []string
	for _, t := range p.Triggers {
		names = append(names, string(t))
	}
	return strings.Join(names, ",")
}

func newPolicyExplain() *cobra.Command {
	var settings settingsFlags
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a policy",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			set, err := settings.load()
			if err != nil {
				return err
			}
			return explain(c.OutOrStdout(), set.Policies(), args[0])
		},
		ValidArgsFunction: settings.completeID,
	}
	settings.addPolicies(c.Flags())
	return c
}

func newPolicyCatalog() *cobra.Command {
	var settings settingsFlags
	var output string
	c := &cobra.Command{
		Use:   "catalog [WORD...]",
		Short: "List known finalizers and their owners",
		Long: "List known finalizers and their owners: those in the binary and those of the configuration.\n" +
			"With WORDs, only entries whose finalizer, resources or owner contain each of them. The catalog explains\n" +
			"and hints: evidence from the cluster outweighs it.",
		RunE: func(c *cobra.Command, args []string) error {
			options, err := settings.facts()
			if err != nil {
				return err
			}
			entries := slices.Clone(cmp.Or(options.Catalog, catalog.Default()).Entries())
			for _, word := range args {
				word = strings.ToLower(word)
				entries = slices.DeleteFunc(entries, func(e catalog.Entry) bool {
					return !strings.Contains(strings.ToLower(e.Key()+" "+strings.Join(e.On, " ")+" "+e.Owner), word)
				})
			}
			if len(entries) == 0 {
				return fmt.Errorf("the catalog has no entry with %q in finalizer, resources or owner; add one under catalog in the configuration", strings.Join(args, " "))
			}
			if output == "json" {
				return writeJSON(entries, c.OutOrStdout())
			}
			return catalogPage(entries).Write(c.OutOrStdout(), page.Style{})
		},
	}
	settings.addConfig(c.Flags())
	outputOf(c, &output, "text, or json: also the resources, and the needs and workloads of the owner", "text", "json")
	return c
}

// catalogColumn leaves the rest of 80 characters to the owners.
const catalogColumn = 46

func catalogPage(entries []catalog.Entry) *page.Page {
	var p page.Page
	line := func(finalizer, owner string) {
		if len(finalizer) > catalogColumn {
			p.Line("%s", finalizer) // whole, as people search for it
			finalizer = ""
		}
		p.Line("%-*s  %s", catalogColumn, finalizer, printable.Cut(owner, 80-catalogColumn-2))
	}
	line("FINALIZER", "REMOVED BY")
	for i, e := range entries {
		if i == 0 || e.Key() != entries[i-1].Key() || e.Owner != entries[i-1].Owner { // else only the JSON differs
			line(e.Key(), e.Owner)
		}
	}
	return &p
}

func explain(out io.Writer, all []policies.Policy, id string) error {
	var ids []string
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	at := slices.Index(ids, id)
	if at < 0 {
		return fmt.Errorf("policy %q not found%s (see: termguard policy list)", id, nearest.Hint(id, ids))
	}
	p := all[at]
	var text page.Page
	text.Line("%s: %s", p.ID, p.Title)
	evaluated := ""
	if len(p.Triggers) > 0 {
		evaluated = ", evaluated on " + triggers(p)
		if slices.Contains(p.Triggers, policies.Apply) {
			evaluated += " (apply only by lint)"
		}
	}
	text.Line("severity %s%s", p.Severity, evaluated)
	for _, part := range []struct{ title, text string }{
		{"What hangs", p.Description}, {"The way out", p.Remedy}, {"In a manifest", p.Manifest.Remedy}, {"What it cannot see", p.Limits},
	} {
		if part.text != "" {
			text.Blank()
			text.Line("%s", part.title)
			text.Item("  ", "%s", strings.Join(strings.Fields(part.text), " "))
		}
	}
	text.Blank()
	text.Line("Sources")
	for _, r := range p.RelatedResources {
		text.Item("  ", "%s %s", r.Ref, r.Description)
	}
	return text.Write(out, page.Style{Width: 80})
}
