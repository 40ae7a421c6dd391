package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/termguard/termguard/internal/race"
)

// unsaid matches everything in a page except letters and digits: fonts, escapes, signs and spaces.
var unsaid = regexp.MustCompile(`\\f[A-Z]|\\\(\w\w|\\\[\w+\]|\n\.[A-Z]+\b|[^\pL\pN]`)

// TestMan renders a man page of each command from its --help and checks that it is complete.
// MAN=FOLDER keeps the pages.
func TestMan(t *testing.T) {
	race.Skip(t)
	folder := cmp.Or(os.Getenv("MAN"), t.TempDir())
	root := newRoot("termguard")
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Source: "termguard", Manual: "termguard"}, folder); err != nil {
		t.Fatal(err)
	}
	letters := func(text string) string { return unsaid.ReplaceAllString(text, "") }
	count := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		count++
		text, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		page := letters(string(text))
		contains := func(want string) {
			if !strings.Contains(page, letters(want)) {
				t.Errorf("the page of %s lacks %q", c.CommandPath(), want)
			}
		}
		contains(c.Short)
		contains(c.Long)
		contains(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				contains(f.Name + f.DefValue + f.Usage)
			}
		})
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				walk(below)
			}
		}
	}
	walk(root)
	if count < 15 {
		t.Errorf("only %d commands have a page", count)
	}
}
