package policies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// indexed is a policy in the index, which is what the METADATA of the policies in the
// binary says: to parse all of them takes longer than many a run asks them. TestIndex
// holds it to them, and writes it.
type indexed struct {
	Policy
	Rules []string // deny, warn
}

// fromIndex are the policies in the binary, of which those that are asked are
// parsed and compiled then. The index is not current where a folder has been
// added or removed since it was written.
func fromIndex() (set *Set, current bool) {
	set = &Set{rules: map[string][]string{}, compile: compileEmbedded}
	var folders []string
	for _, p := range index {
		set.policies = append(set.policies, p.Policy)
		set.rules[p.ID] = p.Rules
		folders = append(folders, p.Folder)
	}
	slices.Sort(folders)
	return set, slices.Equal(folders, embeddedFolders())
}

// embeddedFolders are those of the policies in the binary, sorted.
func embeddedFolders() []string {
	entries, _ := embedded.ReadDir(".") // of what is embedded there is always a root
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != libFolder && entry.Name() != schemaFolder {
			folders = append(folders, entry.Name())
		}
	}
	return folders
}

// EmbeddedIDs are those of the policies in the binary, sorted.
func EmbeddedIDs() []string {
	ids := embeddedFolders()
	for i, folder := range ids {
		ids[i] = strings.ReplaceAll(folder, "_", "-")
	}
	return ids
}

// compileEmbedded compiles some of the policies in the binary, with what they import.
func compileEmbedded(of []Policy, steps bool) (*ast.Compiler, error) {
	l := newLoader(false)
	l.indexed = true
	for _, p := range of {
		l.start(Embedded(), p.Folder)
	}
	for _, p := range of {
		l.parseFolder(Embedded(), p.Folder)
	}
	l.imports()
	return l.compile(false, steps)
}
