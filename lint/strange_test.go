package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
)

// TestStrangeFinalizer: of a kind that the catalog knows, it names the finalizer that is
// meant, also of what is deployed elsewhere.
func TestStrangeFinalizer(t *testing.T) {
	const application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: web\n  namespace: argocd\n  finalizers: [FINALIZER]\nspec: {destination: {namespace: web}}\n"
	for finalizer, want := range map[string][]string{
		"resources-finalizer.argoproj.io":            {"the catalog knows no such finalizer on applications.argoproj.io; did you mean \"resources-finalizer.argocd.argoproj.io\"?"},
		"another-finalizer.argocd.argoproj.io":       nil, // of a newer version
		"example.com/cleanup":                        nil, // of what is elsewhere, too
		"resources-finalizer.argocd.argoproj.io":     nil,
		"post-delete-finalizer.argocd.argoproj.io":   nil,
		"resources-finalizer.argocd.argoproj.io/now": nil, // as a form that a later version may have
	} {
		r := run(t, lint.Options{Paths: []string{"-"}, Stdin: strings.NewReader(strings.Replace(application, "FINALIZER", finalizer, 1))})
		var got []string
		for _, f := range r.Findings {
			if f.Policy == "unowned-finalizer" {
				got = append(got, f.Evidence[len(f.Evidence)-1])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s%s", finalizer, diff, strings.Join(lines(r), "\n"))
		}
	}
}
