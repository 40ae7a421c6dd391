// Package background keeps work going that nobody waits for: a panic in it must
// neither end the process nor pass unnoticed. Pause is how such work rests.
package background

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// restartPause is kept before a part runs again that failed.
const restartPause = time.Second

// Report tells of a panic in a part, with the stack.
type Report func(part string, panicked any, stack []byte)

type reportKey struct{}

// With returns a context under which panics are reported. Without it they are
// logged to slog.Default().
func With(ctx context.Context, report Report) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Try calls f. A panic in it is reported, and becomes an error.
func Try(ctx context.Context, part string, f func() error) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		report, known := ctx.Value(reportKey{}).(Report)
		if !known {
			report = func(part string, panicked any, stack []byte) {
				slog.Default().Error("a part failed and starts again", "part", part, "panic", panicked, "stack", string(stack))
			}
		}
		report(part, p, debug.Stack())
		err = fmt.Errorf("%s failed inside: %v", part, p)
	}()
	return f()
}

// Keep runs a part until it returns. After a panic it runs again, until ctx ends.
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

// Pause waits, or returns why ctx ended before.
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
