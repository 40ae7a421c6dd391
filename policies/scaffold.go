package policies

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed scaffold/*.tmpl
var scaffolds embed.FS

var policyID = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// ErrExists is returned if the policy exists.
var ErrExists = errors.New("there is such a policy already")

// Scaffold creates the folder of a new policy below dir, which it creates if necessary, with fixtures that
// pass, and returns its path. The id may be spelt with - or _.
func Scaffold(dir, id string) (string, error) {
	if !policyID.MatchString(id) {
		return "", fmt.Errorf("policy id %q: want lower case letters, digits and - or _ between them, as in some-cause", id)
	}
	id = strings.ReplaceAll(id, "_", "-")
	folder := strings.ReplaceAll(id, "-", "_")
	target := filepath.Join(dir, folder)
	for _, taken := range []string{libFolder, schemaFolder, "scaffold", "internal", "testdata"} {
		if folder == taken {
			return "", fmt.Errorf("policy id %q: the folder name is taken; choose another", id)
		}
	}
	if _, err := fs.Stat(embedded, folder); err == nil {
		return "", fmt.Errorf("policy id %q: %w, in termguard itself; choose another id", id, ErrExists)
	}
	if _, err := os.Lstat(target); err == nil {
		return "", fmt.Errorf("scaffold policy in %s: %w", target, ErrExists)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("scaffold policy: %w", err)
	}
	// In a temporary folder, so that a failure leaves nothing behind.
	aside, err := os.MkdirTemp(dir, ".new-policy-*")
	if err != nil {
		return "", fmt.Errorf("scaffold policy: %w", err)
	}
	defer os.RemoveAll(aside)
	if err := fill(filepath.Join(aside, folder), folder, id); err != nil {
		return "", fmt.Errorf("scaffold policy: %w", err)
	}
	if _, err := Load(Dir(aside)); err != nil {
		return "", fmt.Errorf("scaffold policy: %w", err)
	}
	if err := os.Rename(filepath.Join(aside, folder), target); err != nil {
		return "", fmt.Errorf("scaffold policy: %w", err)
	}
	return target, nil
}

// fill writes the templates for a policy.
func fill(target, folder, id string) error {
	if err := os.MkdirAll(filepath.Join(target, "testdata"), 0o755); err != nil {
		return err
	}
	words := strings.ReplaceAll(id, "-", " ")
	values := strings.NewReplacer("[[.ID]]", id, "[[.Folder]]", folder, "[[.Title]]", strings.ToUpper(words[:1])+words[1:])
	templates, err := fs.Glob(scaffolds, "scaffold/*.tmpl")
	if err != nil {
		return err
	}
	for _, name := range templates {
		text, err := fs.ReadFile(scaffolds, name)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(filepath.Base(name), ".tmpl")
		if strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".golden") {
			base = filepath.Join("testdata", base)
		} else {
			base = strings.Replace(base, "policy", folder, 1)
		}
		if err := os.WriteFile(filepath.Join(target, base), []byte(values.Replace(string(text))), 0o644); err != nil {
			return err
		}
	}
	return nil
}
