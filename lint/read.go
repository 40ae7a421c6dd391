package lint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/termguard/termguard/lint/files"
)

// maxSet bounds the text of a set, in bytes, which takes up to fifty times as much parsed. A larger one is
// refused: a part says nothing about the whole.
const maxSet = 32 << 20

func (s *set) read(ctx context.Context) error {
	for _, file := range s.files {
		s.readFile(ctx, file)
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.textBytes > maxSet {
			s.objects = nil
			s.run.addProblem(Place{File: s.name(), Line: 1, Column: 1}, fmt.Sprintf("more than %d MiB of manifests are one set, and none of it is checked: lint parts of it one by one", maxSet>>20))
			return nil
		}
	}
	return nil
}

func (s *set) name() string {
	if len(s.directories) > 0 {
		return s.directories[0].Name
	}
	return s.files[0].Name
}

func (r *run) isSelected(file *files.File) bool {
	if b := r.builds[file]; b != nil && r.only != nil {
		return len(b.sources) == 0 || slices.ContainsFunc(b.sources, func(name string) bool { return r.only[b.locations[name].path] })
	}
	return r.only == nil || file.Path == "" || file.Name == "-" || r.only[file.Path]
}

func (s *set) readFile(ctx context.Context, file *files.File) {
	s.run.record(func() { s.run.counts.Files++ })
	if s.ignoresOnly {
		s.readIgnores(file)
		return
	}
	for c := range file.Read() {
		s.addDocument(file, c)
		if ctx.Err() != nil || s.textBytes > maxSet {
			return
		}
	}
}

func (s *set) readIgnores(file *files.File) {
	if text, err := os.ReadFile(file.Path); err != nil || !bytes.Contains(text, []byte("termguard")) {
		return
	}
	for c := range file.Read() {
		s.addMarks(file, c)
	}
}

func (s *set) addMarks(file *files.File, c files.Contents) {
	s.run.record(func() {
		for _, m := range c.Marks {
			s.run.marks = append(s.run.marks, Mark{Place: placeOf(file, m.Position, ""), Text: m.Text, From: m.From, To: m.To})
		}
	})
}

func (s *set) addDocument(file *files.File, c files.Contents) {
	for _, p := range c.Problems {
		if c.Snippet {
			s.run.note(snippet, fmt.Sprintf("%s:%d", file.Name, p.Line))
			continue
		}
		s.run.addProblem(placeOf(file, p.Position, ""), p.Message)
	}
	if c.Template {
		s.addTemplate(file)
	} else if s.build == nil || len(s.build.sources) == 0 { // else they are in files of their own
		s.addMarks(file, c)
	}
	applied := c.Objects
	if !s.run.options.IncludeTests {
		applied = slices.DeleteFunc(slices.Clone(c.Objects), (*files.Object).IsRecord)
	}
	s.run.record(func() {
		counts := &s.run.counts
		counts.Skipped += c.Plain
		counts.Objects += len(c.Objects)
		counts.Tests += len(c.Objects) - len(applied)
		if c.Template || len(c.Objects)+c.Plain > 0 {
			counts.Documents++
		}
	})
	for _, o := range applied {
		if o.HasHook("pre-delete") {
			s.deleteHooks = append(s.deleteHooks, o)
		}
		o.APIVersion = servedVersion(o.APIVersion, o.Kind)
		s.objects = append(s.objects, o)
	}
	if len(c.Objects) > 0 {
		s.textBytes += c.Objects[0].Size()
	}
}

func (s *set) addTemplate(file *files.File) {
	s.run.note(template, file.Name)
	s.run.record(func() { s.run.counts.Skipped++ })
}

func placeOf(file *files.File, p files.Position, rendered string) Place {
	if file.Rendered != "" {
		return templatePlace(file, p, rendered)
	}
	return Place{File: file.Name, Line: p.Line, Column: p.Column, EndColumn: p.EndColumn, Source: p.Text, Rendered: rendered}
}

func (s *set) addProblem(o *files.Object, message string) {
	p, _ := o.Find("")
	s.run.addProblem(placeOf(o.File, p, o.Source()), message)
}
