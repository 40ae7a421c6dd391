package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// evaluation bounds the policies: a person waits longer than an API server.
const evaluation = 10 * time.Second

// maxNames bounds the objects of a group that the facts name: a person may want to see them all.
const maxNames = 500

// What makes the exit code of check 1.
const failVerdict, failUnproven = "verdict", "unproven"

// checkFlags holds the flags of the check command.
type checkFlags struct {
	target       clusterFlags
	settings     settingsFlags
	namespace    string
	timeout      time.Duration
	cascade      string
	grace        int64
	force        bool
	drain        bool
	dryRun       bool
	terminating  bool
	everywhere   bool
	all          bool // of TYPE; only delete has a flag for it, and for check TYPE -n NAMESPACE says it
	output       string
	filenames    []string
	kustomize    []string
	recursive    bool
	labels       string
	fields       string
	helm         bool
	brief        bool // how long a deletion takes is told only where that is long
	release      string
	snapshot     string
	allowUnknown bool
	failOn       string
	patience     time.Duration // of watching

	// told names the configuration in the cluster that applies without a flag; "" for none.
	told string
}

func newCheck() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check TYPE/NAME... | TYPE -l LABELS | TYPE -n NAMESPACE | -f FILE [--helm] | -k FOLDER | --release NAME | --drain node/NAME... | --terminating [-A]",
		Short: "Tell whether deleting an object would finish, and the way out",
		Long: `Tell whether deleting an object would finish, what blocks it, and the safe way out.

Nothing is deleted, and nothing needs to be installed in the cluster. What may
not be read is named, and the answer is then "unknown" unless something was found.

Exit codes: 0 it completes, 1 it is refused, hangs, may hang, or that
is unknown, 2 error; --fail-on=unproven has 1 also for what completes on
somebody's word alone.`,
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
	flags.BoolVar(&f.force, "force", false, "it would be deleted at once, without a grace period")
	flags.BoolVar(&f.drain, "drain", false, "ask whether kubectl drain would finish: whether all pods of the nodes can be evicted, and go")
	flags.BoolVar(&f.dryRun, "dry-run-deletes", false, "also send dry runs of the deletion, and of the removal of finalizers, with your rights: of the object, or of one of each kind in the namespace; nothing is changed, and webhooks that are up say what they would refuse")
	flags.BoolVar(&f.terminating, "terminating", false, "ask about everything in the namespace that is being deleted now: like objects are one line, with -o full or wide a line each")
	flags.StringVarP(&f.output, "output", "o", "text", "text, full (nothing folded), wide (a line each), name (of those that do not complete), json, yaml, jsonpath=TEMPLATE or dot")
	flags.BoolVar(&f.helm, "helm", false, "with --filename: they are deleted as by helm uninstall, in its order")
	flags.StringVar(&f.release, "release", "", "ask about helm uninstall of the release `NAME`, whose record is read from the namespace")
	flags.StringVar(&f.snapshot, "snapshot", "", snapshotUsage)
	flags.BoolVar(&f.allowUnknown, "allow-unknown", false, "exit with 0 where the verdict is unknown")
	flags.StringVar(&f.failOn, "fail-on", failVerdict, "what makes the exit code 1: verdict (all but completes), or unproven (also where it completes if somebody removes a finalizer who was never seen to)")
	c.MarkFlagsMutuallyExclusive("drain", "filename", "release", "terminating")
	for _, other := range []string{"drain", "filename", "release", "terminating", "snapshot"} {
		c.MarkFlagsMutuallyExclusive("dry-run-deletes", other)
	}
	c.MarkFlagsMutuallyExclusive("all-namespaces", "namespace")
	c.MarkFlagsMutuallyExclusive("snapshot", "release")
	c.MarkFlagsMutuallyExclusive("snapshot", "context")
	c.MarkFlagsMutuallyExclusive("snapshot", "kubeconfig")
	completions(c, &f.target, "dot", "full", "json", "name", "text", "wide", "yaml")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		return cmp.Or(f.valid(c), known("fail-on", f.failOn, []string{failVerdict, failUnproven}))
	}
	return c
}

// addShared adds the flags for the cluster, the policies, the objects and the DeleteOptions.
func (f *checkFlags) addShared(flags *pflag.FlagSet) {
	f.target.add(flags)
	f.target.addDial(flags, false)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the objects (default: that of the context)")
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	flags.StringVar(&f.cascade, "cascade", "background", "how they are deleted: background, foreground or orphan")
	flags.Int64Var(&f.grace, "grace-period", -1, "`SECONDS` that they are given (default: their own)")
	flags.StringArrayVarP(&f.filenames, "filename", "f", nil, "the objects in `FILE`, a folder or - (stdin), together as by kubectl delete -f (may be repeated)")
	flags.StringArrayVarP(&f.kustomize, "kustomize", "k", nil, "the objects of the kustomization in `FOLDER`, rendered by termguard-render (may be repeated)")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "with --filename: also the folders in a folder")
	flags.StringVarP(&f.labels, "selector", "l", "", "the objects of TYPE with these `LABELS`, as for kubectl")
	flags.StringVar(&f.fields, "field-selector", "", "the objects of TYPE with these `FIELDS`, as for kubectl")
	flags.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "objects of TYPE, or with --terminating all, in all namespaces")
}

// fromFiles reports whether files name the objects.
func (f *checkFlags) fromFiles() bool { return len(f.filenames)+len(f.kustomize) > 0 }

// selects reports whether objects are selected by their type.
func (f *checkFlags) selects() bool {
	return f.all || f.labels != "" || f.fields != "" || f.everywhere && !f.terminating
}

// valid returns an error for flags that contradict each other.
func (f *checkFlags) valid(c *cobra.Command) error {
	if c.Flags().Changed("grace-period") && f.grace < 0 {
		return fmt.Errorf("--grace-period is %d: want seconds, 0 or more", f.grace)
	}
	if err := f.selective(c); err != nil {
		return err
	}
	switch other := f.terminating || f.drain || f.release != "" || f.fromFiles(); {
	case f.selects() && other:
		return errors.New("--selector, --field-selector and --all-namespaces go with a TYPE: termguard check pods -l app=web")
	}
	return nil
}

// selective returns an error for a selector that selects everything: a script's variable may be empty.
func (f *checkFlags) selective(c *cobra.Command) error {
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
			return fmt.Errorf("--%s %q selects everything: say what to select, or leave it out", name, flag.Value)
		}
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
		return fmt.Errorf("%q and --terminating: name the object, or ask about all", named)
	case f.helm && len(f.filenames) != 1:
		return errors.New("--helm goes with one --filename; for a release that is installed, use --release")
	}
	if f.namespace != "" && len(args) == 1 && !strings.Contains(args[0], "/") && !f.drain {
		f.all = true // as with -A: nothing is deleted here, so that a type may mean all of them
	}
	write, err := reporter(f.output)
	if err != nil {
		return err
	}
	if f.snapshot != "" {
		if err := f.target.open(f.snapshot, stderr); err != nil {
			return err
		}
		defer f.target.close()
	}
	engine, facts, options, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	answer, err := f.ask(ctx, args, engine, facts, options, stdin, stderr)
	if err != nil {
		return err
	}
	if err := write(answer, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if answer.Verdict == policies.Completes && !(f.failOn == failUnproven && answer.Unproven()) || answer.Verdict == policies.Unknown && f.allowUnknown {
		return nil
	}
	return errFound
}

// prepare loads the policies, the options of the facts and the DeleteOptions.
func (f *checkFlags) prepare(ctx context.Context, stderr io.Writer) (*policies.Engine, cluster.Options, map[string]any, error) {
	fail := func(err error) (*policies.Engine, cluster.Options, map[string]any, error) {
		return nil, cluster.Options{}, nil, err
	}
	options, err := question.FromFlags(f.cascade, f.grace, f.force)
	if err != nil {
		return fail(err)
	}
	p := newProgress(stderr, "reading the policies")
	set, config, notes, err := f.rules(ctx)
	p.clear()
	if err != nil {
		return fail(err)
	}
	for _, note := range notes {
		fmt.Fprintf(stderr, "termguard: %s\n", printable.Line(note))
	}
	facts, err := config.FactsOptions()
	if err != nil {
		return fail(err)
	}
	params := map[string]any{}
	if !f.drain && !f.brief { // of a drain its nodes tell it, and not each of its pods
		// A person wants to know the duration, however short.
		params["slow-termination"] = map[string]any{"seconds": 0}
	}
	maps.Copy(params, config.Params)
	engine, err := policies.NewEngine(ctx, set, policies.EngineOptions{
		Params: params, Off: config.Enforcement.Off(set.IDs()), Deadline: evaluation, Lazy: true,
	})
	if err != nil {
		return fail(err)
	}
	facts.MaxNames = maxNames
	return engine, facts, options, nil
}

// ask finds the objects and evaluates the policies about them.
func (f *checkFlags) ask(ctx context.Context, args []string, engine *policies.Engine, facts cluster.Options, options map[string]any, stdin io.Reader, stderr io.Writer) (answer check.Answer, err error) {
	if f.terminating {
		return f.askTerminating(ctx, engine, facts, options, stderr)
	}
	p := newProgress(stderr, "finding the objects")
	together, err := f.meant(ctx, args, stdin)
	p.clear()
	if err != nil {
		return answer, err
	}
	subjects, missing, world, err := f.find(ctx, together, facts, stderr)
	if err != nil {
		return answer, err
	}
	p = newProgress(stderr, "asking the policies")
	defer p.clear()
	q := check.Question{Targets: subjects, Missing: missing, Options: options}
	single := !f.fromFiles() && !f.selects() && f.release == "" && together.Of == "" && len(together.Names) == 1
	switch {
	case single && len(missing) > 0:
		return answer, missing[0]
	case f.drain:
		q.As = check.AsDrain
	case !single:
		q.Together = &together
	}
	if answer, err = check.Ask(ctx, engine, world, q); err != nil {
		return answer, err
	}
	if !f.drain {
		config, err := f.config()
		if err != nil {
			return answer, err
		}
		asks := f.snapshot == "" // a snapshot answers no dry run
		if single && asks {
			answer.Guarded(world, subjects[0])
		}
		switch {
		case f.dryRun:
			err = answer.DryRun(ctx, config, subjects[0], options)
		case single && asks:
			answer.Unasked(world, subjects[0], options)
		}
		if err != nil {
			return answer, err
		}
		hands, err := check.NewHands(config)
		if err != nil {
			return answer, err
		}
		answer.Notes = append(answer.Notes, hands.Along(ctx, subjects)...)
	}
	return answer, answer.Foresee(ctx, engine, world)
}

// askTerminating evaluates the policies about all Terminating objects.
func (f *checkFlags) askTerminating(ctx context.Context, engine *policies.Engine, facts cluster.Options, options map[string]any, stderr io.Writer) (check.Answer, error) {
	namespace := "" // all
	if !f.everywhere {
		var err error
		if namespace, err = f.within(); err != nil {
			return check.Answer{}, err
		}
	}
	config, log, clear, err := f.connect(&facts, stderr)
	if err != nil {
		return check.Answer{}, err
	}
	defer clear()
	return check.AllTerminating(ctx, config, engine, f.target.look(facts), namespace, check.MaxTerminating, options, log)
}

// config returns the connection to the cluster, with the limit of one request.
func (f *checkFlags) config() (*rest.Config, error) {
	config, err := f.target.config()
	if err == nil {
		config.Timeout = f.timeout
	}
	return config, err
}

// connect prepares to read the cluster; progress is shown until clear.
func (f *checkFlags) connect(facts *cluster.Options, stderr io.Writer) (config *rest.Config, log *slog.Logger, clear func(), err error) {
	if config, err = f.config(); err != nil {
		return nil, nil, nil, err
	}
	p := newProgress(stderr, "reading the cluster")
	facts.Progress = p.show
	return config, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})), p.clear, nil
}

// meant returns the objects that arguments and flags name.
func (f *checkFlags) meant(ctx context.Context, args []string, stdin io.Reader) (together check.Together, err error) {
	if !f.fromFiles() && !f.selects() && f.release == "" {
		if together.Names, err = f.named(args); err != nil {
			return check.Together{}, err
		}
	}
	namespace, err := f.within()
	if err != nil {
		return check.Together{}, err
	}
	switch {
	case f.release != "":
		config, err := f.config()
		if err != nil {
			return check.Together{}, err
		}
		return check.FromRelease(ctx, config, namespace, f.release)
	case f.helm:
		return check.FromHelmManifest(f.filenames[0], namespace, stdin)
	case f.fromFiles():
		return f.inFiles(ctx, namespace, stdin)
	case f.selects():
		return f.selected(ctx, args, namespace)
	}
	for i := range together.Names {
		together.Names[i].Namespace = namespace
	}
	if len(together.Names) > 1 {
		words := append([]string{"kubectl", "delete"}, args...)
		if f.namespace != "" {
			words = append(words, "-n", f.namespace)
		}
		together.Command = shell.Join(words)
	}
	if f.drain || f.dryRun || len(together.Names) != 1 {
		return together, nil
	}
	config, err := f.config()
	if err != nil {
		return check.Together{}, err
	}
	with, more, err := check.FromInventory(ctx, config, together.Names[0])
	if more {
		return with, err
	}
	together.Types = with.Types
	return together, err
}

// inFiles returns the objects that files name.
func (f *checkFlags) inFiles(ctx context.Context, namespace string, stdin io.Reader) (together check.Together, err error) {
	files := check.Files{Paths: f.filenames, Recursive: f.recursive, Stdin: stdin, Rendered: map[string][]byte{}}
	words := []string{"kubectl", "delete"}
	for _, folder := range f.kustomize {
		if files.Rendered[folder], err = rendered(ctx, folder); err != nil {
			return together, err
		}
		words = append(words, "-k", folder)
	}
	for _, file := range f.filenames {
		words = append(words, "-f", file)
	}
	if f.recursive {
		words = append(words, "-R")
	}
	together.Command = shell.Join(words)
	together.Names, err = check.Names(files, namespace)
	return together, err
}

// rendered renders a kustomization by termguard-render, which reads local files only.
func rendered(ctx context.Context, folder string) ([]byte, error) {
	renderer, err := lint.FindRenderer()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, renderer, "kustomization", folder)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // a kustomization sees no secrets of ours
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("render the kustomization in %s: %w: %s", folder, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// selected returns the objects of the types that the argument names.
func (f *checkFlags) selected(ctx context.Context, args []string, namespace string) (together check.Together, err error) {
	if len(args) != 1 || strings.Contains(args[0], "/") {
		return together, errors.New("--selector, --field-selector and --all-namespaces go with a TYPE: termguard check pods -l app=web")
	}
	config, err := f.config()
	if err != nil {
		return together, err
	}
	if f.everywhere {
		namespace = ""
	}
	together, err = check.Selected(ctx, config, strings.Split(args[0], ","), namespace, f.labels, f.fields)
	if err == nil && len(together.Names) == 0 {
		err = fmt.Errorf("no %s is selected", args[0])
	}
	return together, err
}

// named returns the objects that the arguments name.
func (f *checkFlags) named(args []string) ([]check.Name, error) {
	return check.ParseNames(args)
}

// within returns the namespace of objects that are named without one.
func (f *checkFlags) within() (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	if _, err := f.target.config(); err != nil { // which knows what to do about it
		return "", err
	}
	return f.target.namespace()
}

// find reads the objects, and the facts that their deletion depends on.
func (f *checkFlags) find(ctx context.Context, together check.Together, options cluster.Options, stderr io.Writer) ([]check.Subject, []error, *cluster.World, error) {
	config, log, clear, err := f.connect(&options, stderr)
	if err != nil {
		return nil, nil, nil, err
	}
	defer clear()
	return check.AllFromCluster(ctx, config, f.target.look(options), together, log)
}

// reporter returns the writer of an output format.
func reporter(output string) (func(check.Answer, io.Writer) error, error) {
	if write, err := dataWriter(output); write != nil || err != nil {
		return func(a check.Answer, out io.Writer) error { return write(a, out) }, err
	}
	write, known := reporters[output]
	if !known {
		return nil, fmt.Errorf("unknown output %q: use text, full, wide, name, json, yaml, jsonpath=TEMPLATE or dot", output)
	}
	return write, nil
}

// reporters write an answer for people, by output format.
var reporters = map[string]func(check.Answer, io.Writer) error{
	"text": func(r check.Answer, out io.Writer) error { return styled(r.Page(false), out) },
	"full": func(r check.Answer, out io.Writer) error { return styled(r.Page(true), out) },
	"dot":  check.Answer.DOT,
	"wide": func(r check.Answer, out io.Writer) error { return r.Wide().Write(out, page.Style{}) },
	"name": check.Answer.Blocked,
}

// styled writes a page in the style of a stream. A long one repeats its first line at the end.
func styled(p *page.Page, out io.Writer) error {
	style := styleOf(out)
	text := p.In(style)
	if first := p.First(); style.Width > 0 && strings.Count(text, "\n") > screenful && first.String() != "" {
		text += "\n" + first.In(style)
	}
	_, err := io.WriteString(out, text)
	return err
}

// screenful is how many lines a terminal has at least (that of a VT100).
const screenful = 24

// screen is a stream whose style is in part known: --ascii, or its width.
type screen struct {
	io.Writer
	page.Style
}

// drawsBoxes reports whether a terminal shows more than ASCII, by TERM and by its locale (POSIX, 8.2: the
// first variable that is not empty).
func drawsBoxes(system string, getenv func(string) string) bool {
	if term := getenv("TERM"); term == "dumb" || strings.HasPrefix(term, "vt") {
		return false
	}
	locale := strings.ToUpper(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return system == "windows" || strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

// styleOf returns the style of a stream.
func styleOf(out io.Writer) (style page.Style) {
	if known, asked := out.(screen); asked {
		style = styleOf(known.Writer)
		style.ASCII, style.Width = style.ASCII || known.ASCII, max(style.Width, known.Width)
		return style
	}
	style.Color, style.ASCII = colored(out), terminal(out) && !drawsBoxes(runtime.GOOS, os.Getenv)
	if file, ok := out.(*os.File); ok && terminal(out) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			style.Width = width
		}
	}
	return style
}
