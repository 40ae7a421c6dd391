package policies

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"
)

//go:embed scaffold/*.tmpl
var scaffolds embed.FS

var policyID = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

var ErrExists = errors.New("there is such a policy already")

// Scaffold creates a policy, with fixtures that pass, below dir, and returns its path. The id may have - or
// _.
func Scaffold(dir, id string) (string, error) {
	if !policyID.MatchString(id) {
		return "", fmt.Errorf("policy id %q: want lower case letters, digits and - or _ between them, as in some-cause", id)
	}
	id = strings.ReplaceAll(id, "_", "-")
	folder := strings.ReplaceAll(id, "-", "_")
	target := filepath.Join(dir, folder)
	if slices.Contains([]string{libFolder, schemaFolder, "scaffold", "internal", "testdata"}, folder) {
		return "", fmt.Errorf("policy id %q: the folder name is taken; choose another", id)
	}
	if slices.Contains(EmbeddedIDs(), id) {
		return "", fmt.Errorf("policy id %q: %w, in termguard itself; choose another id", id, ErrExists)
	}
	if _, err := os.Lstat(target); err == nil {
		return "", fmt.Errorf("scaffold policy in %s: %w", target, ErrExists)
	}
	files, err := scaffold(folder, id)
	if err == nil {
		_, err = Load(files)
	}
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("scaffold policy: %w", err), os.RemoveAll(target))
	}
	return target, nil
}

func scaffold(folder, id string) (fstest.MapFS, error) {
	words := strings.ReplaceAll(id, "-", " ")
	values := strings.NewReplacer("[[.ID]]", id, "[[.Folder]]", folder, "[[.Title]]", strings.ToUpper(words[:1])+words[1:])
	templates, err := fs.Glob(scaffolds, "scaffold/*.tmpl")
	files := fstest.MapFS{}
	for _, name := range templates {
		text, failed := fs.ReadFile(scaffolds, name)
		err = errors.Join(err, failed)
		base := strings.TrimSuffix(path.Base(name), ".tmpl")
		if base == "policy.rego" {
			base = folder + ".rego"
		} else {
			base = "testdata/" + base
		}
		files[path.Join(folder, base)] = &fstest.MapFile{Data: []byte(values.Replace(string(text))), Mode: 0o644}
	}
	return files, err
}
