package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/probe"
	"github.com/termguard/termguard/probe/report"
)

func newProbe() *cobra.Command {
	var (
		options probe.Options
		output  string
	)
	c := &cobra.Command{
		Use:   "probe",
		Short: "Inspect this node for what blocks the deletion of pods",
		Long: `Inspect this node for what blocks the deletion of pods and is not in the API: files that
cannot be removed, mounts in volumes, processes that cannot be killed, a container runtime
that does not answer, file systems that are full or read-only.

Run it as root on a node, in the PID and mount namespaces of its first process. It changes
nothing and opens no file of a pod. termguard-probe inspects a node at regular intervals,
and reports to termguard (probe.enabled of the chart).

With -o plugin, it is a custom plugin of node-problem-detector: one line, and these exit codes.

Exit codes: 0 nothing found, 1 something found, 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := probe.DropPrivileges(func(err error) { fmt.Fprintf(c.ErrOrStderr(), "termguard: %v\n", err) }); err != nil {
				return err
			}
			r, err := probe.Inspect(c.Context(), options)
			if err == nil {
				err = writeProbe(c.OutOrStdout(), r, output)
			}
			return cmp.Or(err, findings(len(r.Blocking()) > 0))
		},
	}
	outputOf(c, &output, "text, json, or plugin: one line for node-problem-detector", "text", "json", "plugin")
	options.Flags(c.Flags())
	return c
}

func writeProbe(out io.Writer, r report.Report, output string) error {
	switch output {
	case "json":
		return writeJSON(r, out)
	case "plugin":
		_, err := io.WriteString(out, r.Line()+"\n")
		return err
	}
	return styled(r.Page(), out)
}
