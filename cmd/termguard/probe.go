package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/probe"
	"github.com/termguard/termguard/probe/report"
)

func newProbe() *cobra.Command {
	var (
		target    clusterFlags
		options   probe.Options
		output    string
		namespace string
		writes    bool
		tells     bool
		every     time.Duration
	)
	c := &cobra.Command{
		Use:   "probe",
		Short: "Look at this node for what keeps pods from going and the API does not show",
		Long: `Look at this node for what keeps pods from going and the API does not show: files that
nobody can remove, mounts in volumes, processes that cannot be killed, a container runtime
that does not answer, file systems that are full or read-only.

Run it as root on a node, in the first process's PID and mount namespaces. It changes
nothing and opens no file of a pod. With --report, it writes what it found into a ConfigMap
in termguard's namespace, from which termguard check and the webhook know it before a delete.

With -o plugin, it is a custom plugin of node-problem-detector: one line, and these exit codes.

Exit codes: 0 nothing found, 1 something found, 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"text", "json", "plugin"}, output) {
				return fmt.Errorf("unknown output %q: use text, json or plugin", output)
			}
			if tells && !writes {
				return fmt.Errorf("--condition goes with --report")
			}
			if writes && options.Node == "" {
				return fmt.Errorf("--report needs the name of the node in the cluster: --node")
			}
			if err := probe.Yield(); err != nil && !errors.Is(err, errors.ErrUnsupported) { // it looks nevertheless
				fmt.Fprintf(c.ErrOrStderr(), "termguard: %v\n", err)
			}
			deliver := func(ctx context.Context, r report.Report) error { return writeProbe(c.OutOrStdout(), r, output) }
			if writes {
				rest, err := target.config()
				if err != nil {
					return err
				}
				client, err := kubernetes.NewForConfig(rest)
				if err != nil {
					return fmt.Errorf("connect to the cluster: %w", err)
				}
				teller := report.Teller{Client: client.CoreV1()}
				deliver = func(ctx context.Context, r report.Report) error {
					err := report.Write(ctx, client.CoreV1().ConfigMaps(namespace), r)
					if tells {
						err = errors.Join(err, teller.Tell(ctx, r, pluginLine(r)))
					}
					return err
				}
			}
			return probeAgain(c.Context(), options, every, deliver, c.ErrOrStderr())
		},
	}
	target.add(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "text", "text, json, or plugin: one line for node-problem-detector")
	c.Flags().StringVar(&options.Node, "node", os.Getenv("NODE_NAME"), "name of this node in the cluster; NODE_NAME in the environment")
	c.Flags().StringVar(&options.Root, "root", "/", "where the node's file system is")
	c.Flags().StringVar(&options.Kubelet, "kubelet-dir", "/var/lib/kubelet", "the kubelet's directory (its --root-dir)")
	c.Flags().StringVar(&options.Logs, "pod-logs-dir", "/var/log/pods", "directory of the pods' logs")
	c.Flags().StringVar(&options.Runtime, "runtime-socket", "/run/containerd/containerd.sock", "CRI socket of the container runtime")
	c.Flags().StringVar(&options.RuntimeData, "runtime-dir", "/var/lib/containerd", "directory of the container runtime")
	c.Flags().IntVar(&options.MaxFiles, "max-files", 200_000, "files in volumes to look at, at most")
	c.Flags().IntVar(&options.FilesPerSecond, "files-per-second", 8_000, "how fast to look at files, at most")
	c.Flags().BoolVar(&writes, "report", false, "write the report into the ConfigMap "+report.Prefix+"NODE instead of printing it")
	c.Flags().BoolVar(&tells, "condition", false, "keep the condition "+report.Condition+" of the node current, too, and tell of its changes in events")
	c.Flags().StringVar(&namespace, "namespace", "termguard-system", "namespace that termguard runs in")
	completions(c, &target, "text", "json", "plugin")
	c.Flags().DurationVar(&every, "every", 0, "look again after this time, until told to stop; 0 looks once")
	return c
}

// probeAgain looks once, or again and again.
func probeAgain(ctx context.Context, options probe.Options, every time.Duration, deliver func(context.Context, report.Report) error, stderr io.Writer) error {
	for {
		r, err := probe.Look(ctx, options)
		if err == nil {
			err = deliver(ctx, r)
		}
		if every == 0 {
			return cmp.Or(err, map[bool]error{true: errFound}[len(r.Holding()) > 0])
		}
		if err != nil && ctx.Err() == nil { // the next look may succeed
			fmt.Fprintf(stderr, "termguard: %s\n", printable.Line(err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// whomOf is the pod that a finding is about.
func whomOf(f report.Finding) string {
	switch {
	case f.Pod == nil:
		return "every pod of this node"
	case f.Pod.Name == "":
		return "pod with UID " + f.Pod.UID
	}
	return "pod " + f.Pod.Namespace + "/" + f.Pod.Name
}

// maxPluginLine is how many bytes node-problem-detector reads unless it is told otherwise
// (max_output_length, pkg/custompluginmonitor/types/config.go).
const maxPluginLine = 80

// pluginLine tells of the first finding, and how many there are: what a custom plugin of
// node-problem-detector says.
func pluginLine(r report.Report) string {
	all := r.Holding()
	if len(all) == 0 {
		return "nothing keeps pods from going"
	}
	more := ""
	if len(all)+r.Omitted > 1 {
		more = fmt.Sprintf(" (+%d)", len(all)+r.Omitted-1)
	}
	line := printable.Line(fmt.Sprintf("%s: %s", all[0].Cause, whomOf(all[0])))
	if room := maxPluginLine - len(more); len(line) > room {
		line = strings.ToValidUTF8(line[:room-len("…")], "") + "…"
	}
	return line + more
}

// writeProbe prints a report. What it quotes anybody may have named.
func writeProbe(out io.Writer, r report.Report, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	if output == "plugin" {
		_, err := io.WriteString(out, pluginLine(r)+"\n")
		return err
	}
	var text strings.Builder
	for _, f := range r.Findings {
		whom := whomOf(f)
		says := map[report.Certainty]string{report.Will: "will hang", report.May: "may hang", report.Note: "note"}[f.Certainty]
		fmt.Fprintf(&text, "%s: %s: %s [%s]\n", printable.Line(whom), says, printable.Line(f.Evidence), f.Cause)
		if f.Remedy != "" {
			fmt.Fprintf(&text, "  %s\n", printable.Line(f.Remedy))
		}
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&text, "and %d more\n", r.Omitted)
	}
	fmt.Fprintf(&text, "looked at %d pods and %d files\n", r.Pods, r.Files)
	for _, u := range r.Unseen {
		fmt.Fprintf(&text, "not seen: %s\n", printable.Line(u))
	}
	_, err := io.WriteString(out, text.String())
	return err
}
