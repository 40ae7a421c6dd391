package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// arrival is how a review came, where that was through ServeHTTP.
type arrival struct {
	started time.Time
	partial bool  // of the objects, only the metadata was read
	load    *load // what it holds, nil for nothing
}

type arrivalKey struct{}

// arrivalOf is how a review came; now, and with nothing weighed, where another server took it.
func arrivalOf(ctx context.Context) arrival {
	if at, is := ctx.Value(arrivalKey{}).(*arrival); is {
		return *at
	}
	return arrival{started: time.Now()}
}

// hookOf is the webhook of controller-runtime that asks a Handler.
func hookOf(h *Handler) *admission.Webhook {
	hook := &admission.Webhook{
		Handler: h,
		// The default describes each review, whether or not anybody logs it.
		LogConstructor: func(base logr.Logger, _ *admission.Request) logr.Logger { return base },
	}
	// Without a logger, controller-runtime complains that it has none. No path, no metrics,
	// and so no error.
	_, _ = admission.StandaloneWebhook(hook, admission.StandaloneOptions{Logger: logr.FromSlogHandler(h.options.Log.Handler())})
	return hook
}

// ServeHTTP answers one AdmissionReview, of v1 or v1beta1. Only what is none gets a status
// of 4xx. It reads the body itself, and then asks controller-runtime's admission.Webhook:
// that one would read and decode whatever comes before anybody has weighed it, refuses a
// review of more than 7 MiB, and answers a body that it cannot read with 200 and no uid.
func (h *Handler) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	at := &arrival{started: time.Now()}
	// The API server waits no longer, and what comes later holds memory.
	http.NewResponseController(w).SetReadDeadline(at.started.Add(patience)) // without one, the server's own limit holds
	at.load = h.weights.load(httpRequest.ContentLength)
	defer at.load.drop()
	until := at.started.Add(h.options.Deadline)
	body, err := at.load.read(http.MaxBytesReader(w, httpRequest.Body, MaxBody), httpRequest.ContentLength, until)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		h.turnAway(w, http.StatusRequestEntityTooLarge, tooLarge, fmt.Errorf("the body is larger than %d bytes", large.Limit))
		return
	case errors.Is(err, errNoRoom):
		h.turnAway(w, http.StatusServiceUnavailable, busy, err)
		return
	case err != nil:
		h.turnAway(w, http.StatusBadRequest, notReview, fmt.Errorf("read the body: %w", err))
		return
	}
	weight, decode := decodedWeight(body), decodeReview
	if weight > maxDecoded {
		weight, decode, at.partial = maxDecoded, decodePart, true
	}
	if err := at.load.add(weight, until); err != nil {
		h.turnAway(w, http.StatusServiceUnavailable, busy, err)
		return
	}
	review, err := decode(body)
	switch {
	case errors.Is(err, errTooLarge):
		h.turnAway(w, http.StatusRequestEntityTooLarge, tooLarge, err)
		return
	case err != nil:
		h.turnAway(w, http.StatusBadRequest, notReview, err)
		return
	}
	response := h.hook.Handle(context.WithValue(httpRequest.Context(), arrivalKey{}, at), review.request)
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.apiVersion, Kind: "AdmissionReview"},
		Response: &response.AdmissionResponse,
	})
	if err != nil {
		h.options.Log.Debug("the answer could not be sent", "error", err)
	}
}

// turnAway answers what is no review, and keeps no connection for it.
func (h *Handler) turnAway(w http.ResponseWriter, status int, reason failure, err error) {
	w.Header().Set("Connection", "close")
	h.metrics.failed(reason)
	h.options.Log.Debug("turned a request away", "status", status, "error", err)
	http.Error(w, "termguard: "+err.Error(), status)
}
