package live

import (
	"bytes"
	"io"
	"net/http"

	"github.com/termguard/termguard/cluster/refusals"
)

// impatient fails at once if a conversion fails: client-go would retry a 429 ten times (rest/with_retry.go),
// for minutes.
type impatient struct{ http.RoundTripper }

// WrappedRoundTripper lets client-go cancel requests, which otherwise writes an error to stderr
// (transport/transport.go, tryCancelRequest).
func (t impatient) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // a Status
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(refusals.ConversionFailure)) {
		response.Header.Del("Retry-After")
	}
	return response, nil
}
