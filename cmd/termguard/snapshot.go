package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/redact"
	"github.com/termguard/termguard/policies"
)

func newSnapshot() *cobra.Command {
	var (
		target    clusterFlags
		settings  settingsFlags
		namespace string
		timeout   time.Duration
		hidden    bool
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
			if !hidden {
				return world.WriteSnapshot(c.OutOrStdout())
			}
			schema, err := policies.FactsSchema()
			if err != nil {
				return err
			}
			return redact.Write(c.OutOrStdout(), schema, world.WriteSnapshot)
		},
	}
	target.add(c.Flags())
	target.addDial(c.Flags(), false)
	settings.addConfig(c.Flags())
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "read only this namespace (default: all)")
	c.Flags().BoolVar(&hidden, "redact", false, "replace names of objects and namespaces by hashes, the same name by the same one; kinds, API groups, finalizers and images stay")
	c.Flags().DurationVar(&timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	return c
}
