package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/tree"
)

// onlyChanged takes from a result problems with files that did not change.
func (r *runner) onlyChanged(result *lint.Result, ref string) {
	if r.changed == nil {
		return
	}
	before := len(result.Problems)
	result.Problems = slices.DeleteFunc(result.Problems, func(problem lint.Problem) bool { return !r.asked(problem.File) })
	if n := before - len(result.Problems); n > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("%s with files that did not change since %s: lint without --changed-since to see them", lint.Counted(n, "problem"), ref))
	}
	if len(r.changed) == 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("nothing changed since %s", ref))
	}
}

// withoutThem are the flags that leave out the files in folders that there are
// problems with, three of them at most: "" where the files were named themselves.
func (r *runner) withoutThem(problems []lint.Problem) string {
	var flags []string
	for _, problem := range problems {
		if problem.File == "-" || slices.Contains(r.Paths, problem.File) {
			continue
		}
		flag := fmt.Sprintf("--exclude='/%s'", globbed.Replace(r.relative(r.dir, problem.File)))
		if !slices.Contains(flags, flag) && len(flags) < 3 {
			flags = append(flags, flag)
		}
	}
	return strings.Join(flags, " ")
}

// asked tells whether a file is asked about.
func (r *runner) asked(file string) bool { return r.changed == nil || r.changed[r.absolute(file)] }

// folder of a path that was given.
func (r *runner) folder(path string) string {
	if path == "-" {
		return r.dir
	}
	path = r.absolute(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

func (r *runner) absolute(path string) string {
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	return filepath.Clean(path)
}

// relative is a file below a folder, with forward slashes; the file itself
// where it is elsewhere.
func (r *runner) relative(folder, file string) string {
	if file == "-" {
		return file
	}
	path := r.absolute(file)
	if rel, err := filepath.Rel(folder, path); err == nil && (filepath.IsLocal(rel) || folder == r.dir) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}

// shown is a file as it is shortest from the working directory.
func (r *runner) shown(file string) string {
	if rel, err := filepath.Rel(r.dir, file); err == nil && len(rel) < len(file) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(file)
}

func (r *runner) orNone(file string) string {
	if file == "" {
		return "none"
	}
	return r.shown(file)
}

// root is where fingerprints and machines count paths from: the root of the
// repository, or else the folder of the configuration, or else this one.
func (r *runner) root() string {
	from := r.folder(r.Paths[0])
	if root := tree.Root(from); root != "" {
		return root
	}
	if r.settings.File != "" && r.bounds(r.settings.File) != "" {
		return filepath.Dir(r.settings.File)
	}
	return r.dir
}

// patterns are rooted in the folder of the configuration; in root, where it comes
// from elsewhere.
func (r *runner) patterns() string {
	if r.settings.File != "" && r.bounds(r.settings.File) != "" {
		return filepath.Dir(r.settings.File)
	}
	return r.root()
}

// writable refuses a file in a repository that is a link out of it: whoever wrote
// the repository would choose what is overwritten.
func (r *runner) writable(file string) error {
	if file == "" {
		return nil
	}
	file = r.absolute(file)
	if root := tree.Root(filepath.Dir(file)); root != "" {
		if err := tree.Inside(root, file); err != nil {
			return fmt.Errorf("%w; remove the link", err)
		}
	}
	return nil
}
