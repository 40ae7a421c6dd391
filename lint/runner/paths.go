package runner

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
)

func (r *runner) onlyChanged(result *lint.Result, ref string) {
	if r.Input.Only == nil {
		return
	}
	before := len(result.Problems)
	result.Problems = slices.DeleteFunc(result.Problems, func(problem files.Problem) bool { return !r.isSelected(problem.File) })
	if n := before - len(result.Problems); n > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("%s with files that did not change since %s: lint without --changed-since to see them", page.Count(n, "problem"), ref))
	}
	if len(r.Input.Only) == 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("nothing changed since %s", ref))
	}
}

// excludeFlags returns at most three flags, none for named files.
func (r *runner) excludeFlags(problems []files.Problem) string {
	var flags []string
	for _, problem := range problems {
		if problem.File == "-" || slices.Contains(r.Input.Paths, problem.File) {
			continue
		}
		flag := fmt.Sprintf("--exclude='/%s'", globEscaper.Replace(r.relative(r.Input.Dir, problem.File)))
		if !slices.Contains(flags, flag) && len(flags) < 3 {
			flags = append(flags, flag)
		}
	}
	return strings.Join(flags, " ")
}

func (r *runner) isSelected(file string) bool {
	return r.Input.Only[files.Absolute(r.Input.Dir, file)]
}

func (r *runner) folder(path string) string {
	if path == "-" {
		return r.Input.Dir
	}
	path = files.Absolute(r.Input.Dir, path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

// relative returns a path below a folder, with slashes, or an absolute one.
func (r *runner) relative(folder, file string) string {
	if file == "-" {
		return file
	}
	path := files.Absolute(r.Input.Dir, file)
	if rel, err := filepath.Rel(folder, path); err == nil && (filepath.IsLocal(rel) || folder == r.Input.Dir) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}

func (r *runner) shorten(file string) string {
	if rel, err := filepath.Rel(r.Input.Dir, file); err == nil && len(rel) < len(file) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(file)
}

// root returns the base of paths in fingerprints and machine output.
func (r *runner) root() string {
	return cmp.Or(files.Root(r.folder(r.Input.Paths[0])), r.configurationFolder(), r.Input.Dir)
}

func (r *runner) patternRoot() string { return cmp.Or(r.configurationFolder(), r.root()) }

// configurationFolder returns "" if the configuration is none of the linted files' author.
func (r *runner) configurationFolder() string {
	if r.settings.File == "" || r.trustBoundary(r.settings.File) == "" {
		return ""
	}
	return filepath.Dir(r.settings.File)
}

// checkWritable rejects a link out of its repository: the author would choose the file that is overwritten.
func (r *runner) checkWritable(file string) error {
	if file == "" {
		return nil
	}
	file = files.Absolute(r.Input.Dir, file)
	if root := files.Root(filepath.Dir(file)); root != "" {
		if err := files.Inside(root, file); err != nil {
			return fmt.Errorf("%w; remove the link", err)
		}
	}
	return nil
}
