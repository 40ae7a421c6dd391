package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/time/rate"

	"github.com/termguard/termguard/probe/report"
)

const (
	// maxDepth bounds how deep directories are followed: each level holds one open.
	maxDepth = 64
	// maxOfPod bounds the findings about files of one pod: one is enough.
	maxOfPod = 3
)

// removed are the kinds of volumes that the kubelet removes file by file
// (pkg/volume/emptydir/empty_dir.go, teardownDefault; the others are made of it).
// What is mounted there, a volume in memory, it unmounts.
var removed = []string{"kubernetes.io~empty-dir", "kubernetes.io~configmap", "kubernetes.io~downward-api", "kubernetes.io~git-repo"}

// errElsewhere is about a directory that is not looked into.
var errElsewhere = errors.New("a mount, a link, or gone")

// attributes of a file.
type attributes struct {
	immutable, appendOnly bool
	known                 bool // the file system tells
	dir                   bool
	inode                 uint64
}

// walk is one through the volumes of a pod.
type walk struct {
	*look
	id    string
	limit *rate.Limiter
	left  int // files that may be looked at
	found int
	blind bool // a file system does not tell
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// lookAtFiles finds files with the attributes immutable and append-only where the
// kubelet will have to remove them.
func (l *look) lookAtFiles(ctx context.Context, limit *rate.Limiter) {
	pods, err := os.Open(l.below(path.Join(l.Kubelet, "pods")))
	if err != nil {
		l.report.Miss("files in volumes: %v", err)
		return
	}
	defer pods.Close()
	blind := 0
	ids := l.uids()
	for i, id := range ids {
		// One pod with many files takes nothing from the others but what they leave.
		w := walk{look: l, id: id, limit: limit, left: (l.MaxFiles - l.report.Files) / (len(ids) - i)}
		for _, kind := range removed {
			err := w.into(ctx, pods, path.Join(id, "volumes", kind), path.Join(l.Kubelet, "pods", id, "volumes", kind), 0)
			if errors.Is(err, errEnough) {
				break
			}
		}
		if w.blind {
			blind++
		}
		if ctx.Err() != nil {
			return
		}
	}
	if blind > 0 {
		l.report.Miss("attributes of files in volumes of %d pods: their file system does not tell", blind)
	}
}

// into looks at what a directory holds; shown is its path on the node. It stays on its
// file system and follows no link.
func (w *walk) into(ctx context.Context, parent *os.File, name, shown string, depth int) error {
	dir, err := openBelow(parent, name, shown)
	switch {
	case errors.Is(err, errElsewhere):
		return nil
	case err != nil:
		w.report.Miss("files in %s: %v", shown, err)
		return nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(batch)
		if err := w.limit.WaitN(ctx, max(1, len(names))); err != nil {
			return errEnough
		}
		for _, entry := range names {
			if err := w.file(ctx, dir, entry, path.Join(shown, entry), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			return nil
		}
	}
}

// file looks at one entry of a directory, and into it.
func (w *walk) file(ctx context.Context, dir *os.File, name, shown string, depth int) error {
	if w.left == 0 {
		w.report.Miss("files in volumes of pod %s: not all were looked at, as there are more than its share of %d", w.id, w.MaxFiles)
		return errEnough
	}
	w.left--
	w.report.Files++
	a, err := w.attributes(dir, name)
	if err != nil {
		return nil // it went
	}
	w.blind = w.blind || !a.known
	if a.immutable || a.appendOnly {
		w.add(w.id, holding(a, shown))
		if w.found++; w.found == maxOfPod {
			return errEnough
		}
	}
	if !a.dir {
		return nil
	}
	if depth == maxDepth {
		w.report.Miss("files in %s: it is too deep", shown)
		return nil
	}
	return w.into(ctx, dir, name, shown, depth+1)
}

// holding is about a file that cannot be removed.
func holding(a attributes, shown string) report.Finding {
	var flags, words []string
	if a.immutable {
		flags, words = append(flags, "-i"), append(words, "immutable")
	}
	if a.appendOnly {
		flags, words = append(flags, "-a"), append(words, "append-only")
	}
	f := report.Finding{
		Cause: report.Immutable, Certainty: report.Will,
		Evidence: fmt.Sprintf("%s is %s (lsattr): nobody can remove it", shown, strings.Join(words, " and ")),
	}
	change := "chattr " + strings.Join(flags, " ")
	if f.Remedy = command(change, shown); f.Remedy == "" { // its name cannot be typed
		if dir, printable := quote(path.Dir(shown)); printable {
			f.Remedy = fmt.Sprintf("find %s -inum %d -exec %s {} +", dir, a.inode, change)
		}
	}
	return f
}
