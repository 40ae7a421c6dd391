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
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// chunkSize is in objects: a browser lays a part of the list out when it is scrolled to.
const chunkSize = 100

// document writes HTML. html/template would keep the linker from dropping unused methods, a third of the binary
// (TestLean).
type document struct{ *bufio.Writer }

// write takes markup only in the formats of this file, with values between tags or in attributes in double
// quotes. FuzzPage checks that no value is markup.
func (d document) write(format string, values ...any) {
	for i, value := range values {
		switch value.(type) {
		case int, float64:
		default:
			values[i] = html.EscapeString(printable.Line(fmt.Sprint(value)))
		}
	}
	_, _ = fmt.Fprintf(d, format, values...) // the error is sticky, and Flush returns it
}

// raw writes markup of this package.
func (d document) raw(markup string) { _, _ = d.WriteString(markup) }

// hash returns a source of a content security policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// HTML writes one page without network access. Its content security policy allows its script by hash.
func (s *Scan) HTML(w io.Writer) error {
	d := document{bufio.NewWriterSize(w, 64<<10)}
	d.raw(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ` + hash(pageStyle) + `; script-src ` + hash(pageScript) + `; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
`)
	d.write("<title>termguard scan: %s</title>\n", s.Of)
	d.raw("<style>" + pageStyle + "</style>\n</head>\n<body>\n")
	d.write(`<a class="skip" href="#causes">Skip to the causes</a>
<header>
<h1>What could not be deleted: %s</h1>
<p class="soft">termguard scan, %s</p>
</header>
<main>
<p class="story">%s</p>
`, s.Of, s.At, s.headline())
	if s.Interrupted != "" {
		d.write("<p class=\"story word\">%s</p>\n", s.Interrupted)
	}
	if s.Mended != nil {
		d.write("<p class=\"story word\">%s</p>\n", s.promise())
	}
	d.counts(s)
	d.causes(s)
	d.terminating(s)
	d.items(s)
	if len(s.Unseen) > 0 {
		d.raw("<section aria-labelledby=\"h-unseen\"><h2 id=\"h-unseen\">Unseen</h2>\n")
		d.list(line, policies.UnseenTexts(s.Unseen))
		d.raw("</section>\n")
	}
	for _, left := range s.LeftOut {
		d.write("<p>Left out: %s</p>\n", left)
	}
	d.raw("</main>\n<script>" + pageScript + "</script>\n</body>\n</html>\n")
	return d.Flush()
}

const line, node = "<li>%s</li>\n", "<li><span class=\"node\">%s</span></li>\n"

func (d document) list(format string, items []string) {
	if len(items) == 0 {
		return
	}
	d.raw("<ul>\n")
	for _, item := range items {
		d.write(format, item)
	}
	d.raw("</ul>\n")
}

func (d document) counts(s *Scan) {
	d.write(`<section aria-labelledby="h-counts"><h2 id="h-counts">If it were deleted now</h2>
<div class="scroll" tabindex="0" role="group" aria-labelledby="h-counts"><table>
<thead><tr><th scope="col">kind</th><th scope="col" class="n">checked</th>`)
	for _, v := range verdicts {
		d.write(`<th scope="col" class="n">%s</th>`, strings.ReplaceAll(string(v), "-", " "))
	}
	d.write("</tr></thead>\n<tbody>\n")
	for _, c := range s.Counts {
		d.write(`<tr><th scope="row">%s</th><td class="n ">%d</td>`, nouns[c.Kind]+"s", c.Objects)
		for _, v := range verdicts {
			class := string(v)
			if *c.of(v) == 0 {
				class = "soft"
			}
			d.write(`<td class="n %s">%d</td>`, class, *c.of(v))
		}
		d.write("</tr>\n")
	}
	d.write("</tbody></table></div></section>\n")
}

func (d document) causes(s *Scan) {
	most, all := 1, s.byKind()
	for _, c := range s.Causes {
		most = max(most, c.Holds)
	}
	d.write("<section id=\"causes\" aria-labelledby=\"h-causes\"><h2 id=\"h-causes\">Causes</h2>\n")
	if len(s.Causes) == 0 {
		d.write("<p>Nothing is blocked.</p>\n")
	}
	for i, c := range s.Causes {
		open := ""
		if i < shownCauses {
			open = " open"
		}
		d.write(`<details id="cause-%d"%s><summary><span class="word %s">%s</span> <strong>%d: %s</strong> <span class="soft">%s</span>`,
			i, open, c.Class, headings[c.Class], i+1, c.Title, c.holding(all))
		d.bar(string(c.Class), c.Holds, most)
		d.write("</summary>\n")
		if c.Mended != nil {
			d.write("<p>%s.</p>\n", s.fixing(c))
		}
		if len(c.Names) > 0 {
			d.write("<ul class=\"tree\"><li><span class=\"node\">%s</span>", c.Title)
			names := c.Names
			if more := c.Holds - len(names); more > 0 {
				names = append(slices.Clone(names), page.More(more, "")+", in the list below")
			}
			d.list(node, names)
			d.raw("</li></ul>\n")
		}
		if len(c.Steps) > 0 {
			d.write("<ol>\n")
			for _, step := range c.Steps {
				d.write("<li>%s", step.Do)
				if step.Command != "" {
					d.write(`<pre>%s</pre><button type="button" class="copy" hidden>Copy</button>`, step.Command)
				}
				d.write("</li>\n")
			}
			d.write("</ol>\n")
		}
		if len(c.Evidence) > 0 {
			d.raw("<p class=\"soft\">Because:</p>")
			d.list(line, c.Evidence)
		}
		d.write("</details>\n")
	}
	d.write("</section>\n")
}

func (d document) bar(class string, part, most int) {
	d.write(`<svg class="bar %s" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="4"/><rect class="part" width="%.1f" height="4"/></svg>`,
		class, 100*float64(part)/float64(max(most, 1)))
}

const maxTimeline = 200

func (d document) terminating(s *Scan) {
	items := s.Terminating()
	if len(items) == 0 {
		return
	}
	d.write(`<section aria-labelledby="h-now"><h2 id="h-now">Terminating now</h2>
<div class="scroll wide" tabindex="0" role="group" aria-labelledby="h-now"><table>
<thead><tr><th scope="col">for</th><th scope="col">object</th><th scope="col">why</th></tr></thead>
<tbody>
`)
	oldest := int(s.age(items[0]).Seconds())
	for i, item := range items {
		if i == maxTimeline {
			d.write("<tr><td colspan=\"3\">%s, in the list below</td></tr>\n", page.More(len(items)-i, ""))
			break
		}
		age := s.age(item)
		d.write("<tr><td>%s", duration.HumanDuration(age))
		d.bar("time", int(age.Seconds()), oldest)
		d.write("</td><td>%s</td><td>%s</td></tr>\n", item.Target.Ref(), why(item))
	}
	d.write("</tbody></table></div></section>\n")
}

// maxTrees bounds the objects with a tree; others get a line. A page of 100,000 trees would be 70 MiB.
const maxTrees = 2000

func (d document) items(s *Scan) {
	d.write(`<section id="objects" aria-labelledby="h-objects"><h2 id="h-objects">Objects</h2>
<form id="filter" class="filter" hidden><label>Search<input id="search" type="search" autocomplete="off"></label><label>Verdict<select id="verdict"><option value="">any</option>`)
	for _, v := range verdicts {
		d.write("<option>%s</option>", v)
	}
	d.write(`</select></label><label>Kind<select id="kind"><option value="">any</option>`)
	for _, kind := range Kinds() {
		d.write(`<option value="%s">%s</option>`, kind, nouns[kind]+"s")
	}
	d.write(`</select></label></form>
<p id="shown" class="soft" role="status">%d objects blocked or Terminating</p>
`, len(s.Items))
	places := map[string]int{}
	for i, c := range s.Causes {
		places[c.ID] = i
	}
	written := 0
	for chunk := range slices.Chunk(s.Items, chunkSize) {
		d.write("<div class=\"chunk\">\n")
		for _, item := range chunk {
			if written++; written <= maxTrees {
				d.tree(item, places)
			} else {
				d.row(item, places)
			}
		}
		d.write("</div>\n")
	}
	d.write("</section>\n")
}

func (d document) row(item answer.Item, places map[string]int) {
	d.write(`<p data-verdict="%s" data-kind="%s"><span class="word %[1]s">%[1]s</span> %[3]s`, item.Verdict, item.Kind, item.Target.Ref())
	for _, h := range item.HeldBy {
		if i, ok := places[h.Cause]; ok {
			d.write(` <a href="#cause-%d">cause %d</a>`, i, i+1)
		}
	}
	d.write("</p>\n")
}

func (d document) tree(item answer.Item, places map[string]int) {
	d.write(`<details data-verdict="%s" data-kind="%s"><summary><span class="word %[1]s">%[1]s</span> %[3]s`, item.Verdict, item.Kind, item.Target.Ref())
	if item.TerminatingSince != "" {
		d.write(` <span class="soft">Terminating since %s</span>`, item.TerminatingSince)
	}
	d.write("</summary>\n<ul class=\"tree\"><li><span class=\"node\">%s</span>", item.Target.Ref())
	if len(item.HeldBy)+len(item.Unseen) > 0 {
		d.write("<ul>\n")
	}
	for _, h := range item.HeldBy {
		if i, ok := places[h.Cause]; ok {
			d.write(`<li><a class="node" href="#cause-%d">%s</a>`, i, h.Says)
		} else {
			d.write(`<li><span class="node">%s</span>`, h.Says)
		}
		var objects []string
		for _, o := range h.Objects {
			objects = append(objects, o.Ref())
		}
		d.list(node, objects)
		d.raw("</li>\n")
	}
	for _, unseen := range item.Unseen {
		d.write("<li>unseen: %s</li>\n", unseen)
	}
	if len(item.HeldBy)+len(item.Unseen) > 0 {
		d.write("</ul>")
	}
	d.write("</li></ul></details>\n")
}
