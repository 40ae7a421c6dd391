package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/termguard/termguard/internal/race"
)

// TestBuiltins checks that each built-in function of OPA is allowed or refused: a maintainer must
// decide about a new one by what bounds its cost.
func TestBuiltins(t *testing.T) {
	allowed := map[string]int{}
	for _, group := range builtins {
		for _, name := range strings.Fields(group.names) {
			allowed[name]++
		}
	}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		if n, why := allowed[b.Name], whyRefused(b.Name); (n == 1) == (why != "") || n > 1 {
			t.Errorf("%s: allowed %d times, refused for %q: put it into one of the tables of builtins.go", b.Name, n, why)
		}
		if b.Nondeterministic && allowed[b.Name] > 0 {
			t.Errorf("%s is allowed, and not deterministic", b.Name)
		}
		delete(allowed, b.Name)
	}
	for name := range allowed {
		t.Errorf("OPA has no %s", name)
	}
}

// TestHostileBuiltins calls functions that could take any time or memory: each is rejected at load,
// or ends.
func TestHostileBuiltins(t *testing.T) {
	race.Skip(t)
	for call, refused := range map[string]bool{
		`bits.lsh(1, 100000000000)`: true,
		`strings.render_template("{{range $i := .n}}{{range $i := .n}}x{{end}}{{end}}", {"n": numbers.range(1, 100000)})`: true,
		`graph.reachable_paths({}, {"a"})`:                                 true,
		`numbers.range(1, 1000000000000)`:                                  false,
		`floor(to_number("1e99999999"))`:                                   false,
		`to_number("1e99999999") % 7`:                                      false,
		`units.parse("1e99999999")`:                                        false,
		`sprintf("%1000000000d", [1])`:                                     false,
		`regex.match("(a{1000}){1000}", "a")`:                              false,
		`glob.match("*a*a*a*a*a*a*a*a*a*a*b", [], sprintf("%0253d", [1]))`: false,
	} {
		body := fmt.Sprintf("deny contains {\"msg\": \"x\"} if {\n\tnot %s\n}\n", call)
		set, err := Load(files("bad/bad.rego", withBody("bad", body)))
		if refused {
			if err == nil || !strings.Contains(err.Error(), "is not available: ") {
				t.Errorf("%s: loaded with %v, want it refused with a reason", call, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		e, err := NewEngine(t.Context(), set, EngineOptions{Deadline: time.Minute}) // a slow machine is no failure
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Evaluate(t.Context(), Delete, deleteNamespace("demo", nil), Document{}); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
