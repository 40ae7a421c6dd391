package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shared are kubectl's flags, of all commands that read a cluster.
func shared() *pflag.FlagSet {
	var target clusterFlags
	flags := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	target.add(flags)
	flags.Duration("request-timeout", 30*time.Second, "limit of one request to the cluster")
	return flags
}

// newOptions lists the flags that the help of each command leaves out, as kubectl options does.
func newOptions() *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "Show the flags that commands share", Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			flags := shared()
			flags.AddFlagSet(c.InheritedFlags())
			_, err := fmt.Fprintf(c.OutOrStdout(), "Commands that ask a cluster take these, as kubectl does:\n\n%s", flags.FlagUsages())
			return err
		},
	}
}

// shareOptions leaves the shared flags out of the help of commands.
func shareOptions(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		flags := shared()
		flags.AddFlagSet(root.PersistentFlags())
		flags.VisitAll(func(f *pflag.Flag) {
			if of := c.Flags().Lookup(f.Name); of != nil {
				of.Hidden = true
			}
			f.Hidden = true
		})
		help(c, args)
		fmt.Fprintf(c.OutOrStdout(), "\nUse \"%s options\" for flags that commands share (which cluster, as whom).\n", root.CommandPath())
	})
}
