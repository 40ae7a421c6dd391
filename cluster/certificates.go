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

// Types of refusals.
type (
	Untried  = refusals.Untried
	Endpoint = refusals.Endpoint
)

// Untried returns the Services with unverified certificates that a request depends on.
func (w *World) Untried(r *question.Request) []refusals.Untried {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Untried(r)
}

// TakeCertificate verifies a certificate that a Service's pods mount; false if it is for another name.
func (w *World) TakeCertificate(e refusals.Endpoint, secret string, certificate []byte) bool {
	t, is := e.Stored(secret, certificate, w.options.Now())
	if is {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refusals.ShookHands(e, t)
	}
	return is
}

// Distrusted returns why backends' certificates are not trusted, by address.
func (w *World) Distrusted() map[string]string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Distrusted()
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
