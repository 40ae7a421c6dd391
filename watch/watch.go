// Package watch shows what is being deleted, until it is gone.
//
// What holds it is what package check says: nothing here judges a deletion.
package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
)

const (
	// rest is how long nothing is asked after each look at the cluster, at least; share is
	// how many times as long as that look took. A look at a cluster of 100,000 objects takes
	// seconds of an API server's time.
	rest  = 2 * time.Second
	share = 4
	// blind is after how many looks it is an end that nothing is left but what cannot be
	// listed: an API may come back.
	blind = 3
)

// Watch looks at what is being deleted again and again.
type Watch struct {
	// Look is one look. An error of check.Gone says that all of it is gone.
	Look    func(context.Context) (check.Terminating, error)
	Printer *Printer
}

// Run watches until nothing is left, or ctx ends, and returns what is left. An error says
// that nobody can tell what is.
func (w *Watch) Run(ctx context.Context) (left check.Terminating, err error) {
	type look struct {
		check.Terminating
		err  error
		took time.Duration
	}
	looks := make(chan look, 1)
	due := time.NewTimer(0)
	defer due.Stop()
	seen, empty := false, 0
	for {
		select {
		case <-ctx.Done():
			if !seen {
				return left, fmt.Errorf("what is left is not known yet: %w", context.Cause(ctx))
			}
			return left, nil
		case <-due.C:
			go func() {
				began := time.Now()
				now, err := w.Look(ctx)
				looks <- look{now, err, time.Since(began)}
			}()
		case now := <-looks:
			switch {
			case ctx.Err() != nil:
				continue
			case check.Gone(now.err):
				return check.Terminating{}, nil
			case now.err != nil && !seen:
				return left, now.err
			case now.err != nil:
				w.Printer.Fail(now.err)
			default:
				seen, left = true, now.Terminating
				w.Printer.Print(left)
				switch {
				case len(left.Items) > 0:
					empty = 0
				case len(left.Unseen) == 0:
					return left, nil
				default:
					empty++
				}
				if empty == blind {
					return left, errors.New("nothing that can be listed is left, and this cannot be listed: " + printable.Line(strings.Join(left.Unseen, ", ")))
				}
			}
			due.Reset(max(rest, share*now.took))
		}
	}
}
