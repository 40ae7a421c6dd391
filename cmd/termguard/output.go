package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
)

// choice is one of several words; "jsonpath=TEMPLATE" stands for all that begin like it.
type choice struct {
	value *string
	words []string
}

// oneOf defaults to the first word.
func oneOf(c *cobra.Command, value *string, name, short, usage string, words ...string) {
	*value = words[0]
	c.Flags().VarP(choice{value, words}, name, short, usage)
	plain := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(word, "=") })
	_ = c.RegisterFlagCompletionFunc(name, completeWords(plain...)) // the flag is there
}

func outputOf(c *cobra.Command, value *string, usage string, words ...string) {
	oneOf(c, value, "output", "o", usage, words...)
}

func (c choice) String() string { return *c.value }

// Type is shown in the help.
func (c choice) Type() string { return "string" }

func (c choice) Set(word string) error {
	beginning, _, _ := strings.Cut(word, "=")
	if !slices.ContainsFunc(c.words, func(w string) bool { return w == word || strings.HasPrefix(w, beginning+"=") }) {
		return want(word, c.words)
	}
	*c.value = word
	return nil
}

func want(word string, words []string) error {
	last := len(words) - 1
	return fmt.Errorf("want %s or %s%s", strings.Join(words[:last], ", "), words[last], nearest.Hint(word, words))
}

func findings(some bool) error {
	if some {
		return errFindings
	}
	return nil
}

var reporters = map[string]func(answer.Answer, io.Writer) error{
	"text": func(r answer.Answer, out io.Writer) error { return styled(r.Page(false), out) },
	"full": func(r answer.Answer, out io.Writer) error { return styled(r.Page(true), out) },
	"wide": func(r answer.Answer, out io.Writer) error { return r.Wide().Write(out, page.Style{}) },
	"name": answer.Answer.Blocked,
	"dot":  answer.Answer.DOT,
}

// styled repeats the first line of a long page at its end.
func styled(p *page.Page, out io.Writer) error {
	style := styleOf(out)
	text, rows := p.In(style), 0
	for line := range strings.Lines(text) {
		rows += 1 + utf8.RuneCountInString(line)/max(style.Width, 1) // a command is longer than the terminal is wide
	}
	if first := p.First(); style.Width > 0 && rows > screenful && first.String() != "" {
		text += "\n" + first.In(style)
	}
	_, err := io.WriteString(out, text)
	return err
}

// screenful is the height of a VT100, in lines.
const screenful = 24

// screen is a stream with a style that is partly known: --ascii, or its width.
type screen struct {
	io.Writer
	page.Style
}

// drawsBoxes reports whether a terminal shows more than ASCII, by TERM and the locale (POSIX, 8.2: the first
// variable that is not empty).
func drawsBoxes(system string, getenv func(string) string) bool {
	if term := getenv("TERM"); term == "dumb" || strings.HasPrefix(term, "vt") {
		return false
	}
	locale := strings.ToUpper(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return system == "windows" || strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

func styleOf(out io.Writer) (style page.Style) {
	if preset, is := out.(screen); is {
		style = styleOf(preset.Writer)
		style.ASCII, style.Width = style.ASCII || preset.ASCII, max(style.Width, preset.Width)
		return style
	}
	if file, is := out.(*os.File); is && terminal(out) {
		style.ASCII = !drawsBoxes(runtime.GOOS, os.Getenv)
		style.Color = colored(out)
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			style.Width = width
		}
	}
	return style
}

func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// colored follows https://no-color.org.
func colored(out io.Writer) bool {
	return terminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// dataWriter returns the writer of a format for programs; nil for another format.
func dataWriter(output string) (func(value any, out io.Writer) error, error) {
	template, path := strings.CutPrefix(output, "jsonpath=")
	switch {
	case output == "json":
		return writeJSON, nil
	case output == "yaml":
		return writeYAML, nil
	case !path:
		return nil, nil //nolint:nilnil // it is no such format
	}
	parsed := jsonpath.New("output").AllowMissingKeys(true)
	if err := parsed.Parse(template); err != nil {
		return nil, fmt.Errorf("--output %q: %w", output, err)
	}
	return func(value any, out io.Writer) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var values any
		if err := json.Unmarshal(text, &values); err != nil {
			return err
		}
		var result strings.Builder
		if err := parsed.Execute(&result, values); err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, printable.But(result.String(), "\n\t"))
		return err
	}, nil
}

func writeYAML(value any, out io.Writer) error {
	text, err := json.Marshal(value)
	if err == nil {
		text, err = yaml.JSONToYAML([]byte(printable.JSON(string(text))))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, printable.But(string(text), "\n"))
	return err
}

func writeJSON(value any, out io.Writer) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(out, printable.JSON(text.String()))
	return err
}
