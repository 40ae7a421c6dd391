// Package tree tells where a repository ends, whatever the links in it say. Who
// writes a repository, as with a pull request, decides what is in it, and is not
// to decide what is read or written outside of it.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// IsRoot tells whether dir is the root of a git repository or work tree.
func IsRoot(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

// Root is the root of the repository that dir, an absolute path, is in, "" if it
// is in none. A bare repository is none: anybody can put one into a folder.
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

// Within tells whether path is root or below it. Neither is looked up: what links
// lead to counts for Inside.
func Within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// ErrOutside is returned for a path that leads out of a tree.
var ErrOutside = errors.New("leads out of it")

// Inside returns an error that wraps ErrOutside unless path, an absolute one, is
// below root when links are followed. What does not exist yet stands where its
// folder is; a link that leads nowhere may be written through, and is outside.
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
				return outside(root, path)
			}
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow links: %w", err)
	}
	if !Within(real, target) {
		return outside(root, path)
	}
	return nil
}

func outside(root, path string) error {
	return fmt.Errorf("%s is not in %s, or %w", path, root, ErrOutside)
}
