package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/teardown"
)

// planning are the flags of the plan command.
type planning struct{ checking }

// planForms are the words for --output.
func planForms() []string { return []string{"text", "full", "json", "yaml", "shell", "argocd"} }

func newPlan() *cobra.Command {
	f := planning{checking{cascade: "background", grace: -1}}
	c := &cobra.Command{
		Use:   "plan NAMESPACE... [TYPE/NAME...] | --release NAME | --all",
		Short: "Print one order in which everything can be deleted, and what may go side by side",
		Long: `Print one order in which everything can be deleted, and what may go side by side.

The order is in waves: what is in one may be deleted at once, the next when all of it is
gone. What has to go before what is what the policies say of each deletion; the order is
then asked about as one command, and what still stands in the way is told first. Nothing
is deleted. Only what is named, and what is in it, is in the order; what else has to go
first is told.

Exit codes: 0 everything goes in this order, 1 something stands in the way, or
that is unknown, 2 error.`,
		Example: `  termguard plan shop shop-operator
  termguard plan monitoring apiservices/v1beta1.metrics.k8s.io
  termguard plan --release cert-manager -n cert-manager
  termguard plan --all -o shell > teardown.sh
  termguard plan shop --snapshot facts.json -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: f.target.completeNamespace,
	}
	flags := c.Flags()
	f.target.add(flags)
	f.target.addDial(flags, false)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the release, or of each TYPE/NAME (default: that of the context)")
	flags.StringVar(&f.release, "release", "", "what helm uninstall of the release `NAME` deletes")
	flags.BoolVar(&f.all, "all", false, "everything: namespaces, definitions, APIServices, webhooks, volumes and nodes, too")
	flags.StringVarP(&f.output, "output", "o", "text", "text, full (every object), json, yaml, shell (a script) or argocd (sync waves)")
	flags.StringVar(&f.snapshot, "snapshot", "", "ask this `FILE`, written by termguard snapshot, instead of a cluster")
	flags.BoolVar(&f.allowUnknown, "allow-unknown", false, "exit with 0 where the verdict is unknown")
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	c.MarkFlagsMutuallyExclusive("release", "all")
	for _, other := range []string{"release", "context", "kubeconfig"} {
		c.MarkFlagsMutuallyExclusive("snapshot", other)
	}
	completions(c, &f.target, planForms()...)
	return c
}

func (f *planning) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if err := known("output", f.output, planForms()); err != nil {
		return err
	}
	switch named := strings.Join(args, " "); {
	case named != "" && f.release != "":
		return fmt.Errorf("%q and --release: name the namespaces, or the release", named)
	case named != "" && f.all:
		return fmt.Errorf("%q and --all: name the namespaces, or plan for everything", named)
	case named == "" && f.release == "" && !f.all:
		return errors.New("say what to plan for: NAMESPACE..., --release NAME or --all; see termguard plan --help")
	}
	engine, facts, deletion, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	facts.MaxNames = maxPlanned
	options := teardown.Options{Delete: deletion, Context: f.target.overrides.CurrentContext, Kubeconfig: f.target.kubeconfig}
	scope, err := f.scope(ctx, args, facts, &options, stderr)
	if err != nil {
		return err
	}
	asked := newProgress(stderr, "asking the policies")
	options.Progress = asked.show
	plan, err := teardown.Make(ctx, engine, scope, options)
	asked.clear()
	if err != nil {
		return err
	}
	if err := f.write(plan, stdout); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if plan.Verdict == policies.Completes || plan.Verdict == policies.Unknown && f.allowUnknown {
		return nil
	}
	return errFound
}

// maxPlanned bounds the names that the facts hold of a group of objects: each object has a
// place in the order.
const maxPlanned = 10_000

// scope is what the plan is for.
func (f *planning) scope(ctx context.Context, args []string, facts cluster.Options, options *teardown.Options, stderr io.Writer) (*teardown.Scope, error) {
	var namespaces, objects []string
	for _, arg := range args {
		if strings.Contains(arg, "/") {
			objects = append(objects, arg)
		} else {
			namespaces = append(namespaces, arg)
		}
	}
	options.Of = strings.Join(args, " ")
	if f.all {
		options.Of = "everything"
	}
	var names []check.Name
	if len(objects) > 0 {
		var err error
		if names, err = check.ParseNames(objects); err != nil {
			return nil, err
		}
		within, err := f.within()
		if err != nil {
			return nil, err
		}
		for i := range names {
			names[i].Namespace = within
		}
	}
	if f.snapshot != "" {
		options.Of += ", " + f.snapshot
		world, err := readSnapshot(f.snapshot)
		if err != nil {
			return nil, err
		}
		place, err := scan.FromFacts(world, namespaces...)
		if err != nil {
			return nil, err
		}
		others, missing, err := check.AllFromFacts(world, names)
		if err != nil {
			return nil, err
		}
		return f.scoped(place, namespaces, others, missing)
	}
	config, log, clear, err := f.connect(&facts, stderr)
	if err != nil {
		return nil, err
	}
	defer clear()
	if of, _ := f.target.context(); of != "" {
		options.Of += " (" + of + ")"
	}
	options.Cluster = identity(ctx, config)
	if f.release != "" {
		return f.ofRelease(ctx, config, facts, options, log)
	}
	within := ""
	if len(namespaces) == 1 && len(names) == 0 {
		within = namespaces[0] // enough with rights in it alone
	}
	place, err := scan.FromCluster(ctx, config, f.target.look(facts), within, nil, []scan.Kind{}, log)
	if err != nil {
		return nil, err
	}
	var others []check.Subject
	var missing []error
	if len(names) > 0 {
		if others, missing, err = check.Read(ctx, config, names); err != nil {
			return nil, err
		}
	}
	return f.scoped(place, namespaces, others, missing)
}

func (f *planning) scoped(place *scan.Place, namespaces []string, others []check.Subject, missing []error) (*teardown.Scope, error) {
	switch {
	case len(missing) > 0:
		return nil, missing[0]
	case f.all:
		return teardown.Everything(place)
	}
	return teardown.Namespaces(place, namespaces, others...)
}

// ofRelease is what the uninstall of a release deletes.
func (f *planning) ofRelease(ctx context.Context, config *rest.Config, facts cluster.Options, options *teardown.Options, log *slog.Logger) (*teardown.Scope, error) {
	namespace, err := f.within()
	if err != nil {
		return nil, err
	}
	together, err := check.FromRelease(ctx, config, namespace, f.release)
	if err != nil {
		return nil, err
	}
	subjects, _, world, err := check.AllFromCluster(ctx, config, f.target.look(facts), together, log)
	if err != nil {
		return nil, err
	}
	if world == nil {
		return nil, fmt.Errorf("release %s in namespace %s: none of its objects is there: run %s", f.release, namespace, together.Command)
	}
	options.Of, options.Command = together.Of, together.Command+" --ignore-not-found --wait"
	if options.Kubeconfig != "" {
		options.Command += " --kubeconfig " + shell.Quote(options.Kubeconfig)
	}
	if options.Context != "" {
		options.Command += " --kube-context " + shell.Quote(options.Context)
	}
	return teardown.Of(world, subjects, together.Notes, together.Unseen), nil
}

// identity is the UID of a cluster's own namespace, "" where it may not be read.
func identity(ctx context.Context, config *rest.Config) string {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return ""
	}
	namespace, err := client.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return string(namespace.UID)
}

func (f *planning) write(p *teardown.Plan, out io.Writer) error {
	switch f.output {
	case "shell":
		return p.Script(out)
	case "argocd":
		return p.ArgoCD(out)
	case "json", "yaml":
		return writeData(f.output, p, out)
	}
	var text strings.Builder
	if err := p.Text(&text, f.output == "full"); err != nil {
		return err
	}
	_, err := io.WriteString(out, styleOf(out).Apply(text.String()))
	return err
}

// readSnapshot reads the facts that termguard snapshot wrote.
func readSnapshot(path string) (*cluster.World, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	defer file.Close()
	world, err := snapshots.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return world, nil
}
