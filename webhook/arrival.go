package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type arrival struct {
	started     time.Time
	partial     bool // only the metadata of the objects was read
	reservation *reservation
}

// ServeHTTP answers one AdmissionReview, of v1 or v1beta1. controller-runtime's admission.Webhook decodes
// without a memory limit, rejects a review of more than 7 MiB, and answers an unreadable body with 200 and no
// uid.
func (h *Handler) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	at := arrival{started: time.Now()}
	// A late body occupies memory, and the API server no longer waits.
	http.NewResponseController(w).SetReadDeadline(at.started.Add(apiServerTimeout)) // else the server's own limit applies
	at.reservation = h.memory.newReservation(httpRequest.ContentLength)
	defer at.reservation.release()
	until := at.started.Add(h.options.Deadline)
	body, err := at.reservation.read(http.MaxBytesReader(w, httpRequest.Body, MaxBody), httpRequest.ContentLength, until)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		h.reject(w, http.StatusRequestEntityTooLarge, failureTooLarge, fmt.Errorf("the body is larger than %d bytes", large.Limit))
		return
	case errors.Is(err, errNoMemory):
		h.reject(w, http.StatusServiceUnavailable, failureBusy, err)
		return
	case err != nil:
		h.reject(w, http.StatusBadRequest, failureNotReview, fmt.Errorf("read the body: %w", err))
		return
	}
	weight, decode := decodedWeight(body), decodeReview
	if weight > maxDecoded {
		weight, decode, at.partial = maxDecoded, decodePart, true
	}
	if err := at.reservation.add(weight, until); err != nil {
		h.reject(w, http.StatusServiceUnavailable, failureBusy, err)
		return
	}
	review, err := decode(body)
	switch {
	case errors.Is(err, errTooLarge):
		h.reject(w, http.StatusRequestEntityTooLarge, failureTooLarge, err)
		return
	case err != nil:
		h.reject(w, http.StatusBadRequest, failureNotReview, err)
		return
	}
	response := h.answer(httpRequest.Context(), review.request, at)
	response.UID = review.request.UID
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.apiVersion, Kind: "AdmissionReview"},
		Response: &response.AdmissionResponse,
	})
	if err != nil {
		h.options.Log.Debug("the answer could not be sent", "error", err)
	}
}

func (h *Handler) reject(w http.ResponseWriter, status int, reason failure, err error) {
	w.Header().Set("Connection", "close")
	h.metrics.countError(reason)
	h.options.Log.Debug("turned a request away", "status", status, "error", err)
	http.Error(w, "termguard: "+err.Error(), status)
}
