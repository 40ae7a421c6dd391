package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/question"
)

// dials bounds concurrent handshakes.
const dials = 4

// Types of refusals.
type (
	Backend   = refusals.Backend
	Handshake = refusals.Handshake
	Try       = refusals.Try
)

func Dialing(dial refusals.Dial) Try { return refusals.Dialing(dial) }

// TryCertificates tries the due backends that deletions depend on; for nil all.
func (w *World) TryCertificates(ctx context.Context, try Try, deletions []*question.Request) {
	var trying errgroup.Group
	trying.SetLimit(dials)
	for _, b := range w.due(deletions) {
		trying.Go(func() error {
			return background.Try(ctx, "certificates of webhooks", func() error {
				t := try(ctx, b)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.refusals.ShookHands(b, t)
				return nil
			})
		})
	}
	_ = trying.Wait() // it is tried again in any case
}

func (w *World) due(deletions []*question.Request) []Backend {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.Due(contents{w}, deletions)
}

// Unverified lists the webhooks with an unseen certificate that deletions depend on; for nil all.
func (w *World) Unverified(deletions []*question.Request) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.Unverified(contents{w}, deletions)
}

// Handshakes returns the results of tries, by address.
func (w *World) Handshakes() map[string]Handshake {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.Handshakes()
}

// Unconverted returns the resources with objects that may not convert to the version of deletions.
func (w *World) Unconverted() []Resource {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Unconverted()
}

// Converts reports whether a webhook converts a resource.
func (w *World) Converts(res Resource) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Converts(res.String())
}
