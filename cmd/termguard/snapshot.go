package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/page"
)

func newSnapshot() *cobra.Command {
	var (
		target    clusterFlags
		settings  settingsFlags
		namespace string
		hidden    bool
	)
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the facts about a cluster as JSON, for later questions",
		Long: `Write the facts about a cluster as JSON, for later questions, tests and bug reports.

Resources that you may not list are named, and are unseen in the snapshot. Of custom resources with
finalizers, the first few of each kind in each namespace, it has the status conditions, and the objects
that they name, and nothing else of their specs.

Exit codes: 0 written, 1 written and empty, because you may list nothing, 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options, err := settings.facts()
			if err != nil {
				return err
			}
			rest, err := target.config()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
			var kinds atomic.Int64
			p := newProgress(c.ErrOrStderr(), "reading the cluster")
			options.Progress = func(done, of int) {
				kinds.Store(int64(of))
				p.show(done, of)
			}
			out := bufio.NewWriter(c.OutOrStdout())
			stored, err := live.Stored(rest, time.Now) // it holds what they compare, not the Secrets
			if err != nil {
				return err
			}
			recorder := snapshots.NewRecorder(out, time.Now(), hidden)
			rest.Wrap(recorder.Wrap)
			world, err := live.Collect(c.Context(), rest, target.facts(options), nil, namespace, log)
			p.clear()
			if err != nil {
				return err
			}
			err = live.ReadWarnings(c.Context(), rest, world, namespace, log)
			world.TryCertificates(c.Context(), stored, nil)
			for address, handshake := range world.Handshakes() {
				recorder.Handshake(address, handshake)
			}
			if err := errors.Join(err, recorder.Close(), out.Flush()); err != nil {
				return err
			}
			return sayForbidden(c.ErrOrStderr(), world, int(kinds.Load()))
		},
	}
	target.addWithTimeout(c.Flags(), 30*time.Second)
	target.addDial(c.Flags(), false)
	settings.addConfig(c.Flags())
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "read only this namespace (default: all)")
	completions(c, &target)
	c.Flags().BoolVar(&hidden, "redact", false, "replace names of objects and namespaces by hashes, the same name by the same one; kinds, API groups, finalizers and images stay")
	return c
}

// sayForbidden returns errFindings if all kinds are forbidden.
func sayForbidden(stderr io.Writer, world *cluster.World, kinds int) error {
	var names []string
	world.Read(func(f cluster.Facts) {
		for _, hidden := range f.Unseen() {
			if hidden.Reason == "forbidden" {
				names = append(names, hidden.Resource)
			}
		}
	})
	if len(names) == 0 {
		return nil
	}
	const shown = 5
	fmt.Fprintf(stderr, "termguard: unseen: %d of %d kinds (forbidden): %s; the snapshot does not have them. Request the verb list on them\n",
		len(names), kinds, page.List(names, shown))
	if len(names) >= kinds {
		return errFindings
	}
	return nil
}
