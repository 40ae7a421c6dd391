// Package settings reads .termguard.yaml, a repository's lint configuration. termguard.schema.json beside it
// is the same for editors.
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
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint/tree"
	"github.com/termguard/termguard/policies"
)

// FileName is the name of a repository's configuration.
const FileName = ".termguard.yaml"

// maxSize bounds a configuration, in bytes.
const maxSize = 1 << 20

// Schema is the JSON schema of FileName.
//
//go:embed termguard.schema.json
var Schema []byte

// Settings are the content of FileName, apiVersion termguard.dev/v1, kind LintConfig. Names are as in the
// webhook's Config if they mean the same.
type Settings struct {
	// File that they were read from, or "".
	File string
	// Policies are folders with policies beyond the built-in ones.
	Policies []string
	// Exclude are patterns as in .gitignore.
	Exclude []string
	// Severity overrides a policy's severity, by its id.
	Severity map[string]policies.Severity
	// FailOn is the least severity that fails a run, or Never.
	FailOn string
	// KubernetesVersion of the API servers that the manifests are for.
	KubernetesVersion string
	// Snapshot is a file with the facts of a cluster.
	Snapshot string
	// Baseline is a file with known findings.
	Baseline string
	// Enforcement as in Config: a policy that is off is not evaluated; the other modes mean the same here.
	Enforcement config.Enforcement
	config.Shared
	Ignore []Ignore

	uses []policyUse
}

// Ignore ignores a policy in some files, or about some objects.
type Ignore struct {
	Policy string
	// Paths are doublestar patterns, relative to the folder of the configuration. None means all files.
	Paths []string
	// Resources (plural.group), Namespaces and Names are path.Match patterns of the finding's object; none
	// means any.
	Resources, Namespaces, Names []string

	Reason string
	// Until is the last day of the ignore; zero without end.
	Until time.Time
	// Its place in the file.
	Line, Column int
	Source       string // the line
}

// policyUse is a policy id in the settings, to be checked when policies are loaded.
type policyUse struct {
	id    string
	at    *yaml.Node
	where string
}

// Never as FailOn fails a run for no severity.
const Never = "never"

// FailOn returns the values of FailOn, the highest severity first.
func FailOn() []string {
	return []string{string(policies.High), string(policies.Medium), string(policies.Low), string(policies.Info), Never}
}

// Find looks for FileName in dir and upwards to the root of the repository. It returns "" if there is none.
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
		if parent == dir || tree.IsRoot(dir) {
			return "", nil
		}
		dir = parent
	}
}

// Load reads a configuration file. Relative paths in it are relative to its folder, and are returned joined
// with it. Unless root is "", neither the file nor a path in it may lead out of root.
func Load(file, root string) (*Settings, error) {
	if root != "" {
		if err := inside(root, file); err != nil {
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
			if err := inside(root, *path); err != nil {
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

func inside(root, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return tree.Inside(root, path)
}

// Read reads a configuration; errors name it file, and are joined.
func Read(in io.Reader, file string) (*Settings, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxSize {
		return nil, &Error{File: file, Message: fmt.Sprintf("larger than %d bytes", maxSize)}
	}
	root, err := parse(text, file)
	if err != nil {
		return nil, err
	}
	r := &reader{file: file}
	s := &Settings{File: file}
	s.read(r, root, strings.Split(string(text), "\n"))
	return s, r.err()
}

// parse returns the one document in text.
func parse(text []byte, file string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root *yaml.Node
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF) && root == nil:
			return nil, &Error{File: file, Message: "it is empty: want at least " + header}
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, &Error{File: file, Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		}
		content := resolve(document.Content[0])
		switch {
		case root == nil:
			root = content
		case content.Tag != "!!null":
			return nil, &Error{file, content.Line, content.Column, "a second document starts here: move what it says into the first"}
		}
	}
}

const header = "apiVersion: termguard.dev/v1 and kind: LintConfig"

func (s *Settings) read(r *reader, root *yaml.Node, lines []string) {
	var apiVersion, kind string
	text := func(into *string, where string) func(*yaml.Node) {
		return func(n *yaml.Node) { *into = r.text(n, where) }
	}
	texts := func(into *[]string, where string) func(*yaml.Node) {
		return func(n *yaml.Node) { *into = r.texts(n, where) }
	}
	before := len(r.errs)
	r.object(root, "", map[string]func(*yaml.Node){
		"apiVersion":        text(&apiVersion, "apiVersion"),
		"kind":              text(&kind, "kind"),
		"policies":          texts(&s.Policies, "policies"),
		"exclude":           texts(&s.Exclude, "exclude"),
		"severity":          func(n *yaml.Node) { s.readSeverity(r, n) },
		"failOn":            func(n *yaml.Node) { s.FailOn = oneOf(r, n, "failOn", FailOn()) },
		"kubernetesVersion": text(&s.KubernetesVersion, "kubernetesVersion"),
		"snapshot":          text(&s.Snapshot, "snapshot"),
		"baseline":          text(&s.Baseline, "baseline"),
		"enforcement":       func(n *yaml.Node) { s.readEnforcement(r, n) },
		"finalizerOwners":   func(n *yaml.Node) { s.readOwners(r, n) },
		"params":            func(n *yaml.Node) { s.readParams(r, n) },
		"catalog":           func(n *yaml.Node) { s.readCatalog(r, n) },
		"ignore": func(n *yaml.Node) {
			r.items(n, "ignore", func(item *yaml.Node) { s.readIgnore(r, item, lines) })
		},
	})
	if (apiVersion != "termguard.dev/v1" || kind != "LintConfig") && len(r.errs) == before {
		r.errorf(root, "want %s; got apiVersion: %s and kind: %s", header, cmp.Or(apiVersion, "(none)"), cmp.Or(kind, "(none)"))
	}
}

func oneOf(r *reader, n *yaml.Node, where string, values []string) string {
	value := r.text(n, where)
	if value != "" && !slices.Contains(values, value) {
		r.errorf(n, "%s: %q is not %s", where, value, Or(values))
	}
	return value
}

// Or joins alternatives: a, b or c.
func Or(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func (s *Settings) addUse(id *yaml.Node, where string) {
	s.uses = append(s.uses, policyUse{id: id.Value, at: id, where: where})
}

func (s *Settings) readEnforcement(r *reader, n *yaml.Node) {
	s.Enforcement.Policies = map[string]config.Mode{}
	r.object(n, "enforcement", map[string]func(*yaml.Node){
		"default": func(n *yaml.Node) {
			s.Enforcement.Default = config.Mode(oneOf(r, n, "enforcement.default", config.Modes()))
		},
		"policies": func(n *yaml.Node) {
			r.entries(n, "enforcement.policies", func(id, mode *yaml.Node) {
				s.addUse(id, "enforcement.policies")
				s.Enforcement.Policies[id.Value] = config.Mode(oneOf(r, mode, "enforcement.policies."+id.Value, config.Modes()))
			})
		},
	})
}

func (s *Settings) readSeverity(r *reader, n *yaml.Node) {
	s.Severity = map[string]policies.Severity{}
	r.entries(n, "severity", func(id, severity *yaml.Node) {
		s.addUse(id, "severity")
		s.Severity[id.Value] = policies.Severity(oneOf(r, severity, "severity."+id.Value, FailOn()[:4]))
	})
}

func (s *Settings) readOwners(r *reader, n *yaml.Node) {
	s.FinalizerOwners = map[string]string{}
	r.entries(n, "finalizerOwners", func(finalizer, owner *yaml.Node) {
		value := r.text(owner, "finalizerOwners")
		if err := config.CheckOwner(finalizer.Value, value); value != "" && err != nil {
			r.errorf(owner, "%v", err)
			return
		}
		s.FinalizerOwners[finalizer.Value] = value
	})
}

func (s *Settings) readParams(r *reader, n *yaml.Node) {
	s.Params = map[string]any{}
	r.entries(n, "params", func(id, value *yaml.Node) {
		s.addUse(id, "params")
		s.Params[id.Value] = r.any(value, "params."+id.Value)
	})
}

func (s *Settings) readCatalog(r *reader, n *yaml.Node) {
	r.items(n, "catalog", func(item *yaml.Node) { s.Catalog = append(s.Catalog, r.any(item, "catalog")) })
	if _, err := s.FactsOptions(); err != nil && len(r.errs) == 0 {
		r.errorf(n, "%v", err)
	}
}

func (s *Settings) readIgnore(r *reader, n *yaml.Node, lines []string) {
	ignore := Ignore{Line: n.Line, Column: n.Column}
	if n.Line <= len(lines) {
		ignore.Source = strings.TrimRight(strings.TrimPrefix(lines[n.Line-1], "\ufeff"), "\r")
	}
	before := len(r.errs)
	patterns := func(into *[]string, where string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			*into = r.texts(n, where)
			for _, pattern := range *into {
				if _, err := path.Match(pattern, ""); err != nil {
					r.errorf(n, "%s: %q is no pattern: %v", where, pattern, err)
				}
			}
		}
	}
	r.object(n, "ignore", map[string]func(*yaml.Node){
		"policy": func(n *yaml.Node) {
			if ignore.Policy = r.text(n, "ignore.policy"); ignore.Policy != "" {
				s.addUse(n, "ignore.policy")
			}
		},
		"paths": func(n *yaml.Node) {
			r.items(n, "ignore.paths", func(item *yaml.Node) {
				pattern := r.text(item, "ignore.paths")
				if pattern == "" {
					return
				}
				if err := checkPattern(pattern); err != nil {
					r.errorf(item, "ignore.paths: %v", err)
				}
				ignore.Paths = append(ignore.Paths, pattern)
			})
		},
		"resources":  patterns(&ignore.Resources, "ignore.resources"),
		"namespaces": patterns(&ignore.Namespaces, "ignore.namespaces"),
		"names":      patterns(&ignore.Names, "ignore.names"),
		"reason":     func(n *yaml.Node) { ignore.Reason = r.text(n, "ignore.reason") },
		"until": func(n *yaml.Node) {
			value := r.text(n, "ignore.until")
			if value == "" {
				return
			}
			day, err := time.Parse(time.DateOnly, value)
			if err != nil {
				r.errorf(n, "ignore.until: %q is no day: want YYYY-MM-DD, the last day on which it holds", value)
			}
			ignore.Until = day
		},
	})
	if len(r.errs) > before {
		return
	}
	if ignore.Policy == "" {
		r.errorf(n, "ignore: policy is missing: say which one is not wanted")
	}
	if ignore.Reason == "" {
		r.errorf(n, "ignore: reason is missing: say why the finding may stay")
	}
	s.Ignore = append(s.Ignore, ignore)
}

// NamesPolicies reports whether the settings depend on the set of policies.
func (s *Settings) NamesPolicies() bool { return len(s.uses) > 0 || s.Enforcement.Default != "" }

// Check returns an error for ids of unknown policies.
func (s *Settings) Check(ids []string) error {
	r := &reader{file: s.File}
	for _, u := range s.uses {
		if !slices.Contains(ids, u.id) {
			r.errorf(u.at, "%s: there is no policy %q%s", u.where, u.id, nearest.Hint(u.id, ids))
		}
	}
	return r.err()
}

// Matches reports whether an entry applies to a file and one of some objects. rel is the file's path relative
// to the folder of the configuration.
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
