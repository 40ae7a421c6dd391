package policies_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/question"
)

// TestImmortal checks that policies and Go code have the same namespaces that cannot be deleted.
func TestImmortal(t *testing.T) {
	const file = "lib/request/request.rego"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	module, err := ast.ParseModule(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	results, err := rego.New(rego.ParsedModule(module), rego.Query("data.termguard.lib.request.immortal")).Eval(t.Context())
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	var want []any // as Rego has a set, in order
	for _, name := range []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem, "demo"} {
		if question.Immortal(name) {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, results[0].Expressions[0].Value); diff != "" {
		t.Errorf("%s differs from package question: -want, +got:\n%s", file, diff)
	}
}
