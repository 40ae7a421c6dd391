package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/check"
)

// completing bounds what a shell waits for.
const completing = 3 * time.Second

// complete completes the types that the cluster serves, and the names of its objects.
func (f *checking) complete(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(c.Context(), completing)
	defer cancel()
	f.timeout = completing
	config, err := f.config()
	if err != nil {
		return nil, none
	}
	typ, _, slash := strings.Cut(begun, "/")
	prefix := typ + "/"
	switch {
	case !slash && len(args) > 0 && !strings.Contains(args[0], "/"): // TYPE NAME...
		typ, prefix = args[0], ""
	case !slash:
		types, err := check.TypeNames(ctx, config)
		if err != nil {
			return nil, none
		}
		var found []string
		for _, typ := range types {
			if strings.HasPrefix(typ, begun) {
				found = append(found, typ+"/")
			}
		}
		return found, none | cobra.ShellCompDirectiveNoSpace
	}
	namespace, err := f.within()
	if err != nil {
		return nil, none
	}
	selected, err := check.Selected(ctx, config, []string{typ}, namespace, "", "")
	if err != nil {
		return nil, none
	}
	var found []string
	for _, name := range selected.Names {
		if word := prefix + name.Name; strings.HasPrefix(word, begun) {
			found = append(found, word)
		}
	}
	return found, none
}
