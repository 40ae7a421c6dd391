package sets

import (
	"context"
	"fmt"
	"slices"

	"github.com/termguard/termguard/lint/files"
)

type Manifests struct {
	*Set
	Objects     []*files.Object
	DeleteHooks []*files.Object // run before the other objects are deleted
	Number      int64

	textBytes int
}

// maxSet bounds the text of a set, in bytes, which takes up to fifty times as much parsed. A larger one is
// refused: a part says nothing about the whole.
const maxSet = 32 << 20

// Read returns the manifests of a set, several if its files are alternatives.
func (s *Set) Read(ctx context.Context) ([]*Manifests, error) {
	m := &Manifests{Set: s, Number: s.numbers.Add(1)}
	for _, file := range s.Files() {
		s.Record(func() { s.Counts.Files++ })
		if s.IgnoresOnly && !file.Contains("termguard") {
			continue
		}
		for c := range file.Read() {
			m.add(file, c)
			if ctx.Err() != nil || m.textBytes > maxSet {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if m.textBytes > maxSet {
			s.AddProblem(files.Place{File: s.name(), Line: 1, Column: 1}, fmt.Sprintf("more than %d MiB of manifests are one set, and none of it is checked: lint parts of it one by one", maxSet>>20))
			return nil, nil
		}
	}
	return m.splitAlternatives(), nil
}

func (s *Set) name() string {
	if len(s.directories) > 0 {
		return s.directories[0].Name
	}
	return s.given[0].Name
}

func (m *Manifests) add(file *files.File, c files.Contents) {
	if m.build == nil || len(m.build.sources) == 0 { // else they are in files of their own
		m.Record(func() { m.Marks = append(m.Marks, c.Marks...) })
	}
	if m.IgnoresOnly {
		return
	}
	for _, p := range c.Problems {
		if c.Snippet {
			m.AddNote(snippet, fmt.Sprintf("%s:%d", file.Name, p.Line))
		} else {
			m.AddProblem(p.Place, p.Message)
		}
	}
	if c.Template {
		m.AddTemplate(file)
	}
	applied := c.Objects
	if !m.options.IncludeTests {
		applied = slices.DeleteFunc(slices.Clone(c.Objects), (*files.Object).IsRecord)
	}
	m.Record(func() {
		m.Counts.Skipped += c.Plain
		m.Counts.Objects += len(c.Objects)
		m.Counts.Tests += len(c.Objects) - len(applied)
		if c.Template || len(c.Objects)+c.Plain > 0 {
			m.Counts.Documents++
		}
	})
	for _, o := range applied {
		if o.HasHook("pre-delete") {
			m.DeleteHooks = append(m.DeleteHooks, o)
		}
		o.APIVersion = servedVersion(o.APIVersion, o.Kind)
		m.Objects = append(m.Objects, o)
	}
	if len(c.Objects) > 0 {
		m.textBytes += c.Objects[0].Size()
	}
}

func (l *Log) AddTemplate(file *files.File) {
	l.AddNote(Template, file.Name)
	l.Record(func() { l.Counts.Skipped++ })
}

// Value returns an object's content, in a served version and its final namespace.
func (m *Manifests) Value(o *files.Object) (map[string]any, error) {
	value, err := o.Value()
	if err != nil {
		return value, err
	}
	modernize(value)
	if namespace := m.kustomizations[m.folder()].Namespace; namespace != "" {
		replacePlaceholder(value, namespace)
		if metadata, ok := value["metadata"].(map[string]any); ok && o.Kind == "Namespace" && metadata["name"] == placeholder {
			metadata["name"] = namespace
		}
	}
	return value, nil
}
