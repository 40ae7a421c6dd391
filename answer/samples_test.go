package answer

import (
	"iter"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
)

// SampleStep is a step of a finding about a sample, on one object.
type SampleStep struct {
	policies.Step
	Resource schema.GroupResource
	Finding  policies.Finding
	File     string
	Advice   string
}

// StepsOfSamples yields the steps of all findings about all samples.
func StepsOfSamples(t *testing.T) iter.Seq[SampleStep] {
	engine := newEngine(t)
	return func(yield func(SampleStep) bool) {
		for d := range samples(t) {
			report, err := ask(t.Context(), engine, d.world, d.subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			types := typesOf(d.world)
			for _, f := range report.Findings {
				for _, s := range f.Steps {
					for _, o := range s.Action.Targets() {
						resource := schema.ParseGroupResource(o.Resource)
						if typ, err := types.Find(o.Resource); err == nil {
							resource = typ.GroupResource()
						}
						if !yield(SampleStep{s, resource, f, d.file, advice(f, s, false)}) {
							return
						}
					}
				}
			}
		}
	}
}

// Section compares the part of a page between <!-- part --> and <!-- /part --> with text, or writes
// it.
func Section(t *testing.T, file, part, text string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+" -->\n", "<!-- /"+part+" -->"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no %q", file, begin)
	}
	want := before + begin + text + end + after
	if want == string(page) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("the table in %s is stale: run 'make docs'", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}
