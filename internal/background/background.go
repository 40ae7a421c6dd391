// Package background runs tasks whose panics are reported and do not end the process.
package background

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

const restartPause = time.Second

// Report handles a panic in a part.
type Report func(part string, panicked any, stack []byte)

type reportKey struct{}

// With returns a context that passes panics to report, instead of slog.Default().
func With(ctx context.Context, report Report) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Try calls f, reports a panic in it, and returns it as an error.
func Try(ctx context.Context, part string, f func() error) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		report, ok := ctx.Value(reportKey{}).(Report)
		if !ok {
			report = func(part string, panicked any, stack []byte) {
				slog.Default().Error("a part failed and starts again", "part", part, "panic", panicked, "stack", string(stack))
			}
		}
		report(part, p, debug.Stack())
		err = fmt.Errorf("%s failed inside: %v", part, p)
	}()
	return f()
}

// Keep runs a part until it returns, again after a panic, until ctx ends.
func Keep(ctx context.Context, part string, run func(context.Context)) {
	for {
		err := Try(ctx, part, func() error {
			run(ctx)
			return nil
		})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartPause):
		}
	}
}

// Pause sleeps for d, or until ctx ends, with its error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
