package watch

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Printer writes a line for each change of the Terminating objects.
type Printer struct {
	Out   io.Writer
	Style page.Style

	last   map[string]line
	more   int    // how many others there were
	hidden string // the unseen facts
	failed string // the reason of the last failed read
}

// line is the last line about an object.
type line struct {
	item check.Item
	says string // without figures: passing time is no change
}

// Print writes a line for each object that is new, was deleted, or waits for something else.
func (p *Printer) Print(now check.Answer) {
	p.failed = ""
	lines := map[string]line{}
	for _, item := range now.Items {
		key := item.String() + " " + item.Since().UTC().Format(time.RFC3339)
		says := fmt.Sprintf("%s: %s", item.Verdict, why(item))
		lines[key] = line{item, withoutFigures(says)}
		if before, known := p.last[key]; !known {
			p.verdict(fmt.Sprintf("%s, being deleted for %s: ", item, duration.HumanDuration(max(0, time.Since(item.Since())))), item)
		} else if before.says != lines[key].says {
			p.verdict(fmt.Sprintf("%s: now ", item), item)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.last)) {
		item := p.last[key].item
		last := len(now.Items) - 1
		if _, there := lines[key]; there || now.Omitted > 0 && last >= 0 && !item.Since().Before(now.Items[last].Since()) {
			continue // it may be among the omitted objects
		}
		p.say(item.String() + ": gone")
	}
	if p.last = lines; now.Omitted != p.more && now.Omitted > 0 {
		p.say(fmt.Sprintf("and %d more", now.Omitted))
	}
	p.more = now.Omitted
	if hidden := printable.Line(strings.Join(policies.UnseenTexts(now.Unseen), ", ")); hidden != p.hidden {
		p.hidden = hidden
		p.say("not seen: " + cmp.Or(hidden, "nothing any more"))
	}
}

// Fail writes that the cluster could not be read, once for each reason.
func (p *Printer) Fail(err error) {
	if reason := printable.Line(err.Error()); reason != p.failed {
		p.failed = reason
		p.say("not read: " + reason)
	}
}

func withoutFigures(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

func (p *Printer) say(line string) { p.write(line, "", page.Plain, "") }

func (p *Printer) verdict(before string, item check.Item) {
	p.write(before, string(item.Verdict), check.ToneOf(item.Verdict), ": "+why(item))
}

func (p *Printer) write(before, word string, tone page.Tone, after string) {
	var line page.Page
	line.Verdict(time.Now().UTC().Format(time.RFC3339)+" "+before, word, tone, after)
	_ = line.Write(p.Out, p.Style) // a closed pipe ends the process
}

// why returns the usual duration, and what the deletion waits for.
func why(item check.Item) string {
	text := printable.Line(item.Blocker())
	if usual := item.Usual(); usual > 0 {
		text = fmt.Sprintf("usually %s; %s", duration.HumanDuration(usual), text)
	}
	return text
}
