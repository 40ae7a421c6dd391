// Command newpolicy scaffolds a policy: policy, tests, fixtures and page, all of
// which pass. Exit codes: 0 done, 2 could not.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/termguard/termguard/policies"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("newpolicy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "policies", "folder of the policies")
	flags.Usage = func() { fmt.Fprintln(stderr, "usage: newpolicy [-dir policies] ID"); flags.PrintDefaults() }
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		flags.Usage()
		return 2
	}
	made, err := policies.Scaffold(*dir, flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "newpolicy:", err)
		return 2
	}
	fmt.Fprintf(stdout, "made %s: write the rule, its tests and its fixtures there, then run make docs and make check\n", made)
	return 0
}
