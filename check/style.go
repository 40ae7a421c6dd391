package check

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/policies"
)

// Style is how text for people looks on a terminal; the zero value is that of a file.
type Style struct {
	// Width of a line in columns; 0 does not wrap.
	Width int
	Color bool
	// ASCII draws with characters that every terminal and locale has.
	ASCII bool
}

// toASCII has as many columns for each sign, but for the ellipsis.
var toASCII = strings.NewReplacer("├─", "|-", "└─", "`-", "│", "|")

// narrowest is the least width that is wrapped to: below it, nothing is readable.
const narrowest = 20

// Apply wraps and colours what Text wrote. Lines go on below their own beginning, and
// commands so that they can be copied.
func (s Style) Apply(text string) string {
	var out strings.Builder
	column := 0 // where the last column of a table begins; 0 in none
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command := commandLine.MatchString(line)
		if s.ASCII && !command {
			line = strings.ReplaceAll(line, "…", "...")
		}
		pieces := []string{line}
		if s.Width > 0 && utf8.RuneCountInString(line) > s.Width {
			if strings.HasPrefix(line, endingHead) {
				pieces = []string{strings.TrimRight(line[:strings.LastIndex(line, " ")], " ")} // what WHY heads stands below
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
	// beginning is what a line starts with before its words.
	beginning = regexp.MustCompile(`^(?:[ │├└─]*)(?:\$ |\d+\. |[a-z]+: (?:\$ )?)?`)
	branches  = strings.NewReplacer("├", "│", "└", " ", "─", " ")
	word      = regexp.MustCompile(`^(\S.*?: )(refused|hangs|at-risk|unknown|completes)|^(\S+ +)(refused|hangs|at-risk|unknown|completes) |^([ │├└─]+)(will (?:hang|be refused)|may (?:hang|be refused)|forbidden|may be forbidden):`)
)

// The escapes of ECMA-48 that terminals understand.
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

// row is a row of a table, whose last column goes on lines of its own, so that the others
// stand below each other.
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

// wrap breaks a line between words, that of a command with a backslash before the break,
// and in JSON between its members.
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
	joined := false // the word goes on in JSON: no space before it, no backslash
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

// jsonBreak ends a piece of a word that may be broken as JSON allows it.
const jsonBreak = "\x00"

// commandWords are the words of a shell line, quotes included. JSON in single quotes is
// in pieces that end with jsonBreak, since a line may end there, too.
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
