package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/termguard/termguard/internal/printable"
)

// comment stands beside a line of a pull request. The fingerprint tells whether it is
// there already.
type comment struct {
	Fingerprint string `json:"fingerprint"`
	Path        string `json:"path"`
	Line        int    `json:"line"`
	Body        string `json:"body"` // Markdown
}

// writeReview writes comments, of which .ci/review makes a review of GitHub.
func writeReview(r Report, out io.Writer) error {
	comments := []comment{}
	for i, f := range r.Findings {
		if f.Place.File == "-" || f.Place.Line == 0 {
			continue
		}
		body := fmt.Sprintf("**%s**: %s", f.Severity, cell(says(f)+" ["+f.Policy+"]"))
		if moment := when(f); moment != "" {
			body += "\n\n" + cell(moment)
		}
		for _, e := range f.Evidence {
			body += "\n- because: " + cell(e)
		}
		if f.Remedy != "" {
			body += "\n\n**Way out**: " + printable.Markdown(f.Remedy)
		}
		comments = append(comments, comment{r.Fingerprints[i], r.path(f.Place.File), f.Place.Line, body})
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(comments)
}
