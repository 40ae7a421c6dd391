package runner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/settings"
)

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
			return nil, fmt.Errorf("-o %s and -o %s both go to %s: name another file, as in -o %s=FILE", other, format, cmp.Or(file, "standard output"), format)
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
		var content bytes.Buffer
		var out io.Writer = &content
		if o.file == "" {
			out = r.Stdout
			if o.format == "text" {
				text, write = true, report.Text(r.Color)
			}
		}
		err := lint.CatchPanic(func() error { return write(result, out) })
		if err == nil && o.file != "" {
			err = os.WriteFile(o.file, content.Bytes(), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write the report as %s: %w", o.format, err))
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
