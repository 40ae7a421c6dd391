// Package watch shows the Terminating objects, by package answer, until they are deleted.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

const (
	// rest is the shortest pause, and share the pause in multiples of a look's duration: one at 100,000 objects
	// takes seconds of an API server's time.
	rest  = 2 * time.Second
	share = 4
	// blind looks end the watch if only unlistable types are left: an API may come back.
	blind = 3
)

// Watch prints looks until no Terminating object is left or ctx ends, and returns the objects left. An error
// means that they are unknown; answer.Gone of a look's error, that none is left.
func (p *Printer) Watch(ctx context.Context, look func(context.Context) (answer.Answer, error)) (left answer.Answer, err error) {
	type outcome struct {
		answer.Answer
		err  error
		took time.Duration
	}
	looks := make(chan outcome, 1)
	due := time.NewTimer(0)
	defer due.Stop()
	seen, empty := false, 0
	for {
		select {
		case <-ctx.Done():
			if !seen {
				return left, fmt.Errorf("the remaining objects are not known yet: %w", context.Cause(ctx))
			}
			return left, nil
		case <-due.C:
			go func() {
				began := time.Now()
				now, err := look(ctx)
				looks <- outcome{now, err, time.Since(began)}
			}()
		case now := <-looks:
			switch {
			case ctx.Err() != nil:
				continue
			case answer.Gone(now.err):
				return answer.Answer{}, nil
			case now.err != nil && !seen:
				return left, now.err
			case now.err != nil:
				p.Fail(now.err)
			default:
				seen, left = true, now.Answer
				p.Print(left)
				switch {
				case len(left.Items) > 0:
					empty = 0
				case len(left.Unseen) == 0:
					return left, nil
				default:
					empty++
				}
				if empty == blind {
					return left, errors.New("no Terminating objects among the types you can list; unseen: " + printable.Line(strings.Join(policies.UnseenTexts(left.Unseen), ", ")))
				}
			}
			due.Reset(max(rest, share*now.took))
		}
	}
}

// Printer writes a line for each change of the Terminating objects.
type Printer struct {
	Out   io.Writer
	Style page.Style

	last   map[string]line
	more   int
	hidden string // the unseen facts
	failed string // the reason of the last failed read
}

type line struct {
	item answer.Item
	says string // without figures: passing time is no change
}

// Print writes a line for each object that is new, deleted, or waits for something else.
func (p *Printer) Print(now answer.Answer) {
	p.failed = ""
	lines := map[string]line{}
	for _, item := range now.Items {
		key := item.String() + " " + item.Since().UTC().Format(time.RFC3339)
		says := fmt.Sprintf("%s: %s", item.Verdict, why(item))
		lines[key] = line{item, withoutFigures(says)}
		if before, ok := p.last[key]; !ok {
			p.verdict(fmt.Sprintf("%s, Terminating for %s: ", item, duration.HumanDuration(max(0, time.Since(item.Since())))), item)
		} else if before.says != lines[key].says {
			p.verdict(fmt.Sprintf("%s: now ", item), item)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.last)) {
		item := p.last[key].item
		last := len(now.Items) - 1
		if _, there := lines[key]; there || now.Omitted > 0 && last >= 0 && !item.Since().Before(now.Items[last].Since()) {
			continue // it may be omitted
		}
		p.say(item.String() + ": deleted")
	}
	if p.last = lines; now.Omitted != p.more && now.Omitted > 0 {
		p.say(page.More(now.Omitted, ""))
	}
	p.more = now.Omitted
	if hidden := printable.Line(strings.Join(policies.UnseenTexts(now.Unseen), ", ")); hidden != p.hidden {
		p.hidden = hidden
		p.say("unseen: " + cmp.Or(hidden, "nothing"))
	}
}

// Fail writes once for each reason that the cluster could not be read.
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

func (p *Printer) verdict(before string, item answer.Item) {
	p.write(before, string(item.Verdict), answer.ToneOf(item.Verdict), ": "+why(item))
}

func (p *Printer) write(before, word string, tone page.Tone, after string) {
	var line page.Page
	line.Verdict(time.Now().UTC().Format(time.RFC3339)+" "+before, word, tone, after)
	_ = line.Write(p.Out, p.Style) // a closed pipe ends the process
}

func why(item answer.Item) string {
	text := printable.Line(item.Blocker())
	if usual := item.Usual(); usual > 0 {
		text = fmt.Sprintf("usually %s; %s", duration.HumanDuration(usual), text)
	}
	return text
}
