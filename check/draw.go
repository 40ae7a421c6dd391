package check

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/termguard/termguard/internal/printable"
)

// Sizes of a drawing, in pixels: a line of the tree is a box, one below the other, and
// deeper ones stand further to the right.
const (
	boxHeight, boxGap, boxIndent = 26, 8, 28
	// textWidth is that of a character of the widest letters that are usual, and
	// maxLabel bounds those of one box: its title has all of them.
	textWidth, maxLabel = 8, 240
)

// drawStyle follows the reader's system, in light and dark.
const drawStyle = `:root{color-scheme:light dark}.tree rect{fill:#f6f8fa;stroke:#57606a}.tree text{fill:#1b1f24;font:14px system-ui,sans-serif}.tree path{stroke:#57606a;fill:none}.tree .red{stroke:#b3151d;stroke-width:2}.tree .orange{stroke:#8a5300;stroke-width:2}.tree .green{stroke:#116329;stroke-width:2}.tree .gray{stroke-width:2}
@media(prefers-color-scheme:dark){.tree rect{fill:#161b22;stroke:#9aa4af}.tree text{fill:#e6edf3}.tree path{stroke:#9aa4af}.tree .red{stroke:#ff8a84}.tree .orange{stroke:#e3b341}.tree .green{stroke:#56d364}}
`

// SVG draws the tree of what blocks the deletion.
func (r Report) SVG(w io.Writer) error { return drawn(w, []Report{r}) }

// SVG draws the trees of what blocks the deletions.
func (s Set) SVG(w io.Writer) error { return drawn(w, s.Items) }

// SVG draws the trees of all of them.
func (t Terminating) SVG(w io.Writer) error { return drawn(w, t.reports()) }

func drawn(w io.Writer, reports []Report) error {
	_, err := io.WriteString(w, drawing(reports, "<style>"+drawStyle+"</style>"))
	return err
}

// noCharacters are what XML cannot hold (https://www.w3.org/TR/xml/#charsets), beside what is
// not printable.
var noCharacters = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd")

// escaped is text between tags or in double quotes.
func escaped(text string) string {
	return html.EscapeString(noCharacters.Replace(printable.Line(text)))
}

// drawing is the tree that Text writes and DOT has, as boxes.
func drawing(reports []Report, style string) string {
	var boxes, lines strings.Builder
	row, width := 0, 0
	add := func(depth int, label, class string) (x, y int) {
		x, y = 1+depth*boxIndent, 1+row*(boxHeight+boxGap)
		row++
		shown := []rune(printable.Line(label))
		if len(shown) > maxLabel {
			shown = append(shown[:maxLabel-1], '…')
		}
		wide := len(shown)*textWidth + 24
		width = max(width, x+wide)
		fmt.Fprintf(&boxes, "<g><title>%s</title><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/><text x=\"%d\" y=\"%d\">%s</text></g>\n",
			escaped(label), class, x, y, wide, boxHeight, x+8, y+18, escaped(string(shown)))
		return x, y
	}
	var below func(depth, x, y int, n *node)
	below = func(depth, x, y int, n *node) {
		for _, child := range n.below {
			cx, cy := add(depth, child.line, "")
			fmt.Fprintf(&lines, "<path d=\"M%d %dV%dH%d\"/>\n", x+boxIndent/2, y+boxHeight, cy+boxHeight/2, cx)
			below(depth+1, cx, cy, child)
		}
	}
	for _, r := range reports {
		x, y := add(0, shown(r.Target, "")+": "+string(r.Verdict), colors[r.Verdict])
		below(1, x, y, r.tree(inDrawings))
	}
	height := max(row*(boxHeight+boxGap), boxHeight) + 2
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tree\" role=\"img\" aria-label=\"what blocks the deletion\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">%s\n%s%s</svg>\n",
		width+2, height, width+2, height, style, lines.String(), boxes.String())
}

// HTML writes a page with the verdict, the drawing, and what to do.
func (r Report) HTML(w io.Writer) error {
	return drawnPage(w, shown(r.Target, "")+": "+r.Why(), []Report{r}, r.Plan, r.Unseen)
}

// HTML writes a page with the worst verdict, the drawings, and one plan.
func (s Set) HTML(w io.Writer) error {
	unseen := slices.Clone(s.Unseen)
	for _, r := range s.Items {
		unseen = withNew(unseen, r.Unseen)
	}
	return drawnPage(w, plural(len(s.Items), "object")+" together: "+s.Why(), s.Items, s.Plan, unseen)
}

// HTML writes a page with the drawings.
func (t Terminating) HTML(w io.Writer) error {
	return drawnPage(w, plural(len(t.Items), "object")+" Terminating", t.reports(), plan(), t.Unseen)
}

const pageStyle = drawStyle + `body{margin:0 auto;max-width:72rem;padding:1rem;background:#fff;color:#1b1f24;font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}h1{font-size:1.3rem}.scroll{overflow-x:auto}pre{white-space:pre-wrap;border:1px solid #57606a;padding:.5rem;border-radius:4px}:focus-visible{outline:3px solid #0550ae}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}:focus-visible{outline-color:#79c0ff}}
`

// drawnPage is one file without a script: its policy lets a browser load and run nothing.
func drawnPage(w io.Writer, title string, reports []Report, plan []Step, unseen []string) error {
	var out strings.Builder
	sum := sha256.Sum256([]byte(pageStyle))
	fmt.Fprintf(&out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n", base64.StdEncoding.EncodeToString(sum[:]))
	fmt.Fprintf(&out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>termguard check</title>\n<style>%s</style>\n</head>\n<body>\n<main>\n<h1>%s</h1>\n", pageStyle, escaped(title))
	fmt.Fprintf(&out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"the tree of what blocks it\">%s</div>\n", drawing(reports, ""))
	if len(plan) > 0 {
		out.WriteString("<h2>What to do</h2>\n<ol>\n")
		for _, group := range Groups(plan) {
			fmt.Fprintf(&out, "<li>%s", escaped(group[0].Do))
			for _, command := range Commands(group) {
				fmt.Fprintf(&out, "<pre>%s</pre>", escaped(command))
			}
			out.WriteString("</li>\n")
		}
		out.WriteString("</ol>\n")
	}
	if len(unseen) > 0 {
		out.WriteString("<h2>Not seen</h2>\n<ul>\n")
		for _, line := range byReason(unseen) {
			fmt.Fprintf(&out, "<li>%s</li>\n", escaped(line))
		}
		out.WriteString("</ul>\n")
	}
	out.WriteString("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}
