package watch

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
)

// Screen shows what is being deleted: on a terminal a table in place, elsewhere a line for
// each change.
type Screen struct {
	Out io.Writer
	// Size of the terminal in columns and rows; nil where Out is none.
	Size  func() (columns, rows int)
	Style check.Style

	now  check.Terminating
	read time.Time // when it was
	note string    // why it could not be read since
	rows int       // of the table that is on the terminal
	wide int       // how many columns that had

	// As lines:
	told   map[string]told
	more   int    // how many others were told of
	hidden string // what was told to be unseen
}

// NewScreen is a screen on a stream.
func NewScreen(out io.Writer, style check.Style) *Screen {
	s := &Screen{Out: out, Style: check.Style{Color: style.Color, ASCII: style.ASCII}}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		s.Size = func() (columns, rows int) {
			columns, rows, err := term.GetSize(int(file.Fd()))
			if err != nil || columns <= 0 || rows <= 0 {
				return 80, 24
			}
			return columns, rows
		}
	}
	return s
}

// Show shows what is being deleted now.
func (s *Screen) Show(now check.Terminating) {
	s.now, s.read, s.note = now, time.Now(), ""
	if s.Size != nil {
		s.draw()
		return
	}
	s.tell()
}

// Note shows that what is being deleted could not be read again.
func (s *Screen) Note(err error) {
	note := printable.Line(err.Error())
	again := s.note == note
	s.note = note
	switch {
	case s.Size != nil:
		s.draw()
	case !again:
		s.say("not read: " + s.note)
	}
}

// Tick brings up to date for how long, on a terminal.
func (s *Screen) Tick() {
	if s.rows > 0 {
		s.draw()
	}
}

// Clear takes the table away, so that other text may be written.
func (s *Screen) Clear() {
	if s.rows > 0 {
		fmt.Fprint(s.Out, up(s.rows)+below)
		s.rows = 0
	}
}

// The escapes of ECMA-48 that terminals understand: CPL goes to the start of a line above,
// EL erases the rest of a line, ED what is below.
const (
	restOfLine = "\x1b[K"
	below      = "\x1b[J"
)

func up(rows int) string { return fmt.Sprintf("\x1b[%dF", rows) }

func (s *Screen) draw() {
	columns, rows := s.Size()
	if columns < s.wide {
		s.rows = 0 // a terminal that was made narrower may have broken the lines anew: the next table stands below
	}
	s.wide = columns
	var out strings.Builder
	if s.rows > 0 {
		out.WriteString(up(s.rows))
	}
	lines := s.table(columns, rows-1) // the cursor is below
	for _, line := range lines {
		out.WriteString(strings.TrimSuffix(s.Style.Apply(line), "\n") + restOfLine + "\n")
	}
	out.WriteString(below)
	s.rows = len(lines)
	fmt.Fprint(s.Out, out.String())
}

// table is what is being deleted in so many rows and columns: of each object a line, and
// one below it of what it waits for.
func (s *Screen) table(columns, rows int) (lines []string) {
	mark := "…"
	if s.Style.ASCII {
		mark = "..."
	}
	// The sign is replaced before the line is cut: Apply would make the line wider.
	add := func(line string) { lines = append(lines, fit(strings.ReplaceAll(line, "…", mark), columns, mark)) }
	head := fmt.Sprintf("%d being deleted", len(s.now.Items)+s.now.Omitted)
	if ago := time.Since(s.read); ago >= time.Second {
		head += fmt.Sprintf(" (%s ago)", duration.HumanDuration(ago))
	}
	add(head)
	if s.note != "" {
		add("not read since: " + s.note)
	}
	foot := 1 // how many more there are
	if len(s.now.Unseen) > 0 {
		foot++
	}
	shown := min(len(s.now.Items), max(0, rows-len(lines)-foot)/2)
	for _, item := range s.now.Items[:shown] {
		add(fmt.Sprintf("%-4s %s %s", age(item), item.Verdict, item))
		add("     " + why(item))
	}
	if more := len(s.now.Items) + s.now.Omitted - shown; more > 0 {
		add(fmt.Sprintf("and %d more", more))
	}
	if len(s.now.Unseen) > 0 {
		add("not seen: " + printable.Line(strings.Join(s.now.Unseen, ", ")))
	}
	return lines[:min(len(lines), max(rows, 1))]
}

// told is what was told of an object.
type told struct {
	item check.Ending
	says string // without figures: that time passes is no change
}

// tell writes a line for each object that is new, has gone, or waits for something else.
func (s *Screen) tell() {
	now := map[string]told{}
	for _, item := range s.now.Items {
		key := item.String() + " " + item.Since.UTC().Format(time.RFC3339)
		says := fmt.Sprintf("%s: %s", item.Verdict, why(item))
		now[key] = told{item, withoutFigures(says)}
		if before, known := s.told[key]; !known {
			s.say(fmt.Sprintf("%s, being deleted for %s: %s", item, age(item), says))
		} else if before.says != now[key].says {
			s.say(fmt.Sprintf("%s: now %s", item, says))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.told)) {
		item := s.told[key].item
		last := len(s.now.Items) - 1
		if _, there := now[key]; there || s.now.Omitted > 0 && last >= 0 && !item.Since.Before(&s.now.Items[last].Since) {
			continue // it may be among those that are not asked about
		}
		s.say(item.String() + ": gone")
	}
	if s.told = now; s.now.Omitted != s.more && s.now.Omitted > 0 {
		s.say(fmt.Sprintf("and %d more", s.now.Omitted))
	}
	s.more = s.now.Omitted
	if hidden := printable.Line(strings.Join(s.now.Unseen, ", ")); hidden != s.hidden {
		s.hidden = hidden
		s.say("not seen: " + cmp.Or(hidden, "nothing any more"))
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

func (s *Screen) say(line string) {
	fmt.Fprintf(s.Out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line)
}

func age(item check.Ending) string {
	return duration.HumanDuration(max(0, time.Since(item.Since.Time)))
}

// why is how long the deletion usually takes, and what it waits for.
func why(item check.Ending) string {
	text := printable.Line(item.Why())
	if usual := item.Usual(); usual > 0 {
		text = fmt.Sprintf("usually %s; %s", duration.HumanDuration(usual), text)
	}
	return text
}

// fit cuts a line that is wider than so many columns, and marks the cut.
func fit(line string, columns int, mark string) string {
	at := 0
	cut := 0 // where the line may end so that the mark still fits
	room := columns - utf8.RuneCountInString(mark)
	for i, r := range line {
		if wide := columnsOf(r); at+wide > columns {
			return line[:cut] + mark
		} else if at += wide; at <= room {
			cut = i + len(string(r))
		}
	}
	return line
}

// columnsOf is how wide a character is at most (https://www.unicode.org/reports/tr11/).
func columnsOf(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth, width.EastAsianAmbiguous:
		return 2
	}
	if unicode.Is(unicode.Mn, r) {
		return 0
	}
	return 1
}
