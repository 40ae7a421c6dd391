package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

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
	maxRejections = 3 // lines
)

// lines returns a status, a line per field.
func (s Status) lines() []string {
	var lines []string
	add := func(key, value string) { lines = append(lines, warningLine("status: "+key+": "+value, "")) }
	addAll := func(key string, values []string) {
		for i, value := range values {
			if i == maxRejections-1 && len(values) > maxRejections {
				add(key, fmt.Sprintf("and %d more", len(values)-i))
				return
			}
			add(key, value)
		}
	}
	add("version", s.Version)
	add("replica", s.Replica)
	add("facts", s.Facts)
	add("policies", fmt.Sprint(s.Policies))
	add("own", strings.Join(s.CustomPolicies, " "))
	add("configuration", s.Configuration)
	add("certificate", s.CertificateUntil.UTC().Format(time.RFC3339))
	addAll("refused", s.Rejections)
	if n := len(s.Unseen); n > 0 {
		add("unseen", fmt.Sprintf("%d: %s", n, strings.Join(s.Unseen, ", ")))
	}
	return lines
}

// ParseStatus parses the warnings with a status; ok is false if there is none. Fields that did not fit are
// left out.
func ParseStatus(warnings []string) (s Status, ok bool) {
	for _, warning := range warnings {
		rest, isStatus := strings.CutPrefix(warning, statusStart)
		key, value, _ := strings.Cut(rest, ":")
		if value = strings.TrimSpace(value); !isStatus {
			continue
		}
		ok = true
		switch key {
		case "version":
			s.Version = value
		case "replica":
			s.Replica = value
		case "facts":
			s.Facts = value
		case "policies":
			_, _ = fmt.Sscan(value, &s.Policies) // zero means unknown
		case "own":
			s.CustomPolicies = strings.Fields(value)
		case "configuration":
			s.Configuration = value
		case "certificate":
			s.CertificateUntil, _ = time.Parse(time.RFC3339, value) // the zero time means unknown
		case "refused":
			s.Rejections = append(s.Rejections, value)
		case "unseen":
			s.Unseen = append(s.Unseen, value)
		}
	}
	return s, ok
}

// isStatusRequest reports whether a request is a dry run that adds StatusFinalizer to an object in termguard's
// namespace.
func (h *Handler) isStatusRequest(r *question.Request) bool {
	return h.options.Status != nil && r.Dry() && r.EditsFinalizers() && r.Key().Namespace == h.options.Home &&
		slices.Contains(r.Finalizers(r.New()), StatusFinalizer) && !slices.Contains(r.Finalizers(r.Old()), StatusFinalizer)
}
