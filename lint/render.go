package lint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/lint/source"
)

// Renderer is the program that renders charts and kustomizations, which
// cmd/termguard-render is.
const Renderer = "termguard-render"

// renderTime bounds one run of it, and maxRendered the bytes that it may print.
const renderTime, maxRendered = 30 * time.Second, 64 << 20

// FindRenderer finds it beside this program, or in PATH.
func FindRenderer() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), Renderer)); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(Renderer)
	if err != nil {
		return "", fmt.Errorf("nothing is rendered, as %s is neither beside termguard nor in PATH: go install github.com/termguard/termguard/cmd/%[1]s@latest", Renderer)
	}
	return found, nil
}

// renderChart has a chart rendered, with the values that were named. What is not
// is noted.
func (r *run) renderChart(ctx context.Context, d *source.Directory) {
	if r.renderer == "" {
		r.found.notes.charts = append(r.found.notes.charts, d.Name)
		return
	}
	args := []string{"chart"}
	for _, file := range r.options.Values {
		args = append(args, "--values", absolute(r.options.Dir, file))
	}
	r.renderWith(ctx, d, "Chart.yaml", append(args, d.Path)...)
}

// renderKustomization has a kustomization rendered, if its folder was named: a
// repository may hold hundreds. What is not is noted, with the reason where
// rendering was asked for.
func (r *run) renderKustomization(ctx context.Context, d *source.Directory, k kustomization, err error, asked bool) {
	notes := &r.found.notes
	because := func(reason string) { notes.leave(reason, d.Name) }
	switch {
	case r.renderer == "":
		notes.kustomizations = append(notes.kustomizations, d.Name)
	case err != nil:
		because("it cannot be read: " + strings.ReplaceAll(err.Error(), "\n", " "))
	case !asked:
		because("only folders that are named are")
	case k.far() != "":
		because("it needs what is elsewhere, " + k.far())
	default:
		r.renderWith(ctx, d, d.Kustomization, "kustomization", d.Path)
	}
}

// renderWith takes in what the renderer prints of what is told by a file of a folder.
func (r *run) renderWith(ctx context.Context, d *source.Directory, file string, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, renderTime)
	defer cancel()
	root, err := r.tree(d.Path)
	if err != nil {
		r.found.notes.unrendered = append(r.found.notes.unrendered, fmt.Sprintf("%s was not rendered: %v", d.Name, err))
		return
	}
	args = slices.Insert(args, len(args)-1, "--root", root)
	cmd := exec.CommandContext(ctx, r.renderer, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // a template sees no secrets of ours
	stdout, stderr := limited{cancel: cancel}, limited{cancel: cancel}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		reason, _, _ := strings.Cut(strings.TrimSpace(stderr.text.String()), "\n")
		switch {
		case stdout.full || stderr.full:
			reason = fmt.Sprintf("it has more than %d MiB", maxRendered>>20)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			reason = fmt.Sprintf("it takes more than %v", renderTime)
		case reason == "":
			reason = err.Error()
		}
		r.found.notes.unrendered = append(r.found.notes.unrendered, fmt.Sprintf("%s was not rendered: %s", d.Name, reason))
		return
	}
	r.sets = append(r.sets, &input{files: []*source.File{{Name: path.Join(d.Name, file), Content: stdout.text.Bytes(), Rendered: d.Path}}})
}

// limited ends what writes more than maxRendered. (It embeds no buffer, whose
// ReadFrom io.Copy would call.)
type limited struct {
	text   bytes.Buffer
	cancel func()
	full   bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.full = l.full || l.text.Len()+len(p) > maxRendered; l.full {
		l.cancel()
		return len(p), nil
	}
	return l.text.Write(p)
}

// inTemplate is the place of something in rendered text: the first line of its
// template, where a comment names one that exists, or of what was rendered.
// Where in it the text comes from, nothing tells.
func inTemplate(file *source.File, p source.Position, template string) Place {
	at := Place{File: file.Name, Line: 1, Column: 1, Source: p.Text, Rendered: template}
	if template == "" {
		at.Rendered = path.Base(file.Name)
		return at
	}
	if _, inside, found := strings.Cut(template, "/"); found { // CHART/templates/FILE
		if _, err := os.Stat(filepath.Join(file.Rendered, filepath.FromSlash(inside))); err == nil {
			at.File = path.Join(path.Dir(file.Name), inside)
		}
	}
	return at
}
