package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

const examplesFolder = "../../deploy/policies"

const examplesHead = `# Ten small policies

<!-- Generated from deploy/policies: run "make docs". -->

Which small policies can I copy and change?

Each folder here has one policy for a common wish, with its test manifests. None is in force until you copy it:

` + "```console" + `
$ cp -r deploy/policies/no_fridays my-policies/
$ termguard policy test my-policies
$ termguard check namespace/shop --policies my-policies
` + "```" + `

[Policies of your own](../../docs/policies.md) explains how to write a policy and put it into force. Change names such as
` + "`example.com/team`" + `. Values that differ between clusters are ` + "`params`" + ` of the [configuration](../../docs/configuration.md); the
descriptions list them. A test runs the fixtures of all ten, and another one six of them in a real cluster; the others depend on the day,
on pods and on nodes.

## In an editor

[Regal](https://www.openpolicyagent.org/projects/regal) has a language server with diagnostics, documentation of built-in functions and
formatting. Copy the library, the schemas and the settings for Regal from the repository at the version of your termguard
(` + "`termguard version`" + `), and open that folder:

` + "```console" + `
$ cp -r policies/lib policies/schema policies/termguard.rego deploy/policies/.regal my-policies/
$ opa fmt --write my-policies
$ opa check --strict --schema my-policies/schema my-policies
$ regal lint my-policies
$ (cd my-policies && regal language-server)
` + "```" + `

Editors run the last command, through an extension for OPA (VS Code), ` + "`regal`" + ` of nvim-lspconfig (Neovim), or Zed's extension for Rego.
The server does not know the schemas of facts and request; ` + "`termguard policy test`" + ` and ` + "`opa check`" + ` do. A policy uses the library in
the binary; ` + "`termguard policy test`" + ` reports it if the copy differs.
`

// Each example passes its fixtures, both with and without findings, and is on its page.
func TestExamples(t *testing.T) {
	race.Skip(t)
	set, err := own([]string{examplesFolder})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Policies()); n != 10 {
		t.Errorf("found %d examples, the page says ten", n)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"termguard", "policy", "test", examplesFolder}, nil, &out, &errs)
	if code != 0 || strings.Contains(out.String(), "no testdata") {
		t.Errorf("termguard policy test exits with %d\n%s%s", code, &out, &errs)
	}
	var page strings.Builder
	page.WriteString(examplesHead)
	for _, p := range set.Policies() {
		fsys := os.DirFS(examplesFolder)
		hang, ok := examples(fsys, p, "hang"), examples(fsys, p, "ok")
		if len(hang) < 2 || len(ok) < 1 {
			t.Errorf("%s: %d fixtures with findings and %d without, want two and a near miss", p.ID, len(hang), len(ok))
		}
		text, err := os.ReadFile(filepath.Join(examplesFolder, p.Folder, p.Folder+".rego"))
		if err != nil {
			t.Fatal(err)
		}
		_, rules, exists := strings.Cut(string(text), "\nimport data.termguard.lib.request\n\n")
		if !exists {
			t.Fatalf("%s does not import the request", p.ID)
		}
		fmt.Fprintf(&page, "\n## %s\n\n[%s](%s/%s.rego): %s\n\n```rego\n%s```\n\nWhat to do: %s What it cannot see: %s\n",
			p.Title, p.ID, p.Folder, p.Folder, flat(p.Description), rules, flat(p.Remedy), flat(p.Limits))
	}
	current(t, "deploy/policies/README.md", page.String())
}

// flat returns text in one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// examples returns the fixtures of a policy of one kind, hang or ok.
func examples(fsys fs.FS, p policies.Policy, kind string) []string {
	files, _ := fs.Glob(fsys, p.Folder+"/testdata/"+kind+"_*.yaml") // the pattern is valid
	return files
}
