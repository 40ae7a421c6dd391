// Package watch shows the Terminating objects until they are deleted.
//
// The answers are from package check: nothing here judges a deletion.
package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

const (
	// rest is the shortest pause after a look at the cluster, and share the pause in multiples of the look's
	// duration. A look at a cluster of 100,000 objects takes seconds of an API server's time.
	rest  = 2 * time.Second
	share = 4
	// blind is the number of looks after which the watch ends with only unlistable types left: an API may
	// come back.
	blind = 3
)

// Watch looks at the Terminating objects again and again.
type Watch struct {
	// Look is one look. An error of check.Gone says that all of them are deleted.
	Look    func(context.Context) (check.Answer, error)
	Printer *Printer
}

// Run watches until no object is left or ctx ends, and returns the objects left. An error says that they are
// unknown.
func (w *Watch) Run(ctx context.Context) (left check.Answer, err error) {
	type look struct {
		check.Answer
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
				return check.Answer{}, nil
			case now.err != nil && !seen:
				return left, now.err
			case now.err != nil:
				w.Printer.Fail(now.err)
			default:
				seen, left = true, now.Answer
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
					return left, errors.New("nothing that can be listed is left, and this cannot be listed: " + printable.Line(strings.Join(policies.UnseenTexts(left.Unseen), ", ")))
				}
			}
			due.Reset(max(rest, share*now.took))
		}
	}
}
