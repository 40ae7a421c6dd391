package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/check"
)

// completing bounds the wait of a shell.
const completing = 3 * time.Second

// noFiles has the shell complete no file names.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// completions registers the values of flags that several commands have; outputs are those of --output.
func completions(c *cobra.Command, target *clusterFlags, outputs ...string) {
	for name, complete := range map[string]cobra.CompletionFunc{
		"cascade":   completeWords("background", "foreground", "orphan"),
		"context":   target.completeContext,
		"namespace": target.completeNamespace,
		"output":    completeWords(outputs...),
	} {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, complete) // the flag is there
		}
	}
}

func (f *clusterFlags) completeContext(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	raw, err := f.loader().RawConfig()
	if err != nil {
		return nil, noFiles
	}
	return beginning(slices.Sorted(maps.Keys(raw.Contexts)), begun), noFiles
}

func (f *clusterFlags) completeNamespace(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completing)
	defer cancel()
	config, err := f.config()
	if err != nil {
		return nil, noFiles
	}
	selected, err := check.Selected(ctx, config, []string{"namespaces"}, "", "", "")
	if err != nil {
		return nil, noFiles
	}
	var names []string
	for _, namespace := range selected.Names {
		names = append(names, namespace.Name)
	}
	return beginning(names, begun), noFiles
}

// completeID completes the ids of policies.
func (f *settingsFlags) completeID(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	set, err := f.load()
	if err != nil || len(args) > 0 {
		return nil, noFiles
	}
	return beginning(set.IDs(), begun), noFiles
}

func completeWords(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(words, begun), noFiles
	}
}

// beginning returns the words with a prefix.
func beginning(words []string, begun string) (found []string) {
	for _, word := range words {
		if strings.HasPrefix(word, begun) {
			found = append(found, word)
		}
	}
	return found
}

// complete completes the types that the cluster serves, and the names of its objects.
func (f *checkFlags) complete(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completing)
	defer cancel()
	f.timeout = completing
	config, err := f.config()
	if err != nil {
		return nil, noFiles
	}
	typ, _, slash := strings.Cut(begun, "/")
	prefix := typ + "/"
	switch {
	case !slash && len(args) > 0 && !strings.Contains(args[0], "/"): // TYPE NAME...
		typ, prefix = args[0], ""
	case !slash:
		types, err := check.TypeNames(ctx, config)
		if err != nil {
			return nil, noFiles
		}
		var found []string
		for _, typ := range types {
			if strings.HasPrefix(typ, begun) {
				found = append(found, typ+"/")
			}
		}
		return found, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	namespace, err := f.within()
	if err != nil {
		return nil, noFiles
	}
	selected, err := check.Selected(ctx, config, []string{typ}, namespace, "", "")
	if err != nil {
		return nil, noFiles
	}
	var found []string
	for _, name := range selected.Names {
		if word := prefix + name.Name; strings.HasPrefix(word, begun) {
			found = append(found, word)
		}
	}
	return found, noFiles
}
