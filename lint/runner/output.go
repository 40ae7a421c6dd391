package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/settings"
)

// Formats lists the formats of Options.Outputs.
func Formats() []string { return report.Names() }

type output struct{ format, file string }

func parseOutputs(values []string) ([]output, error) {
	var all []output
	formats := map[string]string{}
	for _, value := range values {
		format, file, hasFile := strings.Cut(value, "=")
		if !slices.Contains(report.Names(), format) {
			return nil, fmt.Errorf("unknown output %q: use %s", format, settings.Or(report.Names()))
		}
		if hasFile && file == "" {
			return nil, fmt.Errorf("-o %s: name the file behind =", value)
		}
		if file == "-" {
			file = ""
		}
		if other, ok := formats[file]; ok {
			where := file
			if where == "" {
				where = "standard output"
			}
			return nil, fmt.Errorf("-o %s and -o %s both go to %s: name another file, as in -o %s=FILE", other, format, where, format)
		}
		formats[file] = format
		all = append(all, output{format, file})
	}
	return all, nil
}

// report writes the problems and summary to standard error if standard output gets no text.
func (r *runner) report(result report.Report) error {
	text := false
	var errs []error
	for _, o := range r.outputs {
		write := report.Formats()[o.format]
		if o.file == "" {
			if o.format == "text" {
				text = true
				write = report.Text(r.Color)
			}
			if err := lint.CatchPanic(func() error { return write(result, r.Stdout) }); err != nil {
				errs = append(errs, fmt.Errorf("write the report: %w", err))
			}
			continue
		}
		var b bytes.Buffer
		if err := lint.CatchPanic(func() error { return write(result, &b) }); err != nil {
			errs = append(errs, fmt.Errorf("write the report as %s: %w", o.format, err))
			continue
		}
		if err := os.WriteFile(o.file, b.Bytes(), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("write the report: %w", err))
		}
	}
	if !text {
		for _, problem := range result.Problems {
			fmt.Fprintln(r.Stderr, report.Problem(problem))
		}
		fmt.Fprintf(r.Stderr, "termguard: %s\n", result.Summary())
	}
	return errors.Join(errs...)
}
