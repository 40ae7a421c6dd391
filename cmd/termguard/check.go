package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// evaluation bounds the policies: a person waits longer than an API server.
const evaluation = 10 * time.Second

// maxNames is more than for a webhook: a person may want all.
const maxNames = 500

const failVerdict, failUnproven = "verdict", "unproven"

type checkFlags struct {
	answer.Flags
	target       clusterFlags
	settings     settingsFlags
	cascade      string
	grace        int64
	force        bool
	output       string
	brief        bool // report how long a deletion takes only if that is long
	allowUnknown bool
	failOn       string
	patience     time.Duration // of watching
}

func newCheck() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check TYPE/NAME... | TYPE -l LABELS | TYPE -n NAMESPACE | -f FILE [--helm] | -k FOLDER | --release NAME | --drain node/NAME... | --evict pod/NAME... | --terminating [-A]",
		Short: "Show whether deleting an object would finish, and what blocks it",
		Long: `Show whether deleting an object would finish, what blocks it, and how to unblock it safely.

Nothing is deleted, and nothing needs to be installed in the cluster. Facts that
you may not read are listed as unseen, and the verdict is then "unknown" unless
something else decides it.

Exit codes: 0 the deletion completes; 1 it is refused, hangs or may hang, or the
verdict is unknown; 2 error. With --fail-on=unproven, 1 also if it completes only
once an owner does what it was never seen to do.`,
		Example: `  termguard check namespaces/demo
  termguard check pod web-0 -n demo --grace-period=5
  termguard check ns/shop ns/cart pod/web-0
  termguard check pods -l app=web -A -o wide
  termguard check -f manifests/ -R
  termguard check --release cert-manager -n cert-manager
  helm get manifest cert-manager -n cert-manager | termguard check -f - --helm -n cert-manager
  termguard check --drain node/worker-1 node/worker-2
  termguard check --terminating -A
  termguard check ns/demo --snapshot facts.json -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: f.complete,
	}
	flags := c.Flags()
	f.addShared(flags)
	flags.BoolVar(&f.force, "force", false, "evaluate a deletion without a grace period")
	flags.BoolVar(&f.Drain, "drain", false, "evaluate kubectl drain: whether all pods of the nodes can be evicted, and are deleted")
	flags.BoolVar(&f.Evict, "evict", false, "evaluate the eviction of pods, instead of their deletion")
	flags.BoolVar(&f.Terminating, "terminating", false, "evaluate all Terminating objects in the namespace; similar objects share a line, except with -o full or wide")
	outputOf(c, &f.output, "text, full (nothing folded), wide (a line for each object), name (of objects that do not complete), json, yaml, jsonpath=TEMPLATE or dot",
		"text", "full", "wide", "name", "json", "yaml", "jsonpath=TEMPLATE", "dot")
	flags.BoolVar(&f.Helm, "helm", false, "with --filename: evaluate helm uninstall, in its order")
	flags.StringVar(&f.Release, "release", "", "evaluate helm uninstall of the release `NAME`, by its record in the namespace")
	f.target.addSnapshot(c, "release")
	flags.BoolVar(&f.allowUnknown, "allow-unknown", false, "exit with 0 if the verdict is unknown")
	oneOf(c, &f.failOn, "fail-on", "", "condition for exit code 1: verdict (any but completes), or unproven (also if it depends on the owner of a finalizer that was never seen to remove it)", failVerdict, failUnproven)
	c.MarkFlagsMutuallyExclusive("drain", "evict", "filename", "release", "terminating")
	for _, other := range []string{"drain", "evict", "filename", "release", "terminating", "snapshot"} {
		c.MarkFlagsMutuallyExclusive("dry-run-deletes", other)
	}
	c.MarkFlagsMutuallyExclusive("all-namespaces", "namespace")
	completions(c, &f.target)
	c.PreRunE = func(c *cobra.Command, _ []string) error { return f.valid(c) }
	return c
}

func (f *checkFlags) addRead(flags *pflag.FlagSet) {
	f.target.addWithTimeout(flags, 30*time.Second)
	f.target.addDial(flags, false)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
}

func (f *checkFlags) addShared(flags *pflag.FlagSet) {
	f.addRead(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the objects (default: that of the context)")
	flags.StringVar(&f.cascade, "cascade", "background", "deletion of dependents: background, foreground or orphan")
	flags.Int64Var(&f.grace, "grace-period", -1, "grace period in `SECONDS` (default: that of the object)")
	flags.StringArrayVarP(&f.Filenames, "filename", "f", nil, "objects in `FILE`, a folder or - (stdin), deleted together as by kubectl delete -f (may be repeated)")
	flags.StringArrayVarP(&f.Kustomize, "kustomize", "k", nil, "objects of the kustomization in `FOLDER`, rendered by termguard-render (may be repeated)")
	flags.BoolVarP(&f.Recursive, "recursive", "R", false, "with --filename: also folders within a folder")
	flags.StringVarP(&f.Labels, "selector", "l", "", "objects of TYPE with these `LABELS`, as in kubectl")
	flags.StringVar(&f.Fields, "field-selector", "", "objects of TYPE with these `FIELDS`, as in kubectl")
	flags.BoolVar(&f.DryRuns, "dry-run-deletes", false, "also send dry runs of the deletion, and of removing the finalizers, with your rights: for the object, or for one object of each kind in the namespace; nothing changes, and running webhooks report what they would refuse")
	flags.BoolVarP(&f.Everywhere, "all-namespaces", "A", false, "all namespaces, for TYPE or --terminating")
}

// valid rejects contradicting flags, and a selector that selects everything: a script's variable may be
// empty.
func (f *checkFlags) valid(c *cobra.Command) error {
	if c.Flags().Changed("grace-period") && f.grace < 0 {
		return fmt.Errorf("--grace-period is %d: want seconds, 0 or more", f.grace)
	}
	byLabels, err := labels.Parse(f.Labels)
	if err != nil {
		return fmt.Errorf("--selector %q: %w", f.Labels, err)
	}
	byFields, err := fields.ParseSelector(f.Fields)
	if err != nil {
		return fmt.Errorf("--field-selector %q: %w", f.Fields, err)
	}
	for name, empty := range map[string]bool{"selector": byLabels.Empty(), "field-selector": byFields.Empty()} {
		if flag := c.Flags().Lookup(name); flag.Changed && empty {
			return fmt.Errorf("--%s %q selects everything: name labels or fields, or omit it", name, flag.Value)
		}
	}
	if f.Selects() && (f.Terminating || f.Drain || f.Evict || f.Release != "" || f.FromFiles()) {
		return answer.ErrNoType
	}
	return nil
}

func (f *checkFlags) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if f.Namespace != "" && len(args) == 1 && !strings.Contains(args[0], "/") && !f.Drain && !f.Evict {
		f.All = true // as with -A, TYPE means all of them: nothing is deleted here
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	write := reporters[f.output]
	if data, err := dataWriter(f.output); err != nil {
		return err
	} else if data != nil {
		write = func(a answer.Answer, out io.Writer) error { return data(a, out) }
	}
	if err := f.target.open(stderr); err != nil {
		return err
	}
	defer f.target.close()
	s, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	a, err := f.ask(ctx, s, stdin)
	if err != nil {
		return err
	}
	if err := write(a, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	switch a.Verdict {
	case policies.Completes:
		return findings(f.failOn == failUnproven && a.Unproven())
	case policies.Unknown:
		return findings(!f.allowUnknown)
	}
	return errFindings
}

func (f *checkFlags) ask(ctx context.Context, s session, stdin io.Reader) (a answer.Answer, err error) {
	if f.Terminating {
		return f.askTerminating(ctx, s)
	}
	q, err := f.question(ctx, s, stdin)
	if err != nil {
		return a, err
	}
	a, _, err = s.answer(ctx, &q)
	if !q.Together && len(q.Names) == 1 && len(q.Missing) > 0 {
		err = q.Missing[0]
	}
	return a, err
}

func (f *checkFlags) askTerminating(ctx context.Context, s session) (a answer.Answer, err error) {
	namespace := ""
	if !f.Everywhere {
		if namespace, err = f.target.namespaceOf(f.Namespace); err != nil {
			return a, err
		}
	}
	defer s.reading()()
	return s.AllTerminating(ctx, namespace, answer.MaxTerminating)
}

func (f *checkFlags) question(ctx context.Context, s session, stdin io.Reader) (answer.Question, error) {
	namespace, err := f.target.namespaceOf(f.Namespace)
	if err != nil {
		return answer.Question{}, err
	}
	p := newProgress(s.stderr, "finding the objects")
	defer p.clear()
	return f.Question(ctx, s.Session, namespace, stdin, sets.RenderKustomization)
}

// session answers the questions of one command, and shows its progress.
type session struct {
	answer.Session
	stderr io.Writer
	// hearsay names the configuration in the cluster that applies without a flag; "" for none.
	hearsay string
}

func (f *checkFlags) prepare(ctx context.Context, stderr io.Writer) (s session, err error) {
	s.stderr, s.Snapshot = stderr, f.target.snapshot != ""
	s.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if s.Options, err = question.FromFlags(f.cascade, f.grace, f.force); err != nil {
		return s, err
	}
	if s.Config, err = f.target.config(); err != nil {
		return s, err
	}
	p := newProgress(stderr, "reading the policies")
	set, config, notes, err := f.rules(ctx, &s)
	p.clear()
	if err != nil {
		return s, err
	}
	for _, note := range notes {
		fmt.Fprintf(stderr, "termguard: %s\n", printable.Line(note))
	}
	if s.Facts, err = config.FactsOptions(); err != nil {
		return s, err
	}
	s.Facts.MaxNames = maxNames
	s.Facts = f.target.facts(s.Facts)
	params := map[string]any{}
	if !f.Drain && !f.brief { // for a drain, the nodes show it, not each pod
		// A person wants to know the duration, however short.
		params["slow-termination"] = map[string]any{"seconds": 0}
	}
	maps.Copy(params, config.Params)
	s.Engine, err = policies.NewEngine(ctx, set, policies.EngineOptions{
		Params: params, Off: config.Enforcement.Off(set.IDs()), Deadline: evaluation, Lazy: true,
	})
	return s, err
}

// reading shows that the cluster is read, until clear.
func (s *session) reading() (clear func()) {
	p := newProgress(s.stderr, "reading the cluster")
	s.Facts.Progress = p.show
	return p.clear
}

// answer reads the objects of a question, and judges by the facts that it returns, too: none if all are missing.
func (s session) answer(ctx context.Context, q *answer.Question) (a answer.Answer, world *cluster.World, err error) {
	clear := s.reading()
	world, err = s.Find(ctx, q)
	clear()
	if err != nil {
		return a, nil, err
	}
	p := newProgress(s.stderr, "evaluating the policies")
	defer p.clear()
	a, err = s.Judge(ctx, world, *q)
	return a, world, err
}
