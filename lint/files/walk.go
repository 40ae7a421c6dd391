package files

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Directory is a folder with its direct entries.
type Directory struct {
	Name string // in findings, with forward slashes
	Path string
	// Manifests are base names, to save memory.
	Manifests []string
	// Kustomization is the name of its file, or "".
	Chart         bool
	Kustomization string
	Templates     int
}

func (d *Directory) Files() []*File {
	files := make([]*File, 0, len(d.Manifests))
	for _, base := range d.Manifests {
		files = append(files, &File{Name: path.Join(d.Name, base), Path: filepath.Join(d.Path, base), FromSearch: true})
	}
	return files
}

func (d *Directory) Split(selects func(base string) bool) (selected, rest *Directory) {
	a, b := *d, *d
	a.Manifests, b.Manifests = nil, nil
	for _, base := range d.Manifests {
		if selects(base) {
			a.Manifests = append(a.Manifests, base)
		} else {
			b.Manifests = append(b.Manifests, base)
		}
	}
	return &a, &b
}

// kustomizations are from sigs.k8s.io/kustomize/api/konfig, RecognizedKustomizationFileNames.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func IsKustomization(name string) bool { return slices.Contains(kustomizations, name) }

// ignoredFolders have no manifests of their owner.
var ignoredFolders = []string{".git", ".hg", ".svn", ".terraform", "node_modules", "vendor"}

// Tests are never deployed: fixtures, golden files, and the steps of kuttl, chainsaw and kyverno test
// (kuttl.dev, docs/testing/steps.md; kyverno.github.io/chainsaw; kyverno.io/docs/testing-policies).
var (
	testFolder = regexp.MustCompile(`^(tests|expected|test[-_]?(data|files)|(integration|system|acceptance|e2e)[-_]?tests?|tests?[-_]e2e|(__)?fixtures?(__)?|goldens?|__snapshots__|.*_tests?|\.?(kuttl|chainsaw|kyverno)[-_]tests?|\.?(kuttl|chainsaw))$`)
	// testStage is a test folder unless beside environments.
	testStage   = regexp.MustCompile(`^(e2e|acceptance)$`)
	environment = regexp.MustCompile(`^(dev(elopment)?|stag(e|ing)|prod(uction)?|live)$`)
	// sourceCode is beside a program's test folder. Elsewhere, one named test is often an environment.
	sourceCode = regexp.MustCompile(`^(go\.mod|Gopkg\.toml|Cargo\.toml|pom\.xml|.*\.go)$`)
	deployment = regexp.MustCompile(`^(stag(e|ing)|prod(uction)?|live)$`)
	testFile   = regexp.MustCompile(`^.*([-_.]golden|_test)\.(ya?ml|json)$`)
	testStep   = regexp.MustCompile(`^[0-9]+-(assert|errors?)([-.].*)?\.ya?ml$|^chainsaw-test\.ya?ml$`)
)

// Exclude are patterns as in .gitignore.
type Exclude []pattern

type pattern struct {
	root            string // the pattern's base
	glob            string
	negated, folder bool
}

// Add adds patterns as in root's .gitignore. A \ separates folders if it does so in paths, and otherwise
// escapes.
func (e *Exclude) Add(root string, patterns ...string) error {
	return e.add(root, patterns, filepath.Separator)
}

func (e *Exclude) add(root string, patterns []string, separator rune) error {
	for _, text := range patterns {
		text = strings.TrimSpace(strings.ReplaceAll(text, string(separator), "/"))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		p := pattern{root: Absolute("", root), glob: text}
		p.glob, p.negated = strings.CutPrefix(p.glob, "!")
		p.glob, p.folder = strings.CutSuffix(p.glob, "/")
		if rooted := strings.Contains(p.glob, "/"); rooted {
			p.glob = strings.TrimPrefix(strings.TrimPrefix(p.glob, "./"), "/")
		} else {
			p.glob = "**/" + p.glob
		}
		if !doublestar.ValidatePattern(p.glob) {
			return fmt.Errorf("exclude pattern %q: it is no glob; close its brackets", text)
		}
		*e = append(*e, p)
	}
	return nil
}

// Matches takes an absolute path.
func (e Exclude) Matches(file string, folder bool) bool {
	excluded := false
	root, name := "", ""
	for _, p := range e {
		if p.folder && !folder {
			continue
		}
		if p.root != root {
			relative, err := filepath.Rel(p.root, file)
			if err != nil {
				relative = file // on another drive of Windows
			}
			root, name = p.root, filepath.ToSlash(relative)
		}
		if doublestar.MatchUnvalidated(p.glob, name) {
			excluded = !p.negated
		}
	}
	return excluded
}

type Search struct {
	// Root is the folder that symbolic links may not leave.
	Root    string
	Exclude Exclude
	Tests   bool
	Visit   func(*Directory)
	Problem func(file, message string)
	// SkipTests receives the number of a folder's test files.
	SkipTests func(files int)

	start string
	seen  map[string]bool // by real path
}

// Walk finds the manifests below a folder, which findings call name. It follows symbolic
// links within s.Root, each folder once; other links are a problem.
func (s Search) Walk(name, dir string) {
	dir = Absolute("", dir)
	s.start, s.seen = dir, map[string]bool{}
	s.walk(name, dir, Real(dir))
}

const outsideMessage = "it is a link that leads out of the repository, or nowhere, and was not followed: exclude it, or lint its target by name"

// walk takes real, the path without symbolic links.
func (s *Search) walk(name, dir, real string) {
	if s.seen[real] {
		return
	}
	s.seen[real] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.Problem(name, reason(err))
		return
	}
	d := &Directory{Name: name, Path: dir}
	d.Chart = slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "Chart.yaml" })
	test := dir != s.start && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return testStep.MatchString(e.Name()) })
	testFiles := 0
	var folders, links []string
	for _, entry := range entries {
		base := entry.Name()
		full := filepath.Join(dir, base)
		folder, regular := entry.IsDir(), entry.Type().IsRegular()
		link := entry.Type()&fs.ModeSymlink != 0
		if link {
			info, err := os.Stat(full)
			if err != nil {
				continue // a dangling or circular link
			}
			folder, regular = info.IsDir(), info.Mode().IsRegular()
		}
		switch {
		case s.Exclude.Matches(full, folder), folder && slices.Contains(ignoredFolders, base):
		case link && (folder || regular && isManifest(base)) && Inside(s.Root, full) != nil:
			s.Problem(path.Join(name, base), outsideMessage)
		case folder && !s.Tests && isTest(dir, base, entries):
			testFiles += countFiles(full)
		case folder:
			if d.Chart && base == "templates" {
				d.Templates = countFiles(full)
				continue
			}
			if entry.IsDir() {
				folders = append(folders, base)
			} else {
				links = append(links, base)
			}
		case regular && IsKustomization(base):
			d.Kustomization = base
		case regular && !s.Tests && isManifest(base) && (test || testFile.MatchString(base) || testStep.MatchString(base)):
			testFiles++
		case regular && isManifest(base) && !(d.Chart && (strings.HasPrefix(base, "values") || base == "Chart.yaml")):
			d.Manifests = append(d.Manifests, base)
		}
	}
	if testFiles > 0 {
		s.SkipTests(testFiles)
	}
	d.Manifests = slices.Clip(d.Manifests)
	if len(d.Manifests) > 0 || d.Chart || d.Kustomization != "" {
		s.Visit(d)
	}
	for _, base := range folders { // under their own name first
		s.walk(path.Join(name, base), filepath.Join(dir, base), filepath.Join(real, base))
	}
	for _, base := range links {
		full := filepath.Join(dir, base)
		s.walk(path.Join(name, base), full, Real(full))
	}
}

func isTest(dir, base string, entries []fs.DirEntry) bool {
	hasSibling := func(pattern *regexp.Regexp) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return pattern.MatchString(e.Name()) })
	}
	switch parent := filepath.Base(dir); {
	case testFolder.MatchString(base), parent == "test" && base == "integration", parent == "src" && base == "test":
		return true
	case testStage.MatchString(base):
		return !hasSibling(environment)
	case base == "test":
		return hasSibling(sourceCode) && !hasSibling(deployment)
	}
	return false
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func countFiles(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && isManifest(d.Name()) {
			n++
		}
		return nil
	})
	return n
}
