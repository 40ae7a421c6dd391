package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"github.com/termguard/termguard/probe/report"
)

const (
	// maxDepth bounds open file descriptors, one for each level.
	maxDepth = 64
	// maxOfPod is enough: one finding blocks a pod already.
	maxOfPod = 3
)

// fileVolumes are the plugins whose files the kubelet removes one by one (pkg/volume/emptydir/empty_dir.go,
// teardownDefault; the others are built on it). Volumes in memory are unmounted.
var fileVolumes = []string{"kubernetes.io~empty-dir", "kubernetes.io~configmap", "kubernetes.io~downward-api", "kubernetes.io~git-repo"}

var errSkip = errors.New("a mount, a link, or gone")

type attributes struct {
	immutable, appendOnly bool
	supported             bool // by the file system
	dir                   bool
	inode                 uint64
}

type walk struct {
	*inspection
	id          string
	limit       *rate.Limiter
	remaining   int
	findings    int
	unsupported bool // by a file system
}

var errStop = errors.New("enough")

func (l *inspection) inspectFiles(ctx context.Context, limit *rate.Limiter) {
	pods, err := os.Open(l.nodePath(path.Join(l.Kubelet, "pods")))
	if err != nil {
		l.report.AddUnseen("files in volumes: %v", err)
		return
	}
	defer pods.Close()
	unsupportedPods := 0
	ids := slices.Sorted(maps.Keys(l.pods))
	for i, id := range ids {
		// An equal share, so that one pod with many files does not starve the others.
		w := walk{inspection: l, id: id, limit: limit, remaining: (l.MaxFiles - l.report.Files) / (len(ids) - i)}
		for _, kind := range fileVolumes {
			err := w.walkDir(ctx, pods, path.Join(id, "volumes", kind), path.Join(l.Kubelet, "pods", id, "volumes", kind), 0)
			if errors.Is(err, errStop) {
				break
			}
		}
		if w.unsupported {
			unsupportedPods++
		}
		if ctx.Err() != nil {
			return
		}
	}
	if unsupportedPods > 0 {
		l.report.AddUnseen("attributes of files in volumes of %d pods: their file system does not report them", unsupportedPods)
	}
}

// walkDir stays on one file system and follows no link; shown is the path on the node.
func (w *walk) walkDir(ctx context.Context, parent *os.File, name, shown string, depth int) error {
	dir, err := openBelow(parent, name, shown)
	switch {
	case errors.Is(err, errSkip):
		return nil
	case err != nil:
		w.report.AddUnseen("files in %s: %v", shown, err)
		return nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(batch)
		if err := w.limit.WaitN(ctx, max(1, len(names))); err != nil {
			return errStop
		}
		for _, entry := range names {
			if err := w.visit(ctx, dir, entry, path.Join(shown, entry), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			return nil
		}
	}
}

func (w *walk) visit(ctx context.Context, dir *os.File, name, shown string, depth int) error {
	if w.remaining == 0 {
		w.report.AddUnseen("files in volumes of pod %s: partial, because it has more than its share of %d", w.id, w.MaxFiles)
		return errStop
	}
	w.remaining--
	w.report.Files++
	a, err := w.attributes(dir, name)
	if err != nil {
		return nil // removed meanwhile
	}
	w.unsupported = w.unsupported || !a.supported
	if a.immutable || a.appendOnly {
		w.add(w.id, newImmutableFinding(a, shown))
		if w.findings++; w.findings == maxOfPod {
			return errStop
		}
	}
	if !a.dir {
		return nil
	}
	if depth == maxDepth {
		w.report.AddUnseen("files in %s: it is too deep", shown)
		return nil
	}
	return w.walkDir(ctx, dir, name, shown, depth+1)
}

func newImmutableFinding(a attributes, shown string) report.Finding {
	var flags, words []string
	if a.immutable {
		flags, words = append(flags, "-i"), append(words, "immutable")
	}
	if a.appendOnly {
		flags, words = append(flags, "-a"), append(words, "append-only")
	}
	f := report.Finding{
		Cause: report.Immutable, Certainty: report.Will,
		Evidence: fmt.Sprintf("%s is %s (lsattr): it cannot be removed", shown, strings.Join(words, " and ")),
	}
	change := "chattr " + strings.Join(flags, " ")
	if f.Remedy = command(change, shown); f.Remedy == "" { // unprintable characters
		if find := command("find", path.Dir(shown)); find != "" {
			f.Remedy = fmt.Sprintf("%s -inum %d -exec %s {} +", find, a.inode, change)
		}
	}
	return f
}
