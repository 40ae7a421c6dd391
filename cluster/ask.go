package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

const (
	// nodeLeases are the leases of kubelets, which are left out; leasePages bounds
	// how many pages of the others are read.
	nodeLeases = "metadata.namespace!=kube-node-lease"
	leasePages = 4
	// dials bounds how many handshakes are under way at once.
	dials = 4
)

// readLeases lists leases into the facts.
func (w *World) readLeases(ctx context.Context, client typedcoordinationv1.LeasesGetter) error {
	var all []coordinationv1.Lease
	options := metav1.ListOptions{FieldSelector: nodeLeases, Limit: pageSize}
	for range leasePages {
		list, err := client.Leases(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list leases: %w", err)
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	w.SetLeases(all)
	return nil
}

// tryCertificates shakes hands with the backends of webhooks that are due.
func (w *World) tryCertificates(ctx context.Context, dial Dial) {
	var trying sync.WaitGroup
	places := make(chan struct{}, dials)
	for e, address := range w.due() {
		trying.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			_ = background.Try(ctx, "certificates of webhooks", func() error { // it is tried again in any case
				t := e.Try(ctx, dial, address, w.options.Now())
				w.mu.Lock()
				defer w.mu.Unlock()
				w.refusals.ShookHands(e, t)
				return nil
			})
		})
	}
	trying.Wait()
}

func (w *World) due() map[refusals.Endpoint]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.Due()
}

// unconvertedResources are those that nobody may convert to the version that
// deletions ask for.
func (w *World) unconvertedResources() []Resource {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Unconverted()
}

// converts tells whether a webhook converts the objects of a resource.
func (w *World) converts(res Resource) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.refusals.Converts(res.String())
}

// impatient answers at once where a list fails for want of a conversion. The API
// server says 429 and asks to try again later, which the client would do ten times
// (client-go, rest/with_retry.go): minutes, in which nobody knows more.
type impatient struct{ http.RoundTripper }

// WrappedRoundTripper lets client-go cancel requests; without it, it writes to stderr that it
// cannot (client-go, transport/transport.go, tryCancelRequest).
func (t impatient) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // a Status
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(refusals.ConversionFailure)) {
		response.Header.Del("Retry-After")
	}
	return response, nil
}
