package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// IsRoot reports whether dir is the root of a git repository or work tree.
func IsRoot(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

// Root returns the root of the repository that dir, an absolute path, is in, or "". A bare repository does
// not count: anyone can put one into a folder.
func Root(dir string) string {
	for !IsRoot(dir) {
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
	return dir
}

// Within reports whether path is root or below it by name: Inside follows links.
func Within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// Absolute returns a path, with slashes or not, that may be relative to dir.
func Absolute(dir, path string) string {
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// Real returns a path without links, if it exists.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

var ErrOutside = errors.New("leads out of it")

// Inside returns an error that wraps ErrOutside unless path, an absolute one, is below root after following
// links. A missing file counts by its folder; a dangling link can be written through, and is outside.
func Inside(root, path string) error {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("find %s: %w", root, err)
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is a link to nothing in %s, or %w", path, root, ErrOutside)
		}
		if parent := filepath.Dir(path); parent != path {
			err := Inside(root, parent)
			if errors.Is(err, ErrOutside) {
				return outsideError(root, path)
			}
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow links: %w", err)
	}
	if !Within(real, target) {
		return outsideError(root, path)
	}
	return nil
}

func outsideError(root, path string) error {
	return fmt.Errorf("%s is not in %s, or %w", path, root, ErrOutside)
}
