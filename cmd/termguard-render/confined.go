package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var errOutside = errors.New("leads out of the repository, and is not read")

// inside returns an error unless path is below root after following links: a repository's link could bring
// any file into findings.
func inside(root, path string) error {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if target, err = filepath.Abs(target); err != nil {
		return err
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	if rel, err := filepath.Rel(real, target); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s %w", path, errOutside)
	}
	return nil
}

// confine returns an error if a link in dir or a linked folder leads out of root.
func confine(root, dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 && path != dir {
			return err
		}
		if err := inside(root, path); err != nil {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || path == dir && entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		return confine(root, target, seen)
	})
}

// confined reads only ordinary files below root, up to a size, and records them.
type confined struct {
	filesys.FileSystem
	root  string
	files *[]string
	left  *int64 // in bytes
	// refused is the refusal: kustomize reports such a base as a folder without a kustomization.
	refused *error
}

// maxFile bounds a file, and maxFiles one kustomization's, in bytes. An object has at most 3 MiB
// (k8s.io/apiserver, pkg/server, MaxRequestBodyBytes); generated definitions about 10 MiB.
const maxFile, maxFiles = 16 << 20, 64 << 20

func newConfined(root string) confined {
	return confined{filesys.MakeFsOnDisk(), root, &[]string{}, new(int64(maxFiles)), new(error)}
}

func (c confined) ReadFile(path string) ([]byte, error) {
	if err := c.allow(path); err != nil {
		return nil, err
	}
	return c.FileSystem.ReadFile(path)
}

func (c confined) Open(path string) (filesys.File, error) {
	if err := c.allow(path); err != nil {
		return nil, err
	}
	return c.FileSystem.Open(path)
}

func (c confined) allow(path string) error {
	if err := inside(c.root, path); err != nil {
		if errors.Is(err, errOutside) {
			*c.refused = err
		}
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no ordinary file, and is not read", path)
	case info.Size() > maxFile:
		return fmt.Errorf("%s has %d MiB, and at most %d are read", path, info.Size()>>20, maxFile>>20)
	}
	if *c.left -= info.Size(); *c.left < 0 {
		return fmt.Errorf("its files have more than %d MiB", maxFiles>>20)
	}
	*c.files = append(*c.files, path)
	return nil
}
