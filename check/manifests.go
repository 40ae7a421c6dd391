package check

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Names are the objects that kubectl delete -f would delete: those in a file of
// YAML or JSON, in each .yaml, .yml and .json of a folder, or in what stdin gives
// for "-". What has no namespace of its own is in namespace.
func Names(path, namespace string, stdin io.Reader) ([]Name, error) {
	var names []Name
	known := map[Name]bool{}
	err := eachFile(path, stdin, func(file string, in io.Reader) error {
		found, err := namesIn(in, namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range found {
			if !known[name] {
				names, known[name] = append(names, name), true
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, fmt.Errorf("%s: no object in it", path)
	}
	return names, nil
}

// eachFile reads the files that kubectl reads for a path.
func eachFile(path string, stdin io.Reader, read func(file string, in io.Reader) error) error {
	if path == "-" {
		return read("stdin", stdin)
	}
	files, err := filesOf(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		err = read(file, in)
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// filesOf are the files that kubectl reads for a path.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	return files, nil
}

func namesIn(in io.Reader, namespace string) ([]Name, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(in, 4096)
	var names []Name
	add := func(object *unstructured.Unstructured) error {
		name, err := nameOf(object, namespace)
		if err != nil {
			return fmt.Errorf("%w (document %d)", err, len(names)+1)
		}
		names = append(names, name)
		return nil
	}
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("read manifests: %w", err)
		case len(object.Object) == 0: // a document of comments
			continue
		}
		if !object.IsList() {
			if err := add(object); err != nil {
				return nil, err
			}
			continue
		}
		err := object.EachListItem(func(item runtime.Object) error {
			if item, ok := item.(*unstructured.Unstructured); ok {
				return add(item)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read a list: %w", err)
		}
	}
}

// nameOf names an object; what has no namespace of its own is in namespace.
func nameOf(object *unstructured.Unstructured, namespace string) (Name, error) {
	gvk := object.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" || object.GetName() == "" {
		return Name{}, errors.New("an object without apiVersion, kind or metadata.name")
	}
	name := Name{Type: typeOf(gvk), Name: object.GetName(), Namespace: namespace}
	if own := object.GetNamespace(); own != "" {
		name.Namespace = own
	}
	return name, nil
}

// typeOf names a kind as Types.Find takes it.
func typeOf(gvk schema.GroupVersionKind) string {
	if gvk.Group == "" {
		return strings.ToLower(gvk.Kind)
	}
	return strings.ToLower(gvk.Kind) + "." + gvk.Group // of whatever version: it is the same object
}
