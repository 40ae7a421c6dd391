package scan

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the style and the script of the page
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// chunkSize is the number of objects in one part of the list; a browser lays a part out when it is scrolled
// to.
const chunkSize = 100

// document writes HTML. html/template would keep the linker from dropping unused methods, a third of the binary
// (TestLean). Everything that the scan holds is written by text, between tags or in attributes in double
// quotes: FuzzPage checks that none of it is markup.
type document struct{ *bufio.Writer }

// raw writes markup of this file.
func (p document) raw(markup string) { _, _ = p.WriteString(markup) } // the error is sticky, and Flush returns it

// text escapes and writes text from the cluster.
func (p document) text(text string) { p.raw(html.EscapeString(printable.Line(text))) }

// tag writes escaped text in an element; begin and end are markup of this file.
func (p document) tag(begin, text, end string) {
	p.raw(begin)
	p.text(text)
	p.raw(end)
}

// hash returns a source of a content security policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// HTML writes the scan as one page without network access. Its content security policy allows its one script,
// by hash.
func (s *Scan) HTML(w io.Writer) error {
	p := document{bufio.NewWriterSize(w, 64<<10)}
	p.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	p.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src " + hash(pageStyle) + "; script-src " + hash(pageScript) + "; base-uri 'none'; form-action 'none'\">\n")
	p.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	p.tag("<title>termguard scan: ", s.Of, "</title>\n")
	p.raw("<style>" + pageStyle + "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#causes\">Skip to the causes</a>\n<header>\n")
	p.tag("<h1>What could not be deleted: ", s.Of, "</h1>\n")
	p.tag("<p class=\"soft\">", "termguard scan, "+s.At, "</p>\n</header>\n<main>\n")
	p.tag("<p class=\"story\">", s.headline(), "</p>\n")
	if s.Interrupted != "" {
		p.tag("<p class=\"story word\">", s.Interrupted, "</p>\n")
	}
	if s.Mended != nil {
		p.tag("<p class=\"story word\">", s.promise(), "</p>\n")
	}
	p.counts(s)
	ids := p.causes(s)
	p.terminating(s)
	p.items(s, ids)
	if len(s.Unseen) > 0 {
		p.raw("<section aria-labelledby=\"h-unseen\"><h2 id=\"h-unseen\">Not asked about</h2>\n<ul>\n")
		for _, unseen := range s.Unseen {
			p.tag("<li>", unseen.String(), "</li>\n")
		}
		p.raw("</ul></section>\n")
	}
	for _, left := range s.LeftOut {
		p.tag("<p>Left out: ", left, "</p>\n")
	}
	p.raw("</main>\n<script>" + pageScript + "</script>\n</body>\n</html>\n")
	return p.Flush()
}

// counts writes the number of objects, by kind and verdict.
func (p document) counts(s *Scan) {
	p.raw("<section aria-labelledby=\"h-counts\"><h2 id=\"h-counts\">If it were deleted now</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"h-counts\"><table>\n<thead><tr><th scope=\"col\">kind</th>")
	for _, head := range []string{"asked", "refused", "hangs", "at risk", "unknown", "completes"} {
		p.tag("<th scope=\"col\" class=\"n\">", head, "</th>")
	}
	p.raw("</tr></thead>\n<tbody>\n")
	for _, c := range s.Asked {
		p.tag("<tr><th scope=\"row\">", nounOf(c.Kind, 2), "</th>")
		for _, cell := range []struct {
			class string
			n     int
		}{{"", c.Asked}, {"refused", c.Refused}, {"hangs", c.Hangs}, {"at-risk", c.AtRisk}, {"unknown", c.Unknown}, {"completes", c.Completes}} {
			class := cell.class
			if cell.n == 0 {
				class = "soft"
			}
			p.raw(fmt.Sprintf("<td class=\"n %s\">%d</td>", class, cell.n))
		}
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table></div></section>\n")
}

// causes writes the causes and returns the position of each, by id.
func (p document) causes(s *Scan) map[string]int {
	places := map[string]int{}
	most := 1
	all := map[Kind]int{}
	for _, c := range s.Asked {
		all[c.Kind] = c.Asked
	}
	for _, c := range s.Causes {
		most = max(most, c.Holds)
	}
	p.raw("<section id=\"causes\" aria-labelledby=\"h-causes\"><h2 id=\"h-causes\">Causes</h2>\n")
	if len(s.Causes) == 0 {
		p.raw("<p>Nothing stands in the way of anything.</p>\n")
	}
	for i, c := range s.Causes {
		places[c.ID] = i
		class := classOf(string(c.Class), words(Classes()))
		p.raw(fmt.Sprintf("<details id=\"cause-%d\"", i))
		if i < shownCauses {
			p.raw(" open")
		}
		p.raw("><summary><span class=\"word " + class + "\">")
		p.tag("", headings[c.Class], "</span> ")
		p.tag("<strong>", fmt.Sprintf("%d: %s", i+1, c.Title), "</strong> ")
		p.tag("<span class=\"soft\">", c.holding(all), "</span>")
		p.bar(class, c.Holds, most)
		p.raw("</summary>\n")
		if c.Mended != nil {
			p.tag("<p>", s.once(c)+".", "</p>\n")
		}
		if len(c.Names) > 0 {
			p.raw("<ul class=\"tree\"><li>")
			p.tag("<span class=\"node\">", c.Title, "</span><ul>\n")
			for _, name := range c.Names {
				p.tag("<li><span class=\"node\">", name, "</span></li>\n")
			}
			if more := c.Holds - len(c.Names); more > 0 {
				p.tag("<li>", fmt.Sprintf("%d more, in the list below", more), "</li>\n")
			}
			p.raw("</ul></li></ul>\n")
		}
		p.steps(c.Steps)
		for n, evidence := range c.Evidence {
			if n == 0 {
				p.raw("<p class=\"soft\">Because:</p><ul>\n")
			}
			p.tag("<li>", evidence, "</li>\n")
		}
		if len(c.Evidence) > 0 {
			p.raw("</ul>\n")
		}
		p.raw("</details>\n")
	}
	p.raw("</section>\n")
	return places
}

// steps writes the next steps, with commands to copy.
func (p document) steps(steps []policies.Step) {
	if len(steps) == 0 {
		return
	}
	p.raw("<ol>\n")
	for _, step := range steps {
		p.tag("<li>", step.Do, "")
		if step.Command != "" {
			p.tag("<pre>", step.Command, "</pre><button type=\"button\" class=\"copy\" hidden>Copy</button>")
		}
		p.raw("</li>\n")
	}
	p.raw("</ol>\n")
}

// bar draws part of most; the text beside it says the number.
func (p document) bar(class string, part, most int) {
	p.raw(fmt.Sprintf("<svg class=\"bar %s\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"all\" width=\"100\" height=\"4\"/><rect class=\"part\" width=\"%.1f\" height=\"4\"/></svg>",
		class, 100*float64(part)/float64(max(most, 1))))
}

// terminating writes the Terminating objects, the oldest first.
func (p document) terminating(s *Scan) {
	items := s.Terminating()
	if len(items) == 0 {
		return
	}
	p.raw("<section aria-labelledby=\"h-now\"><h2 id=\"h-now\">Terminating now</h2>\n<div class=\"scroll wide\" tabindex=\"0\" role=\"group\" aria-labelledby=\"h-now\"><table>\n<thead><tr><th scope=\"col\">for</th><th scope=\"col\">object</th><th scope=\"col\">why</th></tr></thead>\n<tbody>\n")
	oldest := int(since(items[0].TerminatingSince, s.At).Seconds())
	for i, e := range items {
		if i == maxTimeline {
			p.tag("<tr><td colspan=\"3\">", fmt.Sprintf("%d more are in the list below", len(items)-i), "</td></tr>\n")
			break
		}
		age := since(e.TerminatingSince, s.At)
		p.tag("<tr><td>", duration.HumanDuration(age), "")
		p.bar("time", int(age.Seconds()), oldest)
		p.tag("</td><td>", e.Target.Ref(), "</td>")
		p.tag("<td>", why(e), "</td></tr>\n")
	}
	p.raw("</tbody></table></div></section>\n")
}

// maxTimeline bounds the rows of the time line.
const maxTimeline = 200

// items writes the objects, each with the tree of its blockers.
func (p document) items(s *Scan, places map[string]int) {
	p.raw("<section id=\"objects\" aria-labelledby=\"h-objects\"><h2 id=\"h-objects\">Objects</h2>\n")
	p.raw("<form id=\"filter\" class=\"filter\" hidden><label>Search<input id=\"search\" type=\"search\" autocomplete=\"off\"></label>")
	p.raw("<label>Verdict<select id=\"verdict\"><option value=\"\">any</option>")
	for _, v := range verdicts {
		p.raw("<option>" + string(v) + "</option>")
	}
	p.raw("</select></label><label>Kind<select id=\"kind\"><option value=\"\">any</option>")
	for _, kind := range Kinds() {
		p.raw("<option value=\"" + string(kind) + "\">" + nounOf(kind, 2) + "</option>")
	}
	p.raw("</select></label></form>\n<p id=\"shown\" class=\"soft\" role=\"status\">")
	p.text(fmt.Sprintf("%d objects are not free to go, or are going", len(s.Items)))
	p.raw("</p>\n")
	for i, item := range s.Items {
		if i%chunkSize == 0 {
			if i > 0 {
				p.raw("</div>\n")
			}
			p.raw("<div class=\"chunk\">\n")
		}
		if i < maxTrees {
			p.item(item, places)
		} else {
			p.row(item, places)
		}
	}
	if len(s.Items) > 0 {
		p.raw("</div>\n")
	}
	p.raw("</section>\n")
}

// maxTrees bounds the objects with a tree of their own; the others get a line that links to the causes. A
// page of 100,000 trees would be 70 MiB.
const maxTrees = 2000

// row writes an object in one line, with links to its causes.
func (p document) row(item check.Item, places map[string]int) {
	p.begin("p", item)
	p.text(item.Target.Ref())
	for _, h := range item.HeldBy {
		if i, known := places[h.Cause]; known {
			p.raw(fmt.Sprintf(" <a href=\"#cause-%d\">cause %d</a>", i, i+1))
		}
	}
	p.raw("</p>\n")
}

// begin opens the element of an object; the filter finds it by verdict and kind.
func (p document) begin(element string, item check.Item) {
	verdict := classOf(string(item.Verdict), words(verdicts))
	p.raw("<" + element + " data-verdict=\"" + verdict + "\" data-kind=\"" + classOf(string(item.Kind), words(Kinds())) + "\">")
	if element == "details" {
		p.raw("<summary>")
	}
	p.tag("<span class=\"word "+verdict+"\">", string(item.Verdict), "</span> ")
}

func (p document) item(item check.Item, places map[string]int) {
	p.begin("details", item)
	p.text(item.Target.Ref())
	if item.TerminatingSince != "" {
		p.tag(" <span class=\"soft\">Terminating since ", item.TerminatingSince, "</span>")
	}
	p.raw("</summary>\n<ul class=\"tree\"><li>")
	p.tag("<span class=\"node\">", item.Target.Ref(), "</span>")
	if len(item.HeldBy)+len(item.Unseen) > 0 {
		p.raw("<ul>\n")
	}
	for _, h := range item.HeldBy {
		p.raw("<li>")
		if i, known := places[h.Cause]; known {
			p.raw(fmt.Sprintf("<a class=\"node\" href=\"#cause-%d\">", i))
			p.tag("", h.Says, "</a>")
		} else {
			p.tag("<span class=\"node\">", h.Says, "</span>")
		}
		if len(h.Objects) > 0 {
			p.raw("<ul>\n")
			for _, o := range h.Objects {
				p.tag("<li><span class=\"node\">", o.Ref(), "</span></li>\n")
			}
			p.raw("</ul>")
		}
		p.raw("</li>\n")
	}
	for _, unseen := range item.Unseen {
		p.tag("<li>not seen: ", unseen.String(), "</li>\n")
	}
	if len(item.HeldBy)+len(item.Unseen) > 0 {
		p.raw("</ul>")
	}
	p.raw("</li></ul></details>\n")
}

// verdicts are all verdicts, the worst first.
var verdicts = []policies.Verdict{policies.Refused, policies.Hangs, policies.AtRisk, policies.Unknown, policies.Completes}

// classOf returns word if it is one of a fixed set, and "" otherwise.
func classOf(word string, of []string) string {
	if slices.Contains(of, word) {
		return word
	}
	return ""
}

func words[T ~string](list []T) (words []string) {
	for _, word := range list {
		words = append(words, string(word))
	}
	return words
}
