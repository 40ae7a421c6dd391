package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

const module = "github.com/termguard/termguard/"

// layers states the design: which packages of this module each folder may import. Do not change it
// to make a build pass.
var layers = map[string][]string{
	"cmd/termguard":       {"question", "probe", "probe/report", "internal/background", "internal/printable", "internal/shell", "config", "webhook", "webhook/serve", "doctor", "answer", "deletion", "page", "scan", "watch", "lint/sets", "lint/runner", "lint/settings", "lint/triage", "policies", "internal/policytest", "cluster", "cluster/live", "cluster/snapshots", "cluster/catalog", "internal/nearest"},
	"cmd/termguard-probe": {"probe", "probe/report", "internal/printable"},
	"internal/policytest": {"policies", "cluster", "question"},
	"probe":               {"probe/report", "internal/printable", "internal/shell"},
	"probe/report":        {"page", "internal/printable"},
	"doctor":              {"page", "config", "policies", "webhook"},
	"config":              {"cluster", "cluster/catalog", "internal/nearest"},
	"webhook":             {"page", "internal/background", "internal/printable", "internal/shell", "config", "policies", "question", "cluster", "cluster/catalog", "internal/nearest"},
	"webhook/serve":       {"internal/background", "internal/printable", "config", "webhook", "certs", "policies", "cluster", "cluster/live"},
	"certs":               {"internal/background"},
	"page":                {"internal/printable"},
	"answer":              {"answer/release", "internal/printable", "internal/shell", "page", "question", "policies", "cluster", "cluster/live", "cluster/catalog", "internal/nearest"},
	"scan":                {"answer", "question", "page", "policies", "cluster", "cluster/live", "internal/printable"},
	"deletion":            {"internal/background", "internal/shell", "page", "answer", "question", "policies"},
	"watch":               {"answer", "page", "policies", "internal/printable"},
	"answer/release":      {"internal/nearest", "page"},
	"lint":                {"answer", "page", "internal/nearest", "question", "lint/files", "lint/sets", "policies", "cluster", "cluster/manifests", "cluster/snapshots", "cluster/catalog"},
	"lint/files":          {},
	"lint/sets":           {"page", "lint/files", "cluster"},
	"lint/settings":       {"config", "lint/files", "policies", "internal/nearest"},
	"lint/triage":         {"page", "lint", "lint/settings", "lint/files", "policies", "internal/nearest"},
	"lint/runner":         {"page", "internal/nearest", "internal/shell", "lint", "lint/report", "lint/settings", "lint/files", "lint/sets", "lint/triage", "policies"},
	"lint/report":         {"internal/printable", "page", "lint", "lint/files", "lint/sets", "lint/triage", "policies"},
	"question":            {},
	"policies":            {"internal/nearest", "internal/printable", "internal/shell"},
	// The top reads facts from a cluster; below it are the lock and the requests for them; below
	// that the judges, which do not import each other; below them the vocabulary.
	"cluster/live":        {"internal/background", "probe/report", "cluster", "cluster/facts", "cluster/ownership", "cluster/refusals"},
	"cluster/manifests":   {"cluster", "cluster/budgets", "cluster/catalog", "cluster/refusals"},
	"cluster/snapshots":   {"cluster", "cluster/facts", "cluster/live", "cluster/refusals", "cluster/catalog"}, // what reads a cluster reads it
	"cluster":             {"internal/background", "question", "probe/report", "cluster/facts", "cluster/budgets", "cluster/dependents", "cluster/nodes", "cluster/ownership", "cluster/references", "cluster/refusals", "cluster/catalog", "cluster/learned"},
	"cluster/ownership":   {"cluster/facts", "cluster/dependents", "cluster/catalog", "cluster/learned"},
	"cluster/references":  {"cluster/facts", "cluster/catalog"},
	"cluster/refusals":    {"cluster/facts", "question"},
	"cluster/nodes":       {"probe/report", "cluster/facts", "cluster/dependents", "cluster/catalog", "cluster/learned"},
	"cluster/budgets":     {"cluster/facts"},
	"cluster/dependents":  {"cluster/facts"},
	"cluster/facts":       {},
	"cluster/learned":     {},
	"cluster/catalog":     {},
	"deploy":              {},
	"internal/nearest":    {},
	"internal/race":       {},
	"internal/shell":      {},
	"internal/printable":  {},
	"internal/background": {},
	"internal/bundletest": {},
	"internal/typing":     {},
}

// TestImports checks the direction of imports: cmd → webhook, certs, check → policies, cluster;
// policies import no Kubernetes, the facts no Rego.
func TestImports(t *testing.T) {
	race.Skip(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		allowed, ok := layers[pkg]
		if !ok {
			t.Errorf("package %s is not in layers: add it", pkg)
			continue
		}
		for _, path := range fields[1:] {
			ours, own := strings.CutPrefix(path, module)
			switch {
			case own && !slices.Contains(allowed, ours):
				t.Errorf("%s imports %s, which is not below it", pkg, ours)
			case pkg == "policies" && (strings.HasPrefix(path, "k8s.io/") || strings.HasPrefix(path, "sigs.k8s.io/")) && path != "sigs.k8s.io/json": // it imports the standard library alone
				t.Errorf("policies imports %s, but must not depend on Kubernetes", path)
			case strings.HasPrefix(pkg, "cluster") && strings.Contains(path, "open-policy-agent"):
				t.Errorf("%s imports %s, but facts must not depend on Rego", pkg, path)
			}
		}
	}
}

// heavy has packages that once came into the binary through one import, and what each of them cost
// at every start.
var heavy = map[string]string{
	"k8s.io/apiserver/pkg/admission/plugin/webhook": "gRPC, tracing and the tunnels of the API server",
	"golang.org/x/net/trace":                        "html/template, through which the linker keeps every method of every type",
	"github.com/xeipuuv/gojsonschema":               "text/template, to the same effect: a third of the binary",
}

// tooMuch has packages that are too large for a probe on every node.
var tooMuch = map[string]string{
	"k8s.io/client-go/kubernetes/scheme": "the types of all API groups: 10 MiB of memory",
	"github.com/open-policy-agent/opa/":  "policies, which the probe asks nothing",
	"sigs.k8s.io/controller-runtime/":    "a manager, where one request is made",
	"github.com/spf13/cobra":             "commands, of which the probe is one",
	"text/template":                      "every method of every type",
}

// TestLeanProbe checks that the probe stays small.
func TestLeanProbe(t *testing.T) {
	race.Skip(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"cmd/termguard-probe").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		for path, brings := range tooMuch {
			if strings.HasPrefix(pkg, path) {
				t.Errorf("the probe imports %s, which brings %s", pkg, brings)
			}
		}
	}
}

// TestLean checks that no import adds to start-up time and size unnoticed.
func TestLean(t *testing.T) {
	race.Skip(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"cmd/termguard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if brings, ok := heavy[pkg]; ok {
			t.Errorf("the binary holds %s, which brings %s: see go mod why -m, and use less of what imports it", pkg, brings)
		}
	}
	// A template that is executed may call any method, so the linker keeps all of them: one line
	// made the binary 91 MB instead of 62. Built as make build does.
	binary := filepath.Join(t.TempDir(), "termguard")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, module+"cmd/termguard")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("text/template.(*state).evalField")) {
		t.Error("the binary executes templates: go build -ldflags=-dumpdep shows through which import")
	}
}
