package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/shell"
)

// Flags name the objects of a question, and what happens to them, as the flags of kubectl and helm do.
type Flags struct {
	Namespace            string // "" for the context's
	Everywhere           bool   // all namespaces
	Filenames, Kustomize []string
	Recursive            bool
	Labels, Fields       string
	All                  bool // of TYPE
	Release              string
	Helm                 bool // Filenames are a release's manifest
	Drain, Evict         bool
	Terminating          bool
	DryRuns              bool

	args  []string
	names []Name // in args, without a namespace
}

func (f *Flags) FromFiles() bool { return len(f.Filenames)+len(f.Kustomize) > 0 }

// Selects reports whether all objects of a type are meant, or those with labels or fields.
func (f *Flags) Selects() bool {
	return f.All || f.Labels != "" || f.Fields != "" || f.Everywhere && !f.Terminating
}

// Parse reads the arguments of the command line, without a cluster.
func (f *Flags) Parse(args []string) (err error) {
	f.args = args
	switch named := strings.Join(args, " "); {
	case f.FromFiles() && named != "":
		return fmt.Errorf("%q and --filename: name the object, or the file", named)
	case f.Release != "" && named != "":
		return fmt.Errorf("%q and --release: name the object, or the release", named)
	case f.Terminating && named != "":
		return fmt.Errorf("%q and --terminating: name the object, or use --terminating alone", named)
	case f.Helm && len(f.Filenames) != 1:
		return errors.New("--helm needs one --filename; for an installed release, use --release")
	case f.FromFiles() || f.Selects() || f.Release != "" || f.Terminating:
		return nil
	}
	f.names, err = ParseNames(args)
	return err
}

var ErrNoType = errors.New("--selector, --field-selector and --all-namespaces need a TYPE: termguard check pods -l app=web")

// Question gives namespace to objects without one.
func (f *Flags) Question(ctx context.Context, s Session, namespace string, stdin io.Reader, render func(ctx context.Context, folder string) (string, error)) (q Question, err error) {
	switch {
	case f.Release != "":
		q, err = FromRelease(ctx, s.Config, namespace, f.Release)
	case f.Helm:
		q, err = FromHelmManifest(f.Filenames[0], namespace, stdin)
	case f.FromFiles():
		q, err = f.inFiles(ctx, namespace, stdin, render)
	case f.Selects():
		q, err = f.selected(ctx, s, namespace)
	default:
		q, err = f.named(ctx, s, namespace)
	}
	q.DryRuns = f.DryRuns
	if q.Options == nil {
		q.Options = s.Options
	}
	return q, err
}

func (f *Flags) named(ctx context.Context, s Session, namespace string) (q Question, err error) {
	q.Names = f.names
	for i := range q.Names {
		q.Names[i].Namespace = namespace
	}
	switch {
	case f.Drain:
		q.As = AsDrain
	case f.Evict:
		q.As = AsEvict
	case len(q.Names) > 1:
		words := append([]string{"kubectl", "delete"}, f.args...)
		if f.Namespace != "" {
			words = append(words, "-n", f.Namespace)
		}
		q.Together, q.Command = true, shell.Join(words)
	case !f.DryRuns:
		return FromInventory(ctx, s.Config, q.Names[0])
	}
	return q, nil
}

func (f *Flags) inFiles(ctx context.Context, namespace string, stdin io.Reader, render func(ctx context.Context, folder string) (string, error)) (q Question, err error) {
	files := Files{Paths: f.Filenames, Recursive: f.Recursive, Stdin: stdin, Rendered: map[string][]byte{}}
	words := []string{"kubectl", "delete"}
	for _, folder := range f.Kustomize {
		objects, err := render(ctx, folder)
		if err != nil {
			return q, err
		}
		files.Rendered[folder] = []byte(objects)
		words = append(words, "-k", folder)
	}
	for _, file := range f.Filenames {
		words = append(words, "-f", file)
	}
	if f.Recursive {
		words = append(words, "-R")
	}
	q.Together, q.Command = true, shell.Join(words)
	q.Names, err = Names(files, namespace)
	return q, err
}

func (f *Flags) selected(ctx context.Context, s Session, namespace string) (q Question, err error) {
	if len(f.args) != 1 || strings.Contains(f.args[0], "/") {
		return q, ErrNoType
	}
	if f.Everywhere {
		namespace = ""
	}
	q, err = Selected(ctx, s.Config, strings.Split(f.args[0], ","), namespace, f.Labels, f.Fields)
	if err == nil && len(q.Names) == 0 {
		err = fmt.Errorf("no %s matches the selection", f.args[0])
	}
	return q, err
}
