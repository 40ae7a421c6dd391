package policies

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
)

// TestDoc compares the pages with the result of pageOf. UPDATE_GOLDEN=1 writes them.
func TestDoc(t *testing.T) {
	race.Skip(t)
	set, err := load(true, Embedded()) // the index may be older
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Policies() {
		page := filepath.Join(p.Folder, "README.md")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(page, pageOf(p), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Errorf("%v (write it with: UPDATE_GOLDEN=1 go test ./policies)", err)
			continue
		}
		if diff := cmp.Diff(string(pageOf(p)), string(got)); diff != "" {
			t.Errorf("%s is out of date (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", page, diff)
		}
	}
}

// pageOf returns the page about a policy, in Markdown: its folder's README.md.
func pageOf(p Policy) []byte {
	var b strings.Builder
	triggers := make([]string, len(p.Triggers))
	for i, t := range p.Triggers {
		triggers[i] = string(t)
	}
	fmt.Fprintf(&b, "<!-- Generated from the METADATA of %s.rego. Do not edit. -->\n", p.Folder)
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", p.Title, p.Description)
	severity := string(p.Severity)
	if p.Manifest.Severity != "" {
		severity += fmt.Sprintf(" (%s of manifests)", p.Manifest.Severity)
	}
	fmt.Fprintf(&b, "| id | severity | triggers |\n|---|---|---|\n| `%s` | %s | %s |\n\n", p.ID, severity, strings.Join(triggers, ", "))
	fmt.Fprintf(&b, "## What to do\n\n%s\n\n", p.Remedy)
	if p.Manifest.Remedy != "" {
		fmt.Fprintf(&b, "In a manifest: %s\n\n", p.Manifest.Remedy)
	}
	fmt.Fprintf(&b, "## What it cannot see\n\n%s\n\n", p.Limits)
	if len(p.ReliesOn) > 0 {
		b.WriteString("## What termguard must see\n\nWhile one of these is hidden from termguard, the verdict is `unknown` instead of `completes`:\n\n")
		for _, r := range p.ReliesOn {
			fmt.Fprintf(&b, "- %s%s%s\n", listed("", r.Kinds), listed(", except ", r.Except), listed(", for ", r.For))
		}
		b.WriteString("\n")
	}
	b.WriteString("## Sources\n\n")
	for _, r := range p.RelatedResources {
		if r.Description == "" {
			fmt.Fprintf(&b, "- <%s>\n", r.Ref)
			continue
		}
		fmt.Fprintf(&b, "- [%s](%s)\n", strings.TrimSuffix(r.Description, "."), r.Ref)
	}
	return []byte(b.String())
}

// listed returns resources as a page lists them, after a word; "" without any.
func listed(word string, resources []string) string {
	var names []string
	for _, r := range resources {
		name, placeholder := numbers[r]
		if !placeholder {
			name = "`" + r + "`"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return word + strings.Join(names, ", ")
}

var numbers = map[string]string{
	content:    "everything in the namespace",
	instances:  "the instances of the definition",
	finalizers: "objects with finalizers",
	elsewhere:  "what rights hide in other namespaces",
	custom:     "custom resources",
}
