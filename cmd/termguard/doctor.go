package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/doctor"
	"github.com/termguard/termguard/internal/printable"
)

func newDoctor() *cobra.Command {
	var (
		target  clusterFlags
		options doctor.Options
		output  string
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that the webhook works, and show how to repair it",
		Long: `Check that the webhook works in a cluster, and show how to repair it.

It changes nothing. It reads, and sends one dry run, which the webhook answers with its
status by the path of a review.

Exit codes: 0 it works, 1 a check failed, or whether it works is unseen, 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rest, err := target.config()
			if err != nil {
				return err
			}
			options.Version = versionOf()
			report, err := doctor.Examine(c.Context(), rest, options)
			if err != nil {
				return err
			}
			if output == "json" {
				err = writeJSON(report, c.OutOrStdout())
			} else {
				err = writeReport(c.OutOrStdout(), report)
			}
			return cmp.Or(err, findings(!report.Healthy))
		},
	}
	target.addWithTimeout(c.Flags(), 10*time.Second)
	c.Flags().StringVar(&options.Namespace, "namespace", "termguard-system", "namespace that termguard runs in")
	c.Flags().StringVar(&options.Configuration, "webhook-configuration", "termguard", "its ValidatingWebhookConfiguration")
	outputOf(c, &output, "text or json", "text", "json")
	completions(c, &target)
	return c
}

func writeReport(out io.Writer, report doctor.Report) error {
	write := func(mark, name, text string) {
		fmt.Fprintf(out, "%-8s %-14s %s\n", mark, name, printable.Line(text))
	}
	if len(report.Checks) == 1 { // not installed
		_, err := fmt.Fprintln(out, printable.Line(report.Checks[0].Says))
		return err
	}
	failed := 0
	for _, c := range report.Checks {
		if c.Result == doctor.Failed {
			failed++
		}
		write(string(c.Result), c.Name, c.Says)
		for _, more := range c.Also {
			write("", "", "- "+more)
		}
		if c.Do != "" {
			write("", "", "next: "+c.Do)
		}
		if c.More != "" && c.Result != doctor.Unseen {
			write("", "", "more: "+c.More)
		}
	}
	summary := "termguard works"
	switch {
	case failed > 0:
		summary = fmt.Sprintf("%d of %d checks failed", failed, len(report.Checks))
	case !report.Healthy:
		summary = "unseen: whether termguard works"
	}
	_, err := fmt.Fprintf(out, "\n%s\n", summary)
	return err
}
