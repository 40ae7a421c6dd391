package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/answer"
)

const completing = 3 * time.Second

func completion(words func(ctx context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completing)
		defer cancel()
		all, err := words(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		fits := slices.DeleteFunc(slices.Clone(all), func(word string) bool { return !strings.HasPrefix(word, begun) })
		return fits, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeWords(words ...string) cobra.CompletionFunc {
	return completion(func(context.Context) ([]string, error) { return words, nil })
}

func completions(c *cobra.Command, target *clusterFlags) {
	for name, complete := range map[string]cobra.CompletionFunc{
		"cascade": completeWords("background", "foreground", "orphan"),
		"context": completion(func(context.Context) ([]string, error) {
			raw, err := target.loader().RawConfig()
			return slices.Sorted(maps.Keys(raw.Contexts)), err
		}),
		"namespace": completion(func(ctx context.Context) ([]string, error) { return target.namesOf(ctx, "namespaces", "") }),
	} {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, complete) // the flag is there
		}
	}
}

func (f *clusterFlags) namesOf(ctx context.Context, typ, namespace string) (names []string, err error) {
	f.timeout = completing
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	selected, err := answer.Selected(ctx, config, []string{typ}, namespace, "", "")
	for _, name := range selected.Names {
		names = append(names, name.Name)
	}
	return names, err
}

func (f *settingsFlags) completeID(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return completion(func(context.Context) ([]string, error) {
		set, err := f.load()
		if err != nil || len(args) > 0 {
			return nil, err
		}
		return set.IDs(), nil
	})(c, args, begun)
}

func (f *checkFlags) complete(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	typ, _, slash := strings.Cut(begun, "/")
	prefix := typ + "/"
	switch {
	case !slash && len(args) > 0 && !strings.Contains(args[0], "/"): // TYPE NAME...
		typ, prefix = args[0], ""
	case !slash:
		types, directive := completion(func(ctx context.Context) ([]string, error) {
			f.target.timeout = completing
			config, err := f.target.config()
			if err != nil {
				return nil, err
			}
			types, err := answer.TypeNames(ctx, config)
			for i := range types {
				types[i] += "/"
			}
			return types, err
		})(c, args, begun)
		return types, directive | cobra.ShellCompDirectiveNoSpace
	}
	return completion(func(ctx context.Context) ([]string, error) {
		namespace, err := f.target.namespaceOf(f.Namespace)
		if err != nil {
			return nil, err
		}
		names, err := f.target.namesOf(ctx, typ, namespace)
		for i := range names {
			names[i] = prefix + names[i]
		}
		return names, err
	})(c, args, begun)
}
