package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/policies"
)

// Set by the linker.
var version, commit = "", ""

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version, its commit, and the digest of its policies",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := policies.Load(policies.Embedded())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(map[string]any{"version": versionOf(), "commit": commitOf(), "policies": policies.Digest()}, c.OutOrStdout())
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "termguard version %s\ncommit %s\npolicies %s (%d)\n", build(), commitOf(), policies.Digest(), len(set.IDs()))
			return err
		},
	}
	outputOf(c, &output, "text or json", "text", "json")
	return c
}

func build() string {
	return fmt.Sprintf("%s (%s, %s/%s)", versionOf(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionOf() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "(devel)")
	}
	return cmp.Or(version, "(devel)")
}

func commitOf() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" || !ok {
		return cmp.Or(commit, "unknown")
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.modified"] == "true" {
		return settings["vcs.revision"] + ", with changes"
	}
	return cmp.Or(settings["vcs.revision"], "unknown")
}
