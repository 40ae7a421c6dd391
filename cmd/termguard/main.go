// Command termguard tells whether a deletion in Kubernetes will finish: before
// it starts, and with the reason if it will not.
//
// It exits with 0 if all is well, and with 2 if it could not do what it was
// asked to: broken input, wrong usage, no cluster. 1 is for commands that found
// something, and 3 for a deletion with a question that nobody was there to answer.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process as if nobody had asked for the first
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
