package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// loadEmbedded reads only the METADATA: to parse and compile all policies takes longer than many whole runs.
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

func embeddedFolders() []string {
	folders, _ := policyFolders(embedded) // it always has a root
	return folders
}

// EmbeddedIDs are sorted.
func EmbeddedIDs() []string {
	ids := embeddedFolders()
	for i, folder := range ids {
		ids[i] = strings.ReplaceAll(folder, "_", "-")
	}
	return ids
}

// compileEmbedded adds the library packages that they import.
func compileEmbedded(of []Policy, steps bool) (*ast.Compiler, error) {
	l := newLoader(false)
	l.described = true
	patterns := []string{sharedFile}
	for _, p := range of {
		patterns = append(patterns, p.Folder+"/*.rego")
	}
	for imported := map[string]bool{}; len(patterns) > 0; {
		l.parse(Embedded(), patterns...)
		patterns = nil
		for _, module := range l.modules {
			for _, i := range module.Imports {
				ref, _ := i.Path.Value.(ast.Ref)
				if len(ref) <= len(library) || !ref.HasPrefix(library) {
					continue
				}
				name, _ := ref[len(library)].Value.(ast.String)
				if folder := path.Join(libFolder, string(name)); !imported[folder] {
					imported[folder] = true
					patterns = append(patterns, folder+"/*.rego")
				}
			}
		}
	}
	return l.compile(false, steps)
}
