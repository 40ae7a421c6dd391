package check

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/policies"
)

// Style is the style of text on a terminal; the zero value is plain.
type Style struct {
	// Width of a line in columns; 0 does not wrap.
	Width int
	Color bool
	// ASCII draws with characters that every terminal and locale has.
	ASCII bool
}

// toASCII keeps the width, except of the ellipsis.
var toASCII = strings.NewReplacer("├─", "|-", "└─", "`-", "│", "|")

// narrowest is the least width for wrapping: below it, nothing is readable.
const narrowest = 20

// Apply wraps and colors text. Continued lines are indented, and commands can be copied.
func (s Style) Apply(text string) string {
	var out strings.Builder
	column := 0 // where the last column of a table begins; 0 outside tables
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command := commandLine.MatchString(line)
		if s.ASCII && !command {
			line = strings.ReplaceAll(line, "…", "...")
		}
		pieces := []string{line}
		if s.Width > 0 && utf8.RuneCountInString(line) > s.Width {
			if strings.HasPrefix(line, endingHead) {
				pieces = []string{strings.TrimRight(line[:strings.LastIndex(line, " ")], " ")} // the heading WHY is on the next line
			} else if column > 0 {
				pieces = row(line, column, max(s.Width, narrowest))
			} else {
				pieces = wrap(line, max(s.Width, narrowest), command)
			}
		}
		switch {
		case line == "":
			column = 0
		case strings.HasPrefix(line, endingHead):
			column = utf8.RuneCountInString(line[:strings.LastIndex(line, " ")+1])
		}
		for i, piece := range pieces {
			if s.Color {
				piece = colored(piece, i == 0, command)
			}
			if s.ASCII && !command {
				piece = toASCII.Replace(piece)
			}
			out.WriteString(piece + "\n")
		}
	}
	return out.String()
}

var (
	commandLine = regexp.MustCompile(`^ +\$ `)
	// beginning matches the prefix of a line before its words.
	beginning = regexp.MustCompile(`^(?:[ │├└─]*)(?:\$ |\d+\. |[a-z]+: (?:\$ )?)?`)
	branches  = strings.NewReplacer("├", "│", "└", " ", "─", " ")
	word      = regexp.MustCompile(`^(\S.*?: )(refused|hangs|at-risk|unknown|completes)|^(\S+ +)(refused|hangs|at-risk|unknown|completes) |^([ │├└─]+)(will (?:hang|be refused)|may (?:hang|be refused)|forbidden|may be forbidden):`)
)

// Escapes of ECMA-48.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	strong = "\x1b[1m"
	normal = "\x1b[0m"
)

var paints = map[string]string{
	string(policies.Refused): red, string(policies.Hangs): red, string(policies.AtRisk): yellow, string(policies.Unknown): yellow, string(policies.Completes): green,
	"will hang": red, "will be refused": red, "forbidden": red, "may hang": yellow, "may be refused": yellow, "may be forbidden": yellow,
}

func colored(line string, first, command bool) string {
	if command {
		return strong + line + normal
	}
	if !first {
		return line
	}
	at := word.FindStringSubmatchIndex(line)
	if at == nil {
		return line
	}
	for i := 4; i < len(at); i += 4 { // every second group is the word
		if from, to := at[i], at[i+1]; from >= 0 {
			return line[:from] + paints[line[from:to]] + line[from:to] + normal + line[to:]
		}
	}
	return line
}

// row returns a table row, with the last column wrapped onto lines of its own.
func row(line string, column, width int) []string {
	runes := []rune(line)
	column = min(column, len(runes))
	begin := strings.Repeat(" ", len(endingHead)) // below the verdict
	object := strings.TrimRight(string(runes[:column]), " ")
	var pieces []string
	if at := strings.LastIndex(object, " -n "); at > 0 && utf8.RuneCountInString(object) > width {
		pieces, object = []string{strings.TrimRight(object[:at], " ")}, begin+object[at+1:]
	}
	pieces = append(pieces, object)
	if column == len(runes) {
		return pieces
	}
	return append(pieces, wrap(begin+string(runes[column:]), width, false)...)
}

// wrap breaks a line between words, a command with backslashes, and JSON between its members.
func wrap(line string, width int, command bool) (lines []string) {
	begin := beginning.FindString(line)
	if !strings.HasPrefix(line, " ") && !strings.ContainsAny(begin, "│├└") {
		begin = "" // a line of its own
	}
	below := branches.Replace(begin)
	below = regexp.MustCompile(`[^ │]`).ReplaceAllString(below, " ")
	if begin == "" || command {
		below += "  "
	}
	if utf8.RuneCountInString(below) > width/2 {
		below = strings.Repeat(" ", 4)
	}
	breaks := strings.Fields
	end := ""
	if command {
		breaks, end = commandWords, ` \`
	}
	current := begin
	empty := true
	joined := false // the word continues in JSON: no space, no backslash
	for _, next := range breaks(line[len(begin):]) {
		more := strings.HasSuffix(next, jsonBreak)
		next = strings.TrimSuffix(next, jsonBreak)
		space := " "
		if empty || joined {
			space = ""
		}
		if !empty && utf8.RuneCountInString(current+space+next+end) > width {
			if joined {
				lines = append(lines, current)
			} else {
				lines = append(lines, current+end)
			}
			current, space = below, ""
		}
		current += space + next
		empty, joined = false, more
	}
	return append(lines, current)
}

// jsonBreak ends a piece of a word that may be broken as JSON allows.
const jsonBreak = "\x00"

// commandWords returns the words of a shell line, quotes included. JSON in single quotes is split into pieces
// that end with jsonBreak.
func commandWords(command string) (found []string) {
	var piece strings.Builder
	single, double, inJSON := false, false, false
	flush := func(end string) {
		if piece.Len() > 0 {
			found = append(found, piece.String()+end)
			piece.Reset()
		}
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\'' && !(double && !single):
			single = !single
			rest := command[i+1:]
			inJSON = single && (strings.HasPrefix(rest, "[{") || strings.HasPrefix(rest, `{"`))
			double = false
		case c == '"' && (i == 0 || command[i-1] != '\\'):
			double = !double
		case c == ' ' && !single && !double:
			flush("")
			continue
		}
		piece.WriteByte(c)
		if c == ',' && inJSON && !double {
			flush(jsonBreak)
		}
	}
	flush("")
	return found
}
