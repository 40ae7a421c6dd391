// Command dockerfile lints Dockerfiles with BuildKit, without an engine: the last stage has only the binary,
// and does not run as root.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "dockerfile:", err)
			os.Exit(2)
		}
		for _, problem := range problems(text) {
			failed = true
			fmt.Printf("%s: %s\n", path, problem)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func problems(text []byte) (list []string) {
	warn := func(rule, _, _, message string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		list = append(list, fmt.Sprintf("line %d: %s (%s)", line, message, rule))
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return []string{err.Error()}
	}
	for _, w := range parsed.Warnings {
		list = append(list, w.Short)
	}
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		return append(list, err.Error())
	}
	if len(stages) == 0 {
		return append(list, "no stage")
	}
	last, user := stages[len(stages)-1], ""
	for _, stage := range stages {
		if name, tag, pinned := strings.Cut(stage.BaseName, ":"); !pinned || tag == "latest" {
			list = append(list, fmt.Sprintf("%s has no version of its own: pin one", name))
		}
	}
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				list = append(list, "ENTRYPOINT is run by a shell, which does not pass TERM on: write it as a JSON list")
			}
		case *instructions.RunCommand:
			list = append(list, "the last stage runs something: it has no shell, and should need none")
		}
	}
	if !strings.Contains(last.BaseName, "distroless") {
		list = append(list, fmt.Sprintf("the last stage is %s: use a distroless image, which holds nothing but the binary", last.BaseName))
	}
	if id, _, _ := strings.Cut(user, ":"); id == "" || id == "0" || id == "root" {
		list = append(list, fmt.Sprintf("the last stage runs as %q: set USER to a number other than 0, so that runAsNonRoot can be checked", user))
	}
	return list
}
