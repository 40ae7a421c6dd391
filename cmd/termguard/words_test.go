package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

var typeName = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]+)`")

// TestDocsWords checks that each type named in docs/words.md exists.
func TestDocsWords(t *testing.T) {
	race.Skip(t)
	page := read(t, "docs/words.md")
	named := typeName.FindAllStringSubmatch(page, -1)
	if len(named) < 20 {
		t.Fatalf("the page names only %d types", len(named))
	}
	for _, name := range named {
		var files []string
		for _, folder := range []string{name[1], "cluster/" + name[1]} {
			paths, err := filepath.Glob("../../" + folder + "/*.go")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, paths...)
		}
		declared := regexp.MustCompile(`(?m)^(type )?\s*` + name[2] + `\s+(struct|func|interface|string|int|map|= )`)
		paths := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			paths = paths || declared.Match(text)
		}
		if !paths {
			t.Errorf("docs/words.md: no type %s.%s is declared", name[1], name[2])
		}
	}
}
