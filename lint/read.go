package lint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/termguard/termguard/lint/source"
)

// maxSet bounds the text of a set, in bytes: all of it is held until it is evaluated, and takes up to fifty
// times as much when parsed.
const maxSet = 32 << 20

func (s *set) read(ctx context.Context) error {
	for _, file := range s.files {
		if s.held > maxSet {
			break
		}
		s.readFile(ctx, file)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// selected reports whether the objects of a file are evaluated.
func (r *run) selected(file *source.File) bool {
	if b := r.builds[file]; b != nil && r.only != nil {
		return len(b.reads) == 0 || slices.ContainsFunc(b.reads, func(name string) bool { return r.only[relative(r.options.Dir, b.known[name].path)] })
	}
	return r.only == nil || file.Path == "" || file.Name == "-" || r.only[relative(r.options.Dir, file.Path)]
}

func (s *set) readFile(ctx context.Context, file *source.File) {
	s.total.files++
	if s.quoted {
		s.quote(file)
		return
	}
	for c := range file.Read() {
		s.take(file, c)
		s.tell()
		if ctx.Err() != nil || s.held > maxSet {
			return
		}
	}
}

// quote reads only the ignores of a file whose objects are in other sets.
func (s *set) quote(file *source.File) {
	if text, err := os.ReadFile(file.Path); err != nil || !bytes.Contains(text, []byte("termguard")) {
		return
	}
	for c := range file.Read() {
		s.mark(file, c)
	}
}

func (s *set) mark(file *source.File, c source.Contents) {
	for _, m := range c.Marks {
		s.marks = append(s.marks, Mark{Place: placed(file, m.Position, ""), Text: m.Text, From: m.From, To: m.To})
	}
}

// take adds a document of a file.
func (s *set) take(file *source.File, c source.Contents) {
	for _, p := range c.Problems {
		if c.Snippet {
			s.notes.snippets = append(s.notes.snippets, fmt.Sprintf("%s:%d", file.Name, p.Line))
			continue
		}
		s.problems = append(s.problems, Problem{Place: placed(file, p.Position, ""), Message: p.Message})
	}
	if c.Template {
		s.template(file)
		s.documents++
		return
	}
	if s.build == nil || len(s.build.reads) == 0 { // else they are in files of their own
		s.mark(file, c)
	}
	s.skipped += c.Plain
	s.total.objects += len(c.Objects)
	if len(c.Objects)+c.Plain > 0 {
		s.documents++
	}
	for _, o := range c.Objects {
		if !s.run.options.IncludeTests && o.Record() {
			s.tests++
			continue
		}
		if o.Hook("pre-delete") {
			s.cleanup = append(s.cleanup, o)
		}
		if since := unserved(o.APIVersion, o.Kind, s.run.options.KubernetesVersion); since != "" {
			if s.past == nil {
				s.past = map[*source.Object]string{}
			}
			s.past[o] = since
		}
		o.APIVersion = present(o.APIVersion, o.Kind)
		s.objects = append(s.objects, o)
	}
	if len(c.Objects) == 0 {
		return
	}
	if s.held += c.Objects[0].Size(); s.held > maxSet {
		s.problem(c.Objects[0], fmt.Sprintf("more than %d MiB of manifests that are one set, and what follows is not read: lint parts of it one by one", maxSet>>20))
	}
}

// template notes a file or object that has to be rendered first.
func (s *set) template(file *source.File) {
	s.notes.templates = append(s.notes.templates, file.Name)
	s.skipped++
}

func placed(file *source.File, p source.Position, rendered string) Place {
	if file.Rendered != "" {
		return inTemplate(file, p, rendered)
	}
	return Place{File: file.Name, Line: p.Line, Column: p.Column, EndColumn: p.EndColumn, Source: p.Text, Rendered: rendered}
}

func (s *set) problem(o *source.Object, message string) {
	p, _ := o.Find("")
	s.problems = append(s.problems, Problem{Place: placed(o.File, p, o.Source()), Message: message})
}
