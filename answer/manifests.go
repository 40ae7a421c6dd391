package answer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/termguard/termguard/answer/release"
	"github.com/termguard/termguard/policies"
)

// Files are manifests as kubectl takes them.
type Files struct {
	// Paths are YAML or JSON files, folders of them, and "-" for Stdin.
	Paths []string
	// Recursive reads subfolders, too.
	Recursive bool
	Stdin     io.Reader
	// Rendered are manifests without a file, by their source.
	Rendered map[string][]byte
}

// Names returns the objects that kubectl delete -f would delete, each once. namespace is the default.
func Names(files Files, namespace string) (names []Name, err error) {
	added := map[Name]bool{}
	read := func(file string, text []byte) error {
		list, err := namesIn(text, namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range list {
			if !added[name] {
				added[name] = true
				name.File = file
				names = append(names, name)
			}
		}
		return nil
	}
	for _, path := range files.Paths {
		size := 0
		err := files.each(path, func(file string, text []byte) error {
			size += len(text)
			return read(file, text)
		})
		if err != nil {
			return nil, err
		}
		if size == 0 || len(names) == 0 {
			return nil, fmt.Errorf("%s: no object in it", path)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(files.Rendered)) {
		if err := read(source, files.Rendered[source]); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (f Files) each(path string, read func(file string, text []byte) error) error {
	if path == "-" {
		text, err := io.ReadAll(f.Stdin)
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		return read("stdin", text)
	}
	files, err := f.of(path)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		if err := read(file, text); err != nil {
			return err
		}
	}
	return nil
}

// of returns the files that kubectl reads for a path.
func (f Files) of(path string) (files []string, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, err
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !f.Recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func namesIn(text []byte, namespace string) (names []Name, err error) {
	// as kubectl does (k8s.io/cli-runtime, resource/visitor.go, FileVisitor)
	decoder := yaml.NewYAMLOrJSONDecoder(transform.NewReader(bytes.NewReader(text), unicode.BOMOverride(unicode.UTF8.NewDecoder())), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("read manifests: %w", err)
		case len(object.Object) == 0: // comments
			continue
		}
		objects, err := release.Items(object)
		if err != nil {
			return nil, fmt.Errorf("read a list: %w", err)
		}
		for _, object := range objects {
			name, err := nameOf(object, namespace)
			if err != nil {
				return nil, fmt.Errorf("%w (document %d)", err, len(names)+1)
			}
			names = append(names, name)
		}
	}
}

func nameOf(object *unstructured.Unstructured, namespace string) (Name, error) {
	gvk := object.GroupVersionKind()
	if gvk.Group == "kustomize.config.k8s.io" || gvk.Group == "" && gvk.Kind == "" && (object.Object["resources"] != nil || object.Object["bases"] != nil) {
		return Name{}, errors.New("a kustomization is no object: check its folder with -k")
	}
	if gvk.Kind == "" || gvk.Version == "" || object.GetName() == "" {
		return Name{}, errors.New("an object without apiVersion, kind or metadata.name")
	}
	return Name{Object: policies.Object{Resource: typeOf(gvk.GroupKind()), Namespace: cmp.Or(object.GetNamespace(), namespace), Name: object.GetName()}}, nil
}

// typeOf names a kind as Types.Find takes it, of any version.
func typeOf(kind schema.GroupKind) string {
	if kind.Group == "" {
		return strings.ToLower(kind.Kind)
	}
	return strings.ToLower(kind.Kind) + "." + kind.Group
}
