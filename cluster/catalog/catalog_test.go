package catalog

import (
	"slices"
	"strings"
	"testing"
)

// TestShipped holds the catalog in the binary to its own promises.
func TestShipped(t *testing.T) {
	c, err := Parse(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.entries) < 300 {
		t.Errorf("only %d entries: some were lost", len(c.entries))
	}
	for _, e := range c.entries {
		for _, res := range e.On {
			if e.Finalizer == "" || res == "*" {
				continue
			}
			if got, _ := c.Lookup(e.Finalizer, res); got.key() != e.key() || !slices.Contains(got.On, res) {
				t.Errorf("%s on %s is shadowed by %s", e.Finalizer, res, got.key())
			}
		}
		for _, pattern := range []string{e.Prefix + "x", "x" + e.Suffix} {
			if e.Finalizer != "" || e.Regex != "" || e.rank(pattern) == 0 {
				continue
			}
			if got, _ := c.Lookup(pattern, e.On[0]); got.key() != e.key() {
				t.Errorf("pattern %s can never be found: %s comes first for %q", e.key(), got.key(), pattern)
			}
		}
		if !strings.HasPrefix(e.Source, "github.com/") || !strings.Contains(e.Source, ":") {
			t.Errorf("%s: source %q is no file of a repository", e.key(), e.Source)
		}
	}
}

func TestLookup(t *testing.T) {
	const text = `
- {finalizer: a.io/f, resources: [widgets.a.io], owner: exact, component: in-cluster, source: x}
- {finalizer: a.io/f, resources: [pods], owner: exact on pods, component: in-cluster, source: x}
- {prefix: a.io/, resources: ["*"], owner: prefix, component: in-cluster, source: x}
- {prefix: a.io/long-, resources: ["*"], owner: longer prefix, component: in-cluster, source: x}
- {suffix: .b.io, resources: ["*"], owner: suffix, component: in-cluster, source: x}
- {regex: 'c[0-9]+', resources: ["*"], owner: regex, component: in-cluster, source: x}
`
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ reason, finalizer, resource, owner string }{
		"exact":             {"the exact string wins over its prefix", "a.io/f", "widgets.a.io", "exact"},
		"by resource":       {"of two exact ones, that for the resource", "a.io/f", "pods", "exact on pods"},
		"exact elsewhere":   {"on a resource that nobody lists, the first", "a.io/f", "secrets", "exact"},
		"prefix":            {"no exact entry", "a.io/other", "pods", "prefix"},
		"longest prefix":    {"the longer prefix says more", "a.io/long-x", "pods", "longer prefix"},
		"suffix":            {"by its end", "x.b.io", "pods", "suffix"},
		"regex":             {"the whole string", "c12", "pods", "regex"},
		"regex is anchored": {"a part of the string is not enough", "xc12", "pods", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := c.Lookup(tc.finalizer, tc.resource); got.Owner != tc.owner {
				t.Errorf("%s: got %q, want %q", tc.reason, got.Owner, tc.owner)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	kiali := Workload{Kind: "Deployment", Namespace: "kiali-operator", Name: "kiali-operator", Image: "kiali-operator"}
	generic := Workload{Kind: "Deployment", Namespace: "argo-events", Name: "controller-manager"}
	glob := Workload{Name: "*cloud-controller-manager*"}
	tests := map[string]struct {
		reason                string
		w                     Workload
		kind, namespace, name string
		images                []string
		want                  bool
	}{
		"name":                      {"as installed by default", kiali, "Deployment", "kiali-operator", "kiali-operator", nil, true},
		"other namespace":           {"a specific name counts anywhere", kiali, "Deployment", "ops", "kiali-operator", nil, true},
		"release":                   {"behind a Helm release's name", kiali, "Deployment", "ops", "mesh-kiali-operator", nil, true},
		"image":                     {"under any name, by its image", kiali, "StatefulSet", "ops", "x", []string{"kiali-operator"}, true},
		"something else":            {"a name that merely begins alike", kiali, "Deployment", "ops", "kiali-operator-tests", nil, false},
		"other kind":                {"a name counts for its kind", kiali, "DaemonSet", "ops", "kiali-operator", nil, false},
		"generic, its namespace":    {"a shared name in the usual namespace", generic, "Deployment", "argo-events", "controller-manager", nil, true},
		"generic, another":          {"a shared name elsewhere is somebody else's", generic, "Deployment", "cert-manager", "controller-manager", nil, false},
		"generic, behind a release": {"a shared name says nothing behind a release either", generic, "Deployment", "argo-events", "x-controller-manager", nil, false},
		"glob":                      {"vendors put their name around it", glob, "DaemonSet", "kube-system", "aws-cloud-controller-manager", nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.w.Matches(tc.kind, tc.namespace, tc.name, tc.images); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"no key":        {"nothing to match by", "- {resources: [pods], owner: x, component: in-cluster, source: x}", "exactly one of"},
		"two keys":      {"what would it match", "- {finalizer: a, prefix: b, resources: [pods], owner: x, component: in-cluster, source: x}", "exactly one of"},
		"component":     {"a typo", "- {finalizer: a, resources: [pods], owner: x, component: incluster, source: x}", `unknown component "incluster"`},
		"unknown field": {"a typo", "- {finaliser: a}", "finaliser"},
		"regex":         {"does not compile", "- {regex: '(', resources: [pods], owner: x, component: in-cluster, source: x}", "entry 1"},
		"twice":         {"the second would never be found", "- &e {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x}\n- *e", "the same as entry 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(shipped[:2000])
	f.Add([]byte("- {regex: 'c[0-9]+', resources: [\"*\"], owner: x, component: in-cluster, source: x}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		for _, e := range c.Entries() {
			c.Lookup(e.Finalizer, "pods")
		}
	})
}
