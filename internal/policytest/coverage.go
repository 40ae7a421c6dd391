package policytest

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
)

// Tracer records the lines that an engine evaluates.
type Tracer struct{ *cover.Cover }

// NewTracer returns an empty Tracer.
func NewTracer() *Tracer { return &Tracer{cover.New()} }

func (t *Tracer) Reset() { t.Cover = cover.New() }

// Covered returns the percentage of evaluated Rego lines in folder, without tests, and the others as
// FILE:LINE. Policies call fsys dir.
func (t *Tracer) Covered(fsys fs.FS, dir, folder string) (percent float64, missed []string, err error) {
	files, err := fs.Glob(fsys, folder+"/*.rego")
	if err != nil {
		return 0, nil, err
	}
	modules := map[string]*ast.Module{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.rego") {
			continue
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return 0, nil, err
		}
		name := path.Join(dir, file)
		if modules[name], err = ast.ParseModuleWithOpts(name, string(text), ast.ParserOptions{RegoVersion: ast.RegoV1}); err != nil {
			return 0, nil, err
		}
	}
	reached, all := 0, 0
	report := t.Report(modules)
	for name := range modules {
		its := report.Files[name]
		reached += its.CoveredLines
		all += its.CoveredLines + its.NotCoveredLines
		for _, span := range its.NotCovered {
			missed = append(missed, fmt.Sprintf("%s:%d", name, span.Start.Row))
		}
	}
	return 100 * float64(reached) / float64(max(all, 1)), missed, nil
}
