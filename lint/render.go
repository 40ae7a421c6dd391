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

// render has a directory rendered by the user's tools: a chart wherever it is
// found, a kustomization where its directory was asked for, as a repository may
// hold hundreds. What cannot be rendered is noted.
func (r *run) render(ctx context.Context, d *source.Directory, asked bool) {
	switch {
	case d.Chart && d.Templates > 0:
		if !r.renderWith(ctx, d, "helm", "template", "release", d.Path) {
			r.input.notes.charts = append(r.input.notes.charts, d.Name)
		}
	case d.Kustomization != "":
		if !asked || !r.renderWith(ctx, d, "kustomize", "build", d.Path) && !r.renderWith(ctx, d, "kubectl", "kustomize", d.Path) {
			r.input.notes.kustomizations = append(r.input.notes.kustomizations, d.Name)
		}
	}
}

// renderWith runs a tool, if it is installed, and takes in what it prints.
func (r *run) renderWith(ctx context.Context, d *source.Directory, tool string, args ...string) bool {
	if !r.options.Render || remote(d) {
		return false
	}
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
	r.sets = append(r.sets, &set{run: r, files: []*source.File{{Name: path.Join(d.Name, mainFile(d)), Content: stdout.Bytes(), Rendered: d.Path}}})
	return true
}

func mainFile(d *source.Directory) string {
	if d.Chart {
		return "Chart.yaml"
	}
	return d.Kustomization
}

// remote tells whether a kustomization refers to what is elsewhere: lint opens
// no network connection, and has none opened.
func remote(d *source.Directory) bool {
	if d.Chart || d.Kustomization == "" {
		return false
	}
	text, err := os.ReadFile(filepath.Join(d.Path, d.Kustomization))
	return err != nil || bytes.Contains(text, []byte("://")) || bytes.Contains(text, []byte("github.com")) || bytes.Contains(text, []byte("helmCharts"))
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
