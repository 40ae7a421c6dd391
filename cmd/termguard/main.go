// Command termguard says before a deletion in Kubernetes starts whether it will finish, and if not, why.
//
// Exit codes are 0 if all is well, 1 for findings, 2 for broken input, wrong usage or no cluster, and 3 for a
// deletion with a question that no flag and no person answered.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
