package lint

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/termguard/termguard/cluster/catalog"
)

// Options are what a run looks at. The zero value finds nothing to lint.
type Options struct {
	// Paths are files, directories, and "-" for Stdin. Relative ones are below
	// Dir, and findings name them as they are given here.
	Paths []string
	Stdin io.Reader
	// Dir is the working directory. Defaults to that of the process.
	Dir string
	// Exclude are patterns as in .gitignore, relative to Dir, of what
	// directories are searched without. A path that is given itself is read
	// all the same.
	Exclude []string
	// Only, if not nil, are the files, relative to Dir, that questions are
	// asked about. The others of Paths are read for their facts.
	Only []string
	// Render lets the user's helm, kustomize or kubectl render charts and
	// kustomizations that are found in directories.
	Render bool
	// Snapshot is a file with the facts of a cluster, as "termguard snapshot"
	// writes it.
	Snapshot string
	// KubernetesVersion is that of the API server that manifests are for, as
	// in v1.36.3. Defaults to that of the snapshot; without both it is unknown.
	KubernetesVersion string
	// Policies are file systems with folders of policies. Defaults to those in
	// the binary.
	Policies []fs.FS
	// Params are data.params, by policy id.
	Params map[string]any
	// Off names the policies that are not asked.
	Off map[string]bool
	// Owners declares who removes a finalizer, by finalizer, as in
	// cluster.Options.
	Owners map[string]string
	// Catalog of known finalizers. Defaults to the one in the binary.
	Catalog *catalog.Catalog
}

// ErrNothing is returned where there is nothing to lint.
var ErrNothing = errors.New("nothing to lint")

// Run reads manifests and asks the policies about them. What cannot be read is
// a Problem of the result; the error is for what concerns the whole run, such
// as ErrNothing, or a path that does not exist.
func Run(ctx context.Context, o Options) (*Result, error) {
	_ = ctx
	if len(o.Paths) == 0 {
		return nil, ErrNothing
	}
	return &Result{}, nil
}
