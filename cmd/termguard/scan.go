package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/termguard/termguard/scan"
)

type scanFlags struct {
	checkFlags
	namespaces []string
	selector   string
	only       []string
	whole      bool
}

func newScan() *cobra.Command {
	// The duration of thousands of deletions that complete would cost as much as the rest.
	f := scanFlags{checkFlags: checkFlags{cascade: "background", grace: -1, brief: true}}
	c := &cobra.Command{
		Use:   "scan",
		Short: "Show what in a cluster could not be deleted now, by cause",
		Long: `Show what in a cluster could not be deleted now, by cause, and what is Terminating.

It evaluates a deletion of every namespace, CustomResourceDefinition, node (as a drain),
Helm release, volume, claim, and custom resource with finalizers. Nothing is deleted,
and nothing needs to be installed in the cluster. For each broken thing, it evaluates
again as if that were fixed, and counts the objects that this unblocks. If interrupted,
it shows a partial answer.

Exit codes: 0 nothing that --fail-on names, 1 found, 2 error.`,
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
	f.addRead(flags)
	flags.StringArrayVarP(&f.namespaces, "namespace", "n", nil, "only this namespace and its content; for rights in some namespaces only (may be repeated)")
	flags.BoolVarP(&f.Everywhere, "all-namespaces", "A", false, "all namespaces (the default)")
	flags.StringVar(&f.selector, "namespaces", "", "only namespaces with these `LABELS`, and their content")
	flags.StringSliceVar(&f.only, "only", nil, "evaluate only these: "+strings.Join(kinds(), ", "))
	outputOf(c, &f.output, "text, name (of objects that do not complete), json, yaml, jsonpath=TEMPLATE or html (a self-contained page)", "text", "name", "json", "yaml", "jsonpath=TEMPLATE", "html")
	flags.BoolVar(&f.whole, "all", false, "with -o text: every cause with its evidence and steps, and all Terminating objects")
	oneOf(c, &f.failOn, "fail-on", "", "condition for exit code 1: broken (a cause certainly blocks something), a `VERDICT` (refused, hangs, at-risk, unknown: this or worse), or never", scan.FailOn()...)
	c.MarkFlagsMutuallyExclusive("namespace", "namespaces", "all-namespaces")
	f.target.addSnapshot(c, "namespaces") // it lacks the labels for --namespaces
	completions(c, &f.target)
	_ = c.RegisterFlagCompletionFunc("only", completeWords(kinds()...)) // the flag is there
	return c
}

func kinds() (words []string) {
	for _, kind := range scan.Kinds() {
		words = append(words, string(kind))
	}
	return words
}

func (f *scanFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	options := scan.Options{}
	data, err := dataWriter(f.output)
	if err != nil {
		return err
	}
	for _, word := range f.only {
		if !slices.Contains(kinds(), word) {
			return fmt.Errorf("--only is %q: %w", word, want(word, kinds()))
		}
		options.Only = append(options.Only, scan.Kind(word))
	}
	switch {
	case f.target.snapshot == "":
	case len(options.Only) == 0:
		options.LeftOut = []string{"Helm releases: their records are Secrets, which a snapshot does not hold"}
	case slices.Contains(options.Only, scan.Releases):
		return errors.New("--only releases: a snapshot does not hold the Secrets where Helm keeps its records: scan the cluster itself")
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
	if err := f.target.open(stderr); err != nil {
		return err
	}
	defer f.target.close()
	s, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	options.Delete = s.Options
	places, err := f.read(ctx, s, selector, options.Only)
	if err != nil {
		return err
	}
	if options.Of = f.target.snapshot; options.Of == "" {
		raw, _ := f.target.loader().RawConfig() // without one it has no name
		options.Of = cmp.Or(f.target.overrides.CurrentContext, raw.CurrentContext)
	}
	if ctx.Err() != nil { // interrupted: evaluate the facts so far
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	}
	p := newProgress(stderr, "evaluating the policies")
	options.Progress = p.show
	result := scan.Run(ctx, s.Engine, places, options)
	p.clear()
	if err := f.write(result, data, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if result.Failing(f.failOn) {
		return errFindings
	}
	if blind(result, places, options.Only, selector != nil) {
		return errNothing
	}
	return nil
}

// blind reports whether nothing was evaluated because objects could not be listed.
func blind(result *scan.Scan, places []*scan.Place, only []scan.Kind, selected bool) bool {
	if result.Total().Objects > 0 || result.Interrupted != "" {
		return false
	}
	if len(only) == 0 && !selected {
		return len(result.Unseen) > 0
	}
	if selected {
		only = append(slices.Clone(only), scan.Namespaces)
	}
	return slices.ContainsFunc(places, func(p *scan.Place) bool { return slices.ContainsFunc(only, p.Unlisted) })
}

// errNothing is for a user who may read nothing: a clean answer would be wrong.
var errNothing = errors.New("nothing could be evaluated: use an account that may list namespaces, or name a namespace in which you have rights, with -n")

func (f *scanFlags) read(ctx context.Context, s session, selector labels.Selector, only []scan.Kind) (places []*scan.Place, err error) {
	defer s.reading()()
	namespaces := f.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if f.target.snapshot != "" && only == nil {
		only = slices.DeleteFunc(scan.Kinds(), func(k scan.Kind) bool { return k == scan.Releases })
	}
	for _, namespace := range namespaces {
		if len(places) > 0 && ctx.Err() != nil {
			places[0].NotRead(namespace)
			continue
		}
		place, err := scan.FromCluster(ctx, s.Config, s.Facts, namespace, selector, only, s.Log)
		switch {
		case err == nil:
			places = append(places, place)
		case len(places) > 0 && ctx.Err() != nil:
			places[0].NotRead(namespace)
		default:
			return nil, err
		}
	}
	return places, nil
}

// lastWords bounds the evaluation after an interrupt.
const lastWords = 10 * time.Second

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
