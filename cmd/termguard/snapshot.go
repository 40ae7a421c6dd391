package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/cluster"
)

func newSnapshot() *cobra.Command {
	var (
		target    clusterFlags
		settings  settingsFlags
		namespace string
		timeout   time.Duration
	)
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the facts about a cluster as JSON, for later questions, tests and bug reports",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options, err := settings.facts()
			if err != nil {
				return err
			}
			rest, err := target.config()
			if err != nil {
				return err
			}
			rest.Timeout = timeout
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
			world, err := cluster.Collect(c.Context(), rest, target.look(options), namespace, log)
			if err != nil {
				return err
			}
			return world.WriteSnapshot(c.OutOrStdout())
		},
	}
	target.add(c.Flags())
	target.addDial(c.Flags(), false)
	settings.addConfig(c.Flags())
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "read only this namespace (default: all)")
	c.Flags().DurationVar(&timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	return c
}
