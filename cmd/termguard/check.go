package main

import (
	"context"
	"errors"
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
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// evaluation bounds the policies: a person waits longer than an API server.
const evaluation = 10 * time.Second

// maxNames is more than for a webhook: a person may want all.
const maxNames = 500

const failVerdict, failUnproven = "verdict", "unproven"

type checkFlags struct {
	target       clusterFlags
	settings     settingsFlags
	namespace    string
	cascade      string
	grace        int64
	force        bool
	drain        bool
	evict        bool
	dryRun       bool
	terminating  bool
	everywhere   bool
	all          bool // of TYPE; by a flag of delete, or check TYPE -n NAMESPACE
	output       string
	filenames    []string
	kustomize    []string
	recursive    bool
	labels       string
	fields       string
	helm         bool
	brief        bool // report how long a deletion takes only if that is long
	release      string
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
	flags.BoolVar(&f.drain, "drain", false, "evaluate kubectl drain: whether all pods of the nodes can be evicted, and are deleted")
	flags.BoolVar(&f.evict, "evict", false, "evaluate the eviction of pods, instead of their deletion")
	flags.BoolVar(&f.dryRun, "dry-run-deletes", false, "also send dry runs of the deletion, and of removing the finalizers, with your rights: for the object, or for one object of each kind in the namespace; nothing changes, and running webhooks report what they would refuse")
	flags.BoolVar(&f.terminating, "terminating", false, "evaluate all Terminating objects in the namespace; similar objects share a line, except with -o full or wide")
	outputOf(c, &f.output, "text, full (nothing folded), wide (a line for each object), name (of objects that do not complete), json, yaml, jsonpath=TEMPLATE or dot",
		"text", "full", "wide", "name", "json", "yaml", "jsonpath=TEMPLATE", "dot")
	flags.BoolVar(&f.helm, "helm", false, "with --filename: evaluate helm uninstall, in its order")
	flags.StringVar(&f.release, "release", "", "evaluate helm uninstall of the release `NAME`, by its record in the namespace")
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
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the objects (default: that of the context)")
	flags.StringVar(&f.cascade, "cascade", "background", "deletion of dependents: background, foreground or orphan")
	flags.Int64Var(&f.grace, "grace-period", -1, "grace period in `SECONDS` (default: that of the object)")
	flags.StringArrayVarP(&f.filenames, "filename", "f", nil, "objects in `FILE`, a folder or - (stdin), deleted together as by kubectl delete -f (may be repeated)")
	flags.StringArrayVarP(&f.kustomize, "kustomize", "k", nil, "objects of the kustomization in `FOLDER`, rendered by termguard-render (may be repeated)")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "with --filename: also folders within a folder")
	flags.StringVarP(&f.labels, "selector", "l", "", "objects of TYPE with these `LABELS`, as in kubectl")
	flags.StringVar(&f.fields, "field-selector", "", "objects of TYPE with these `FIELDS`, as in kubectl")
	flags.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "all namespaces, for TYPE or --terminating")
}

func (f *checkFlags) fromFiles() bool { return len(f.filenames)+len(f.kustomize) > 0 }

func (f *checkFlags) selects() bool {
	return f.all || f.labels != "" || f.fields != "" || f.everywhere && !f.terminating
}

var errNoType = errors.New("--selector, --field-selector and --all-namespaces need a TYPE: termguard check pods -l app=web")

// valid rejects contradicting flags, and a selector that selects everything: a script's variable may be
// empty.
func (f *checkFlags) valid(c *cobra.Command) error {
	if c.Flags().Changed("grace-period") && f.grace < 0 {
		return fmt.Errorf("--grace-period is %d: want seconds, 0 or more", f.grace)
	}
	byLabels, err := labels.Parse(f.labels)
	if err != nil {
		return fmt.Errorf("--selector %q: %w", f.labels, err)
	}
	byFields, err := fields.ParseSelector(f.fields)
	if err != nil {
		return fmt.Errorf("--field-selector %q: %w", f.fields, err)
	}
	for name, empty := range map[string]bool{"selector": byLabels.Empty(), "field-selector": byFields.Empty()} {
		if flag := c.Flags().Lookup(name); flag.Changed && empty {
			return fmt.Errorf("--%s %q selects everything: name labels or fields, or omit it", name, flag.Value)
		}
	}
	if f.selects() && (f.terminating || f.drain || f.evict || f.release != "" || f.fromFiles()) {
		return errNoType
	}
	return nil
}

func (f *checkFlags) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	switch named := strings.Join(args, " "); {
	case f.fromFiles() && named != "":
		return fmt.Errorf("%q and --filename: name the object, or the file", named)
	case f.release != "" && named != "":
		return fmt.Errorf("%q and --release: name the object, or the release", named)
	case f.terminating && named != "":
		return fmt.Errorf("%q and --terminating: name the object, or use --terminating alone", named)
	case f.helm && len(f.filenames) != 1:
		return errors.New("--helm needs one --filename; for an installed release, use --release")
	}
	if f.namespace != "" && len(args) == 1 && !strings.Contains(args[0], "/") && !f.drain && !f.evict {
		f.all = true // as with -A, TYPE means all of them: nothing is deleted here
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
	a, err := f.ask(ctx, args, stdin, stderr)
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

type session struct {
	engine  *policies.Engine
	facts   cluster.Options
	options map[string]any
	config  *rest.Config
	log     *slog.Logger
	stderr  io.Writer
	// hearsay names the configuration in the cluster that applies without a flag; "" for none.
	hearsay string
}

func (f *checkFlags) prepare(ctx context.Context, stderr io.Writer) (s session, err error) {
	s = session{stderr: stderr, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	if s.options, err = question.FromFlags(f.cascade, f.grace, f.force); err != nil {
		return s, err
	}
	if s.config, err = f.target.config(); err != nil {
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
	if s.facts, err = config.FactsOptions(); err != nil {
		return s, err
	}
	s.facts.MaxNames = maxNames
	s.facts = f.target.facts(s.facts)
	params := map[string]any{}
	if !f.drain && !f.brief { // for a drain, the nodes show it, not each pod
		// A person wants to know the duration, however short.
		params["slow-termination"] = map[string]any{"seconds": 0}
	}
	maps.Copy(params, config.Params)
	s.engine, err = policies.NewEngine(ctx, set, policies.EngineOptions{
		Params: params, Off: config.Enforcement.Off(set.IDs()), Deadline: evaluation, Lazy: true,
	})
	return s, err
}

func (s session) reading() (facts cluster.Options, clear func()) {
	p := newProgress(s.stderr, "reading the cluster")
	facts = s.facts
	facts.Progress = p.show
	return facts, p.clear
}

func (s session) find(ctx context.Context, q *answer.Question) (*cluster.World, error) {
	facts, clear := s.reading()
	defer clear()
	return q.Find(ctx, s.config, facts, s.log)
}

func (f *checkFlags) ask(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) (a answer.Answer, err error) {
	names, err := f.names(args)
	if err != nil {
		return a, err
	}
	s, err := f.prepare(ctx, stderr)
	if err != nil {
		return a, err
	}
	if f.terminating {
		return f.askTerminating(ctx, s)
	}
	p := newProgress(stderr, "finding the objects")
	q, err := f.question(ctx, s, names, args, stdin)
	p.clear()
	if err != nil {
		return a, err
	}
	world, err := s.find(ctx, &q)
	if err != nil {
		return a, err
	}
	p = newProgress(stderr, "evaluating the policies")
	defer p.clear()
	single := !q.Together && len(q.Names) == 1
	if single && len(q.Missing) > 0 {
		return a, q.Missing[0]
	}
	var unseen []string
	if !f.drain && !f.evict && !f.target.dial {
		if unseen, err = answer.Certificates(ctx, s.config, world, q.Targets, s.options); err != nil {
			return a, err
		}
	}
	if a, err = answer.Ask(ctx, s.engine, world, q); err != nil {
		return a, err
	}
	a.Notes = append(a.Notes, unseen...)
	if !f.drain && !f.evict {
		live := f.target.snapshot == "" // a snapshot answers no dry run
		if single && live {
			a.Guarded(world, q.Targets[0])
		}
		switch {
		case f.dryRun:
			if err := a.DryRun(ctx, s.config, q.Targets[0], s.options); err != nil {
				return a, err
			}
		case single && live:
			a.Unasked(world, q.Targets[0], s.options)
		}
		client, err := answer.Client(s.config)
		if err != nil {
			return a, err
		}
		a.Notes = append(a.Notes, answer.Along(ctx, client, q.Targets)...)
	}
	return a, a.Foresee(ctx, s.engine, world)
}

func (f *checkFlags) askTerminating(ctx context.Context, s session) (a answer.Answer, err error) {
	namespace := ""
	if !f.everywhere {
		if namespace, err = f.target.namespaceOf(f.namespace); err != nil {
			return a, err
		}
	}
	facts, clear := s.reading()
	defer clear()
	return answer.AllTerminating(ctx, s.config, s.engine, facts, namespace, answer.MaxTerminating, s.options, s.log)
}

// names returns the arguments' objects, without namespace.
func (f *checkFlags) names(args []string) ([]answer.Name, error) {
	if f.fromFiles() || f.selects() || f.release != "" || f.terminating {
		return nil, nil
	}
	return answer.ParseNames(args)
}

func (f *checkFlags) question(ctx context.Context, s session, names []answer.Name, args []string, stdin io.Reader) (q answer.Question, err error) {
	namespace, err := f.target.namespaceOf(f.namespace)
	if err != nil {
		return q, err
	}
	switch {
	case f.release != "":
		q, err = answer.FromRelease(ctx, s.config, namespace, f.release)
	case f.helm:
		q, err = answer.FromHelmManifest(f.filenames[0], namespace, stdin)
	case f.fromFiles():
		q, err = f.inFiles(ctx, namespace, stdin)
	case f.selects():
		q, err = f.selected(ctx, s.config, args, namespace)
	default:
		q, err = f.named(ctx, s.config, names, args, namespace)
	}
	if q.Options == nil {
		q.Options = s.options
	}
	return q, err
}

func (f *checkFlags) named(ctx context.Context, config *rest.Config, names []answer.Name, args []string, namespace string) (answer.Question, error) {
	for i := range names {
		names[i].Namespace = namespace
	}
	q := answer.Question{Names: names}
	switch {
	case f.drain:
		q.As = answer.AsDrain
		return q, nil
	case f.evict:
		q.As = answer.AsEvict
		return q, nil
	}
	if q.Together = len(names) > 1; q.Together {
		words := append([]string{"kubectl", "delete"}, args...)
		if f.namespace != "" {
			words = append(words, "-n", f.namespace)
		}
		q.Command = shell.Join(words)
		return q, nil
	}
	if f.dryRun {
		return q, nil
	}
	pruned, more, err := answer.FromInventory(ctx, config, names[0])
	if more {
		return pruned, err
	}
	q.Types = pruned.Types
	return q, err
}

func (f *checkFlags) inFiles(ctx context.Context, namespace string, stdin io.Reader) (q answer.Question, err error) {
	files := answer.Files{Paths: f.filenames, Recursive: f.recursive, Stdin: stdin, Rendered: map[string][]byte{}}
	words := []string{"kubectl", "delete"}
	for _, folder := range f.kustomize {
		objects, err := lint.RenderKustomization(ctx, folder)
		if err != nil {
			return q, err
		}
		files.Rendered[folder] = []byte(objects)
		words = append(words, "-k", folder)
	}
	for _, file := range f.filenames {
		words = append(words, "-f", file)
	}
	if f.recursive {
		words = append(words, "-R")
	}
	q.Together, q.Command = true, shell.Join(words)
	q.Names, err = answer.Names(files, namespace)
	return q, err
}

func (f *checkFlags) selected(ctx context.Context, config *rest.Config, args []string, namespace string) (q answer.Question, err error) {
	if len(args) != 1 || strings.Contains(args[0], "/") {
		return q, errNoType
	}
	if f.everywhere {
		namespace = ""
	}
	q, err = answer.Selected(ctx, config, strings.Split(args[0], ","), namespace, f.labels, f.fields)
	if err == nil && len(q.Names) == 0 {
		err = fmt.Errorf("no %s matches the selection", args[0])
	}
	return q, err
}
