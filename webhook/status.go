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
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/question"
)

// StatusFinalizer, in a dry run on an object in termguard's namespace, requests a replica's status, by the
// path of a review, and with the right to edit objects there.
const StatusFinalizer = "termguard.dev/status"

type Status struct {
	Version, Replica string
	Facts            string // "" if complete
	Policies         int    // in force
	CustomPolicies   []string
	Configuration    string   // fingerprint; "" for none
	Rejections       []string // with reasons
	CertificateUntil time.Time
	Unseen           []string // with reasons
}

// Fingerprint is the beginning of a SHA-256.
func Fingerprint(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:8]) }

const (
	statusStart   = "termguard: status: "
	maxRejections = 3
	maxField      = 200 // characters
)

// lines cuts JSON into warnings, with long fields shortened so that all fit.
func (s Status) lines() []string {
	fit := func(text string) string { return printable.Cut(printable.Line(text), maxField) }
	rejections := slices.Clone(s.Rejections)
	if len(rejections) > maxRejections {
		rejections = page.Fold(rejections, maxRejections-1, "")
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
	_ = encoder.Encode(s) // cannot fail: texts and numbers
	var lines []string
	for part := range slices.Chunk([]rune(strings.TrimSpace(text.String())), maxLine-len(statusStart)) {
		lines = append(lines, statusStart+string(part))
	}
	return lines
}

// ParseStatus reads warnings; ok is false if they have no status.
func ParseStatus(warnings []string) (s Status, ok bool) {
	var text strings.Builder
	for _, warning := range warnings {
		if part, exists := strings.CutPrefix(warning, statusStart); exists {
			text.WriteString(part)
		}
	}
	return s, json.Unmarshal([]byte(text.String()), &s) == nil
}

func (h *Handler) isStatusRequest(r *question.Request) bool {
	return h.options.Status != nil && r.Dry() && r.EditsFinalizers() && r.Key().Namespace == h.options.Home &&
		slices.Contains(r.Finalizers(r.New()), StatusFinalizer) && !slices.Contains(r.Finalizers(r.Old()), StatusFinalizer)
}
