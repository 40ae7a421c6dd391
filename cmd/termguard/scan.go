package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/scan"
)

// scanFlags holds the flags of the scan command.
type scanFlags struct {
	checkFlags
	namespaces []string
	selector   string
	only       []string
	failOn     string
	whole      bool
}

func newScan() *cobra.Command {
	// The duration of deletions that complete is left out of thousands of them: it costs as much
	// as the rest.
	f := scanFlags{checkFlags: checkFlags{cascade: "background", grace: -1, brief: true}}
	c := &cobra.Command{
		Use:   "scan",
		Short: "Tell what in a cluster could not be deleted now, by cause",
		Long: `Tell what in a cluster could not be deleted now, by cause, and what is Terminating.

It asks of every namespace, CustomResourceDefinition, node (as a drain), Helm release,
volume, claim, and custom resource with finalizers "if this were deleted now?".
Nothing is deleted, and nothing needs to be installed in the cluster. For each thing
that is broken it asks again as if that were fixed, and tells what could be deleted
then. Interrupted, it tells what it knows so far.

Exit codes: 0 nothing that --fail-on asks for, 1 found, 2 error.`,
		Example: `  termguard scan
  termguard scan -n shop -n cart
  termguard scan --namespaces team=shop -o html > scan.html
  termguard scan --snapshot facts.json --all`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	f.target.add(flags)
	f.target.addDial(flags, false)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
	flags.StringArrayVarP(&f.namespaces, "namespace", "n", nil, "only this namespace, and what is in it; for rights in some namespaces only (may be repeated)")
	flags.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "all namespaces, as without it")
	flags.StringVar(&f.selector, "namespaces", "", "only namespaces with these `LABELS`, and what is in them")
	flags.StringSliceVar(&f.only, "only", nil, "ask only about these: "+join(scan.Kinds()))
	flags.StringVarP(&f.output, "output", "o", "text", "text, name (of those that do not complete), json, yaml, jsonpath=TEMPLATE or html (a page that needs nothing else)")
	flags.BoolVar(&f.whole, "all", false, "with -o text: every cause with its evidence and steps, and all that is Terminating")
	flags.StringVar(&f.failOn, "fail-on", scan.FailBroken, "what makes the exit code 1: broken (it certainly holds something), a `VERDICT` (refused, hangs, at-risk, unknown: this or worse), or never")
	flags.StringVar(&f.snapshot, "snapshot", "", snapshotUsage)
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	c.MarkFlagsMutuallyExclusive("namespace", "namespaces", "all-namespaces")
	// A snapshot does not hold the labels that --namespaces selects by.
	for _, other := range []string{"namespaces", "context", "kubeconfig"} {
		c.MarkFlagsMutuallyExclusive("snapshot", other)
	}
	completions(c, &f.target, outputs()...)
	for flag, words := range map[string][]string{"only": words(scan.Kinds()), "fail-on": scan.FailOn()} {
		_ = c.RegisterFlagCompletionFunc(flag, completeWords(words...)) // the flag is there
	}
	return c
}

func words[T ~string](list []T) (words []string) {
	for _, word := range list {
		words = append(words, string(word))
	}
	return words
}

func join[T ~string](list []T) string { return strings.Join(words(list), ", ") }

// known returns an error for a value that is none of a list.
func known(flag, word string, of []string) error {
	if slices.Contains(of, word) {
		return nil
	}
	return fmt.Errorf("--%s is %q: want one of %s%s", flag, word, strings.Join(of, ", "), nearest.Hint(word, of))
}

func outputs() []string { return []string{"text", "name", "json", "yaml", "html"} }

func (f *scanFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	options := scan.Options{}
	data, err := dataWriter(f.output)
	if err == nil && data == nil {
		err = known("output", f.output, outputs())
	}
	if err := errors.Join(err, known("fail-on", f.failOn, scan.FailOn())); err != nil {
		return err
	}
	for _, word := range f.only {
		if err := known("only", word, words(scan.Kinds())); err != nil {
			return err
		}
		options.Only = append(options.Only, scan.Kind(word))
	}
	if f.snapshot != "" {
		options.LeftOut = map[scan.Kind]string{scan.Releases: "Helm releases: their records are Secrets, which a snapshot does not hold"}
	}
	if f.snapshot != "" && slices.Contains(options.Only, scan.Releases) {
		return errors.New("--only releases: a snapshot does not hold the Secrets where Helm keeps its records: ask the cluster")
	}
	var selector labels.Selector
	if f.selector != "" {
		if selector, err = labels.Parse(f.selector); err == nil && selector.Empty() {
			err = errors.New("it selects everything")
		}
		if err != nil {
			return fmt.Errorf("--namespaces %q: %w", f.selector, err)
		}
	}
	engine, facts, deletion, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	options.Delete = deletion
	p := newProgress(stderr, "reading the cluster")
	facts.Progress = p.show
	places, of, err := f.read(ctx, facts, selector, options.Only, stderr)
	p.clear()
	if err != nil {
		return err
	}
	options.Of = of
	if ctx.Err() != nil { // interrupted while it read: of that it asks
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	}
	asked := newProgress(stderr, "asking the policies")
	options.Progress = asked.show
	found := scan.Run(ctx, engine, places, options)
	asked.clear()
	if err := f.write(found, data, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if found.Failing(f.failOn) {
		return errFound
	}
	if blind(found, places, options.Only, selector != nil) {
		return errNothing
	}
	return nil
}

// blind reports whether nothing was evaluated because the objects, of the kinds only (nil for all) and in the
// selected namespaces, could not be listed.
func blind(found *scan.Scan, places []*scan.Place, only []scan.Kind, selected bool) bool {
	if found.Total().Asked > 0 || found.Interrupted != "" {
		return false
	}
	if len(only) == 0 && !selected {
		return len(found.Unseen) > 0
	}
	if selected {
		only = append(slices.Clone(only), scan.Namespaces)
	}
	return slices.ContainsFunc(places, func(p *scan.Place) bool { return slices.ContainsFunc(only, p.Unlisted) })
}

// errNothing is returned to a user who may read nothing: a clean answer would be wrong.
var errNothing = errors.New("nothing could be asked about: ask with rights to list namespaces, or name one in which you have some, with -n")

// read reads the facts, and returns where they come from.
func (f *scanFlags) read(ctx context.Context, facts cluster.Options, selector labels.Selector, only []scan.Kind, stderr io.Writer) (places []*scan.Place, of string, err error) {
	if f.snapshot != "" {
		if err := f.target.open(f.snapshot, stderr); err != nil {
			return nil, "", err
		}
		defer f.target.close()
	}
	config, err := f.config()
	if err != nil {
		return nil, "", err
	}
	facts.MaxNames = maxScanned
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	namespaces := f.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if f.snapshot != "" && only == nil {
		only = slices.DeleteFunc(scan.Kinds(), func(k scan.Kind) bool { return k == scan.Releases })
	}
	for _, namespace := range namespaces {
		if len(places) > 0 && ctx.Err() != nil {
			places[0].NotRead(namespace)
			continue
		}
		place, err := scan.FromCluster(ctx, config, f.target.look(facts), namespace, selector, only, log)
		switch {
		case err == nil:
			places = append(places, place)
		case len(places) > 0 && ctx.Err() != nil:
			places[0].NotRead(namespace)
		default:
			return nil, "", err
		}
	}
	if of, _ = f.target.context(); f.snapshot != "" {
		of = f.snapshot
	}
	return places, of, nil
}

// lastWords bounds the evaluation of what was read before an interrupt. A second interrupt ends the process.
const lastWords = 10 * time.Second

// maxScanned bounds the objects of a group that the facts name in a scan, as maxNames does in a check.
const maxScanned = maxNames

// write writes the scan, by data if that is not nil.
func (f *scanFlags) write(s *scan.Scan, data func(any, io.Writer) error, out io.Writer) error {
	switch {
	case data != nil:
		return data(s, out)
	case f.output == "html":
		return s.HTML(out)
	case f.output == "name":
		return s.Blocked(out)
	}
	return s.Page(f.whole).Write(out, styleOf(out))
}

// dataWriter returns the writer of a format for programs; nil for another format.
func dataWriter(output string) (func(value any, out io.Writer) error, error) {
	if template, path := strings.CutPrefix(output, "jsonpath="); path {
		parsed := jsonpath.New("output").AllowMissingKeys(true)
		if err := parsed.Parse(template); err != nil {
			return nil, fmt.Errorf("--output %q: %w", output, err)
		}
		return func(value any, out io.Writer) error {
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			var values any
			if err := json.Unmarshal(text, &values); err != nil {
				return err
			}
			var found strings.Builder
			if err := parsed.Execute(&found, values); err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, printable.But(found.String(), "\n\t"))
			return err
		}, nil
	}
	switch output {
	case "json":
		return writeJSON, nil
	case "yaml":
		return writeYAML, nil
	}
	return nil, nil //nolint:nilnil // it is no such format
}

func writeYAML(value any, out io.Writer) error {
	text, err := json.Marshal(value)
	if err == nil {
		text, err = yaml.JSONToYAML([]byte(printable.JSON(string(text))))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, printable.But(string(text), "\n"))
	return err
}

func writeJSON(value any, out io.Writer) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(out, printable.JSON(text.String()))
	return err
}
