// Package page lays out text in lines, trees and tables. Wrapping and color depend on a part's role, never on
// its text: a tenant may have written any of it.
package page

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/printable"
)

// Tone is how a word is meant.
type Tone int

const (
	Plain Tone = iota
	Bad
	Doubtful
	Good
)

type Page struct{ blocks []block }

type block struct {
	// lead begins the first line, below the others.
	lead, below string
	// before and after surround word, which has the tone.
	before, word, after string
	tone                Tone
	command             bool
	// table is where the last column begins, 0 outside of tables; hang indents that column if a row is too long.
	table, hang int
}

func (b block) text() string { return b.before + b.word + b.after }

func (p *Page) Line(format string, args ...any) {
	p.Verdict("", "", Plain, fmt.Sprintf(format, args...))
}

// Verdict adds a line with a word of a tone.
func (p *Page) Verdict(before, word string, tone Tone, after string) {
	p.add(block{below: "  ", before: before, word: word, tone: tone, after: after})
}

// Item adds a line behind a lead, such as a number; lines below are as far in.
func (p *Page) Item(lead, format string, args ...any) {
	p.add(block{lead: lead, below: strings.Repeat(" ", utf8.RuneCountInString(lead)), after: fmt.Sprintf(format, args...)})
}

// Marked is Item with a lead that begins with a word of a tone.
func (p *Page) Marked(word string, tone Tone, rest, text string) {
	lead := printable.Line(word + rest)
	p.add(block{below: strings.Repeat(" ", utf8.RuneCountInString(lead)), word: word, tone: tone, after: rest + text})
}

func (p *Page) Command(indent int, command string) {
	p.add(block{lead: strings.Repeat(" ", indent) + "$ ", after: command, command: true})
}

// Filled adds text in lines of a width; lead begins the first, and below the others.
func (p *Page) Filled(lead, below, text string, width int) {
	for _, line := range fill(printable.But(text, "\t"), lead, below, width) {
		p.Line("%s", line)
	}
}

// Excerpt adds a line of a file, and marks length characters of it.
func (p *Page) Excerpt(number int, line string, from, length int, tone Tone) {
	line = printable.But(line, "\t")
	lead := fmt.Sprintf("%5d | ", number)
	blank := strings.Map(func(r rune) rune {
		if r == '\t' { // the mark is below its text
			return r
		}
		return ' '
	}, string([]rune(line)[:from]))
	p.blocks = append(p.blocks, block{after: lead + line},
		block{before: strings.Repeat(" ", len(lead)-2) + "| " + blank, word: "^" + strings.Repeat("~", length-1), tone: tone})
}

func (p *Page) Blank() { p.blocks = append(p.blocks, block{}) }

func (p *Page) Add(other *Page) { p.blocks = append(p.blocks, other.blocks...) }

// First returns the first line if it has a verdict.
func (p *Page) First() (first Page) {
	if len(p.blocks) > 0 && p.blocks[0].tone != Plain && p.blocks[0].table == 0 {
		first.blocks = p.blocks[:1]
	}
	return first
}

func (p *Page) add(b block) {
	b.lead, b.before, b.word, b.after = printable.Line(b.lead), printable.Line(b.before), printable.Line(b.word), printable.Line(b.after)
	p.blocks = append(p.blocks, b)
}

type Node struct {
	Word  string
	Tone  Tone
	Text  string
	Below []*Node
}

// Child returns the node below n with this line, added if missing.
func (n *Node) Child(line string) *Node { return n.Verdict("", Plain, line) }

// Verdict is Child for a line that begins with a word of a tone.
func (n *Node) Verdict(word string, tone Tone, line string) *Node {
	for _, below := range n.Below {
		if below.Word == word && below.Text == line {
			return below
		}
	}
	below := &Node{Word: word, Tone: tone, Text: line}
	n.Below = append(n.Below, below)
	return below
}

// Tree adds the lines below a root.
func (p *Page) Tree(root *Node) { p.branches(root, "") }

func (p *Page) branches(n *Node, indent string) {
	for i, below := range n.Below {
		branch, deeper := "├─ ", "│  "
		if i == len(n.Below)-1 {
			branch, deeper = "└─ ", "   "
		}
		p.add(block{lead: indent + branch, below: indent + deeper, word: below.Word, tone: below.Tone, after: below.Text})
		p.branches(below, indent+deeper)
	}
}

type Cell struct {
	Text string
	Tone Tone
}

// Table adds rows below a heading. In a narrow terminal the last column has lines of its own, as far in as
// the second.
func (p *Page) Table(heading []string, rows [][]Cell) {
	all := [][]Cell{make([]Cell, len(heading))}
	for i, text := range heading {
		all[0][i].Text = text
	}
	all = append(all, rows...)
	widths := make([]int, len(heading))
	for _, row := range all {
		for i := range row {
			row[i].Text = printable.Line(row[i].Text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text)+2)
		}
	}
	last := len(heading) - 1
	begin := 0
	for _, width := range widths[:last] {
		begin += width
	}
	for n, row := range all {
		b := block{table: begin, hang: widths[0]}
		for i, cell := range row {
			text := cell.Text
			if i < last {
				text += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			}
			switch {
			case cell.Tone != Plain:
				b.word, b.tone, b.after = cell.Text, cell.Tone, text[len(cell.Text):]
			case b.word == "":
				b.before += text
			default:
				b.after += text
			}
		}
		if n == 0 {
			b.hang = 0
		}
		p.blocks = append(p.blocks, b)
	}
}

// Count returns a number with its noun, such as "2 files".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// More stands for what is left out: "and 12 more", or with a noun "and 12 more steps".
func More(n int, noun string) string {
	if noun == "" {
		return fmt.Sprintf("and %d more", n)
	}
	return "and " + Count(n, "more "+noun)
}

// List joins the first few of several names, and counts the others.
func List(names []string, most int) string {
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + " " + More(n, "")
	}
	return strings.Join(names, ", ")
}

// Fold returns the first few lines, and one that counts the others.
func Fold(lines []string, most int, noun string) []string {
	if n := len(lines) - most; n > 0 {
		return append(slices.Clone(lines[:most]), More(n, noun))
	}
	return lines
}

// Style is how a page is written; zero is plain.
type Style struct {
	// Width in columns; 0 does not wrap.
	Width int
	Color bool
	// ASCII draws with characters of every terminal and locale.
	ASCII bool
}

// toASCII keeps the width.
var toASCII = strings.NewReplacer("├─", "|-", "└─", "`-", "│", "|")

// narrowest is the least width for wrapping.
const narrowest = 20

func (p *Page) String() string { return p.In(Style{}) }

func (p *Page) Write(w io.Writer, s Style) error {
	_, err := io.WriteString(w, p.In(s))
	return err
}

func (p *Page) In(s Style) string {
	var out strings.Builder
	for _, b := range p.blocks {
		if s.ASCII && !b.command {
			for _, text := range []*string{&b.before, &b.word, &b.after} {
				*text = strings.ReplaceAll(*text, "…", "...")
			}
		}
		line := b.lead + b.text()
		lines := []string{line}
		if s.Width > 0 && utf8.RuneCountInString(line) > s.Width {
			lines = b.wrap(max(s.Width, narrowest))
		}
		for i, line := range lines {
			if s.Color {
				line = b.color(line, i == 0)
			}
			if s.ASCII && !b.command {
				line = toASCII.Replace(line)
			}
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// Escapes of ECMA-48.
const (
	strong = "\x1b[1m"
	normal = "\x1b[0m"
)

var paints = [...]string{Bad: "\x1b[31m", Doubtful: "\x1b[33m", Good: "\x1b[32m"}

func (b block) color(line string, first bool) string {
	from := len(b.lead) + len(b.before)
	to := from + len(b.word)
	switch {
	case b.command:
		return strong + line + normal
	case !first || b.tone == Plain || to > len(line) || line[from:to] != b.word: // wrapped
		return line
	}
	return line[:from] + paints[b.tone] + b.word + normal + line[to:]
}

// wrap keeps a command whole, to be copied: the terminal wraps it.
func (b block) wrap(width int) (lines []string) {
	switch {
	case b.command:
		return []string{b.lead + b.after}
	case b.table > 0:
		return b.row(width)
	case utf8.RuneCountInString(b.below) > width/2:
		b.below = strings.Repeat(" ", 4)
	}
	return fill(b.text(), b.lead, b.below, width)
}

func (b block) row(width int) (lines []string) {
	runes := []rune(b.text())
	begin := strings.Repeat(" ", b.hang)
	column := min(b.table, len(runes))
	head := strings.TrimRight(string(runes[:column]), " ")
	if b.hang == 0 {
		return []string{head}
	}
	if at := strings.LastIndex(head, " -n "); at > 0 && utf8.RuneCountInString(head) > width {
		lines, head = []string{strings.TrimRight(head[:at], " ")}, begin+head[at+1:]
	}
	lines = append(lines, head)
	if column == len(runes) {
		return lines
	}
	return append(lines, fill(string(runes[column:]), begin, begin, width)...)
}

func fill(text, lead, below string, width int) (lines []string) {
	line, space := lead, ""
	for _, word := range strings.Fields(text) {
		if space != "" && utf8.RuneCountInString(line+space+word) > width {
			lines = append(lines, line)
			line, space = below, ""
		}
		line += space + word
		space = " "
	}
	return append(lines, line)
}
