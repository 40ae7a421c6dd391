package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/question"
)

// StatusFinalizer in a dry run on an object in termguard's namespace requests the status of the answering
// replica. So the request takes the way of a review, and needs the right to edit objects there.
const StatusFinalizer = "termguard.dev/status"

// Status is the status of a replica.
type Status struct {
	Version, Replica string
	Facts            string    // missing facts; "" if complete
	Policies         int       // in force
	CustomPolicies   []string  // ids of custom policies
	Configuration    string    // fingerprint of the file in force; "" for none
	Rejections       []string  // rejected versions, and why
	CertificateUntil time.Time // of the certificate that it serves
	Unseen           []string  // facts that it cannot see, and why
}

// Fingerprint shortens a SHA-256.
func Fingerprint(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:8]) }

const (
	statusStart   = "termguard: status: "
	maxRejections = 3
	maxField      = 200 // characters
)

// lines returns a status as JSON, cut into warnings. Long fields are shortened, so that all fit.
func (s Status) lines() []string {
	fit := func(text string) string { return truncate(printable.Line(text), maxField) }
	rejections := slices.Clone(s.Rejections)
	if n := len(rejections); n > maxRejections {
		rejections = append(rejections[:maxRejections-1], fmt.Sprintf("and %d more", n-maxRejections+1))
	}
	for i, rejection := range rejections {
		rejections[i] = fit(rejection)
	}
	s.Rejections, s.Facts = rejections, fit(s.Facts)
	s.CustomPolicies = strings.Fields(fit(strings.Join(s.CustomPolicies, " ")))
	if n := len(s.Unseen); n > 0 {
		s.Unseen = []string{fit(fmt.Sprintf("%d: %s", n, strings.Join(s.Unseen, ", ")))}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // texts and numbers, written to memory
	var lines []string
	for part := range slices.Chunk([]rune(strings.TrimSpace(text.String())), maxLine-len(statusStart)) {
		lines = append(lines, statusStart+string(part))
	}
	return lines
}

// ParseStatus parses the warnings with a status; ok is false if there is none.
func ParseStatus(warnings []string) (s Status, ok bool) {
	var text strings.Builder
	for _, warning := range warnings {
		if part, found := strings.CutPrefix(warning, statusStart); found {
			text.WriteString(part)
		}
	}
	return s, json.Unmarshal([]byte(text.String()), &s) == nil
}

// isStatusRequest reports whether a request is a dry run that adds StatusFinalizer to an object in termguard's
// namespace.
func (h *Handler) isStatusRequest(r *question.Request) bool {
	return h.options.Status != nil && r.Dry() && r.EditsFinalizers() && r.Key().Namespace == h.options.Home &&
		slices.Contains(r.Finalizers(r.New()), StatusFinalizer) && !slices.Contains(r.Finalizers(r.Old()), StatusFinalizer)
}
