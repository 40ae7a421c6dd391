package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/policies"
)

// version and commit are set by the linker.
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
			switch output {
			case "text":
			case "json":
				return writeJSON(map[string]any{"version": versionOf(), "commit": commitOf(), "policies": policies.Digest()}, c.OutOrStdout())
			default:
				return fmt.Errorf("unknown output %q: use text or json", output)
			}
			fmt.Fprintf(c.OutOrStdout(), "termguard version %s\n", build())
			fmt.Fprintf(c.OutOrStdout(), "commit %s\n", commitOf())
			fmt.Fprintf(c.OutOrStdout(), "policies %s (%d)\n", policies.Digest(), len(set.IDs()))
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	completions(c, nil, "text", "json")
	return c
}

// build is the version, the toolchain and the platform.
func build() string {
	return fmt.Sprintf("%s (%s, %s/%s)", versionOf(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionOf returns the version that the linker set, or that go install recorded.
func versionOf() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// commitOf returns the commit that the linker set, or that go build recorded.
func commitOf() string {
	if commit != "" {
		return commit
	}
	of := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				of = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				of += ", with changes"
			}
		}
	}
	return of
}
