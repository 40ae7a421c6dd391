package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/doctor"
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
				err = styled(report.Page(), c.OutOrStdout())
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
