package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

// dials bounds concurrent handshakes.
const dials = 4

// TryCertificates makes the due handshakes with webhooks' backends.
func (w *World) TryCertificates(ctx context.Context, dial Dial) {
	var trying errgroup.Group
	trying.SetLimit(dials)
	for e, address := range w.due() {
		trying.Go(func() error {
			return background.Try(ctx, "certificates of webhooks", func() error {
				t := e.Try(ctx, dial, address, w.options.Now())
				w.mu.Lock()
				defer w.mu.Unlock()
				w.refusals.ShookHands(e, t)
				return nil
			})
		})
	}
	_ = trying.Wait() // it is tried again in any case
}

func (w *World) due() map[refusals.Endpoint]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.Due()
}

// Distrusted returns why backends' certificates are not trusted, by address.
func (w *World) Distrusted() map[string]string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Distrusted()
}

// Unconverted returns the resources with objects that may not convert to the version that deletions request.
func (w *World) Unconverted() []Resource {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Unconverted()
}

// Converts reports whether a webhook converts a resource's objects.
func (w *World) Converts(res Resource) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Converts(res.String())
}
