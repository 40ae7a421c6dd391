// Command catalog-sources checks the sources in cluster/catalog/finalizers.yaml: the file and line of each
// finalizer in the project's newest release. It prints an entry's state and source; -write updates the
// catalog, except for sources that it cannot find.
//
// Exit codes: 0 all sources that could be looked up are correct; 1 some are not; 2 failure.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	clones := flag.String("clones", "", "folder of git repositories, bare or not, each called OWNER+NAME or OWNER/NAME")
	file := flag.String("catalog", "../cluster/catalog/finalizers.yaml", "the catalog")
	write := flag.Bool("write", false, "write what was found into the catalog")
	flag.Parse()
	err := run(*clones, *file, *write, os.Stdout)
	switch {
	case errors.Is(err, errDiffers):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "catalog-sources:", err)
		os.Exit(2)
	}
}

var errDiffers = errors.New("sources differ")

type entry struct {
	Finalizer, Prefix, Suffix, Regex, Source string
}

func (e entry) key() string { return e.Finalizer + e.Prefix + e.Suffix + e.Regex }

// source is github.com/OWNER/NAME@VERSION:PATH#LLINE.
type source struct {
	repository, version, path, line string
}

// A version and line are missing if a source was not checked against a release.
var sourceForm = regexp.MustCompile(`^github\.com/([-.\w]+/[-.\w]+)(?:@([-+./\w]+))?:([^#:]+?)(?:#L([0-9]+))?$`)

func (s source) String() string {
	text := "github.com/" + s.repository
	if s.version != "" {
		text += "@" + s.version
	}
	text += ":" + s.path
	if s.line != "" {
		text += "#L" + s.line
	}
	return text
}

func parse(text string) (source, bool) {
	m := sourceForm.FindStringSubmatch(text)
	if m == nil {
		return source{}, false
	}
	return source{m[1], m[2], m[3], m[4]}, true
}

// Nested objects have sources, too.
var sourceLine = regexp.MustCompile(`(?m)^  source: .*$`)

func run(clones, file string, write bool, out io.Writer) error {
	if clones == "" {
		return errors.New("a folder of clones is needed: -clones FOLDER")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var entries []entry
	if err := yaml.Unmarshal(text, &entries); err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	lines := sourceLine.FindAllIndex(text, -1)
	if len(lines) != len(entries) {
		return fmt.Errorf("%s has %d entries and %d lines with their sources: each needs one, indented by two spaces", file, len(entries), len(lines))
	}
	repositories := map[string]*repository{}
	counts := map[state]int{}
	differs := false
	var changed bytes.Buffer
	last := 0
	for i, e := range entries {
		at, ok := parse(e.Source)
		if !ok {
			return fmt.Errorf("%s: source %q is not github.com/OWNER/NAME@VERSION:PATH#LLINE", e.key(), e.Source)
		}
		r, ok := repositories[at.repository]
		if !ok {
			if r, err = open(clones, at.repository); err != nil {
				return err
			}
			repositories[at.repository] = r
		}
		now, result := at, state(absent)
		if r != nil {
			if now, result, err = r.look(e, at); err != nil {
				return fmt.Errorf("%s: %w", e.key(), err)
			}
		}
		counts[result]++
		if result != absent && now != at || result == lost {
			differs = true
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", result, e.key(), now)
		changed.Write(text[last:lines[i][0]])
		fmt.Fprintf(&changed, "  source: %q", now)
		last = lines[i][1]
	}
	changed.Write(text[last:])
	for _, s := range []state{held, moved, gone, lost, absent} {
		fmt.Fprintf(out, "# %s: %d\n", s, counts[s])
	}
	if write {
		if err := os.WriteFile(file, changed.Bytes(), 0o644); err != nil {
			return err
		}
		differs = counts[lost] > 0
	}
	if differs {
		return errDiffers
	}
	return nil
}

func open(clones, name string) (*repository, error) {
	for _, folder := range []string{strings.ReplaceAll(name, "/", "+"), filepath.FromSlash(name)} {
		for _, dir := range []string{filepath.Join(clones, folder, ".git"), filepath.Join(clones, folder)} {
			if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
				return read(name, dir)
			}
		}
	}
	return nil, nil
}
