package lint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/termguard/termguard/lint/source"
)

// renderTime bounds one run of a tool of the user's.
const renderTime = 30 * time.Second

// renderChart has a chart rendered by the user's helm. What is not is noted.
func (r *run) renderChart(ctx context.Context, d *source.Directory) {
	if !r.options.Render || !r.renderWith(ctx, d, "Chart.yaml", "helm", "template", "release", d.Path) {
		r.input.notes.charts = append(r.input.notes.charts, d.Name)
	}
}

// renderKustomization has a kustomization rendered by the user's tools, if its
// folder was named: a repository may hold hundreds. What is not is noted, with the
// reason where rendering was asked for.
func (r *run) renderKustomization(ctx context.Context, d *source.Directory, k kustomization, err error, asked bool) {
	notes := &r.input.notes
	because := func(reason string) { notes.leave(reason, d.Name) }
	switch {
	case !r.options.Render:
		notes.kustomizations = append(notes.kustomizations, d.Name)
	case err != nil:
		because("it cannot be read: " + strings.ReplaceAll(err.Error(), "\n", " "))
	case !asked:
		because("only folders that are named are")
	case k.far() != "":
		because("it needs what is elsewhere, " + k.far())
	case !r.renderWith(ctx, d, d.Kustomization, "kustomize", "build", d.Path) && !r.renderWith(ctx, d, d.Kustomization, "kubectl", "kustomize", d.Path):
		because("neither kustomize nor kubectl is in PATH")
	}
}

// renderWith runs a tool, if it is installed, and takes in what it prints of what is
// told by a file of a folder.
func (r *run) renderWith(ctx context.Context, d *source.Directory, file, tool string, args ...string) bool {
	binary, err := exec.LookPath(tool)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, renderTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // its children may hold its output open
	if err := cmd.Run(); err != nil {
		reason, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		r.input.notes.unrendered = append(r.input.notes.unrendered, fmt.Sprintf("%s could not render %s: %s", tool, d.Name, reason))
		return true // it has been noted
	}
	r.sets = append(r.sets, &set{run: r, files: []*source.File{{Name: path.Join(d.Name, file), Content: stdout.Bytes(), Rendered: d.Path}}})
	return true
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
