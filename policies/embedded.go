package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// loadEmbedded reads only the METADATA of the built-in policies: parsing and compiling all of them takes
// longer than many whole runs.
func loadEmbedded() (*Set, error) {
	set := &Set{compile: compileEmbedded}
	for _, folder := range embeddedFolders() {
		file := path.Join(folder, folder+".rego")
		text, err := embedded.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read policy: %w", err)
		}
		comment, _, _ := strings.Cut(string(text), "\npackage ")
		block := strings.ReplaceAll(strings.TrimPrefix(comment, "# METADATA\n"), "\n# ", "\n")
		p, err := describe(path.Join(nameOf(Embedded()), file), 1, strings.TrimPrefix(block, "# "), false)
		if err != nil {
			return nil, err
		}
		p.Folder, p.File = folder, path.Join(nameOf(Embedded()), file)
		set.policies = append(set.policies, p)
	}
	slices.SortFunc(set.policies, func(a, b Policy) int { return strings.Compare(a.ID, b.ID) })
	return set, nil
}

// embeddedFolders returns the folders of the built-in policies, sorted.
func embeddedFolders() []string {
	entries, _ := embedded.ReadDir(".") // an embedded file system always has a root
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != libFolder && entry.Name() != schemaFolder {
			folders = append(folders, entry.Name())
		}
	}
	return folders
}

// EmbeddedIDs returns the ids of the built-in policies, sorted.
func EmbeddedIDs() []string {
	ids := embeddedFolders()
	for i, folder := range ids {
		ids[i] = strings.ReplaceAll(folder, "_", "-")
	}
	return ids
}

// compileEmbedded compiles some of the built-in policies, with their imports.
func compileEmbedded(of []Policy, steps bool) (*ast.Compiler, error) {
	l := newLoader(false)
	l.described = true
	for _, p := range of {
		l.start(Embedded(), p.Folder)
	}
	for _, p := range of {
		l.parseFolder(Embedded(), p.Folder)
	}
	l.imports()
	return l.compile(false, steps)
}
