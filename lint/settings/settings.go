// Package settings reads .termguard.yaml, a repository's lint configuration.
package settings

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

const FileName = ".termguard.yaml"

// maxSize bounds a configuration, in bytes.
const maxSize = 1 << 20

// Schema is the JSON schema of FileName.
//
//go:embed termguard.schema.json
var Schema []byte

// Settings are the content of FileName, with the names of config.Config.
type Settings struct {
	File       string `yaml:"-"`
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	// Policies are folders, beyond the built-in ones.
	Policies []string
	// Exclude are patterns as in .gitignore.
	Exclude []string
	// Severity is by policy.
	Severity          map[string]policies.Severity
	FailOn            string `yaml:"failOn"`
	KubernetesVersion string `yaml:"kubernetesVersion"`
	Snapshot          string
	Baseline          string
	// Enforcement off prevents evaluation; the other modes mean the same here.
	Enforcement   Enforcement
	config.Shared `yaml:",inline"`
	Ignore        []Ignore

	Unknown unknown `yaml:",inline"`
	root    *yaml.Node
}

// Enforcement is lint's part of config.Enforcement.
type Enforcement struct {
	Default  config.Mode
	Policies map[string]config.Mode
	Unknown  unknown `yaml:",inline"`
}

// Ignore ignores a policy in some files, or about some objects; an empty list means any.
type Ignore struct {
	Policy string
	// Paths are doublestar patterns, relative to the configuration's folder.
	Paths []string
	// Resources (plural.group), Namespaces and Names are path.Match patterns of the finding's object.
	Resources, Namespaces, Names []string

	Reason string
	// LastDay is YYYY-MM-DD, "" without end; Until is the same.
	LastDay      string    `yaml:"until"`
	Until        time.Time `yaml:"-"`
	Line, Column int       `yaml:"-"`
	Source       string    `yaml:"-"`
	Unknown      unknown   `yaml:",inline"`
}

type unknown map[string]yaml.Node

// Never as FailOn fails no run.
const Never = "never"

// FailOn returns the values of FailOn, the highest severity first.
func FailOn() []string {
	return []string{string(policies.High), string(policies.Medium), string(policies.Low), string(policies.Info), Never}
}

// Find searches dir and upwards to the repository's root, and returns "" if there is none.
func Find(dir string) (string, error) {
	for {
		file := filepath.Join(dir, FileName)
		switch info, err := os.Stat(file); {
		case err == nil && info.IsDir():
			return "", fmt.Errorf("%s is a folder: want a file", file)
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for %s: %w", FileName, err)
		}
		parent := filepath.Dir(dir)
		if parent == dir || files.IsRoot(dir) {
			return "", nil
		}
		dir = parent
	}
}

// Load joins relative paths in a configuration with its folder. Unless root is "", neither the file nor a
// path in it may lead out of root.
func Load(file, root string) (*Settings, error) {
	if root != "" {
		if err := files.Inside(root, files.Absolute("", file)); err != nil {
			return nil, &Error{File: file, Message: err.Error()}
		}
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer in.Close()
	s, err := Read(in, file)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	var errs []error
	join := func(key string, path *string) {
		if *path == "" {
			return
		}
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, filepath.FromSlash(*path))
		}
		if root != "" {
			if err := files.Inside(root, files.Absolute("", *path)); err != nil {
				errs = append(errs, &Error{File: file, Message: fmt.Sprintf("%s: %v; name it with --%s", key, err, key)})
			}
		}
	}
	for i := range s.Policies {
		join("policies", &s.Policies[i])
	}
	join("snapshot", &s.Snapshot)
	join("baseline", &s.Baseline)
	return s, errors.Join(errs...)
}

// Read returns joined errors, which name file.
func Read(in io.Reader, file string) (*Settings, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxSize {
		return nil, &Error{File: file, Message: fmt.Sprintf("larger than %d bytes", maxSize)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	err = decoder.Decode(&first)
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Message: "it is empty: want at least " + header}
	}
	if err == nil {
		err = decoder.Decode(&second)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err == nil && second.Content[0].Tag != "!!null" {
		return nil, &Error{file, second.Content[0].Line, second.Content[0].Column, "a second document starts here: move its content into the first"}
	}
	r := &reader{file: file, root: first.Content[0]}
	s := &Settings{}
	if err := first.Decode(s); err != nil {
		r.decodingErrors(err)
	} else {
		s.check(r, strings.Split(string(text), "\n"))
	}
	s.File, s.root = file, r.root
	return s, r.err()
}

const header = "apiVersion: termguard.dev/v1 and kind: LintConfig"

func (s *Settings) check(r *reader, lines []string) {
	if s.APIVersion != "termguard.dev/v1" || s.Kind != "LintConfig" {
		r.errorf(r.root, "want %s; got apiVersion: %s and kind: %s", header, cmp.Or(s.APIVersion, "(none)"), cmp.Or(s.Kind, "(none)"))
		return
	}
	r.unknownKeys(s.Unknown, s)
	r.unknownKeys(s.Enforcement.Unknown, s.Enforcement, "enforcement")
	r.oneOf(s.FailOn, FailOn(), "failOn")
	for id, severity := range s.Severity {
		r.oneOf(string(severity), FailOn()[:4], "severity", id)
	}
	r.oneOf(string(s.Enforcement.Default), config.Modes, "enforcement", "default")
	for id, mode := range s.Enforcement.Policies {
		r.oneOf(string(mode), config.Modes, "enforcement", "policies", id)
	}
	for finalizer, owner := range s.FinalizerOwners {
		if err := config.CheckOwner(finalizer, owner); err != nil {
			r.errorf(r.value("finalizerOwners", finalizer), "%v", err)
		}
	}
	var err error
	if s.Params, err = toJSON(s.Params); err != nil {
		r.errorf(r.value("params"), "params: %v", err)
	}
	if s.Catalog, err = toJSON(s.Catalog); err != nil {
		r.errorf(r.value("catalog"), "catalog: %v", err)
	} else if _, err := s.FactsOptions(); err != nil {
		r.errorf(r.value("catalog"), "%v", err)
	}
	for n := range s.Ignore {
		s.Ignore[n].check(r, lines, strconv.Itoa(n))
	}
}

func (i *Ignore) check(r *reader, lines []string, n string) {
	at := r.value("ignore", n)
	i.Line, i.Column = at.Line, at.Column
	i.Source = strings.TrimRight(strings.TrimPrefix(lines[at.Line-1], "\ufeff"), "\r")
	r.unknownKeys(i.Unknown, *i, "ignore", n)
	for m, pattern := range i.Paths {
		if err := checkPattern(pattern); err != nil {
			r.errorf(r.value("ignore", n, "paths", strconv.Itoa(m)), "ignore.paths: %v", err)
		}
	}
	for key, patterns := range map[string][]string{"resources": i.Resources, "namespaces": i.Namespaces, "names": i.Names} {
		for m, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil {
				r.errorf(r.value("ignore", n, key, strconv.Itoa(m)), "ignore.%s: %q is no pattern: %v", key, pattern, err)
			}
		}
	}
	if i.LastDay != "" {
		var err error
		if i.Until, err = time.Parse(time.DateOnly, i.LastDay); err != nil {
			r.errorf(r.value("ignore", n, "until"), "ignore.until: %q is no day: want YYYY-MM-DD, the last day on which it holds", i.LastDay)
		}
	}
	if i.Policy == "" {
		r.errorf(at, "ignore: policy is missing: say which one is not wanted")
	}
	if i.Reason == "" {
		r.errorf(at, "ignore: reason is missing: say why the finding may stay")
	}
}

// Or joins alternatives: a, b or c.
func Or(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func (s *Settings) Off(ids []string) map[string]bool {
	return config.Enforcement{Default: s.Enforcement.Default, Policies: s.Enforcement.Policies}.Off(ids)
}

// NamesPolicies reports whether the settings depend on the policies.
func (s *Settings) NamesPolicies() bool {
	return len(s.Enforcement.Policies)+len(s.Severity)+len(s.Params)+len(s.Ignore) > 0 || s.Enforcement.Default != ""
}

// Check returns an error for ids of unknown policies.
func (s *Settings) Check(ids []string) error {
	r := &reader{file: s.File, root: s.root}
	check := func(id string, at *yaml.Node, where string) {
		if !slices.Contains(ids, id) {
			r.errorf(at, "%s: policy %q not found%s", where, id, nearest.Hint(id, ids))
		}
	}
	for id := range s.Enforcement.Policies {
		check(id, r.key("enforcement", "policies", id), "enforcement.policies")
	}
	for id := range s.Severity {
		check(id, r.key("severity", id), "severity")
	}
	for id := range s.Params {
		check(id, r.key("params", id), "params")
	}
	for n, i := range s.Ignore {
		check(i.Policy, r.value("ignore", strconv.Itoa(n), "policy"), "ignore.policy")
	}
	return r.err()
}

// Matches takes a file relative to the configuration's folder; one of the objects must fit.
func (i Ignore) Matches(rel string, objects ...policies.Object) bool {
	fits := func(patterns []string, value string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
			matched, _ := path.Match(pattern, value) // it was validated
			return matched
		})
	}
	if len(i.Resources)+len(i.Namespaces)+len(i.Names) > 0 && !slices.ContainsFunc(objects, func(o policies.Object) bool {
		return fits(i.Resources, o.Resource) && fits(i.Namespaces, o.Namespace) && fits(i.Names, o.Name)
	}) {
		return false
	}
	return len(i.Paths) == 0 || slices.ContainsFunc(i.Paths, func(pattern string) bool { return matchPattern(pattern, rel) })
}
