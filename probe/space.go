package probe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/probe/report"
)

const fullPercent = 95

// space is in percent.
type space struct{ blocks, inodes int }

func percentUsed(all, free uint64) int {
	if all == 0 || free > all {
		return 0
	}
	return int(float64(all-free) / float64(all) * 100)
}

func isRemote(kind string) bool {
	return strings.HasPrefix(kind, "nfs") || strings.HasPrefix(kind, "fuse") ||
		slices.Contains([]string{"cifs", "smb3", "ceph", "glusterfs", "9p", "afs", "lustre"}, kind)
}

func (l *inspection) inspectSpace(ctx context.Context) {
	for _, dir := range []struct{ path, of string }{{path.Join(l.Kubelet, "pods"), "kubelet"}, {l.RuntimeData, "container runtime"}, {l.Logs, "logs"}} {
		m, ok := l.mountOf(dir.path)
		if !ok {
			continue
		}
		if m.readOnly && dir.of != "logs" {
			l.report.Add(report.Finding{
				Cause: report.ReadOnly, Certainty: report.May,
				Evidence: fmt.Sprintf("the file system of the %s, at %s, is read-only", dir.of, m.point),
				Remedy:   command("mount -o remount,rw", m.point),
			})
		}
		if isRemote(m.kind) {
			l.report.AddUnseen("free space of %s: it is on %s, which might not answer", dir.path, m.kind)
			continue
		}
		s, err := withTimeout(ctx, l.Timeout, func() (space, error) { return l.space(l.nodePath(dir.path)) })
		switch {
		case err != nil:
			l.report.AddUnseen("free space of %s: %v", dir.path, err)
		case s.blocks >= fullPercent:
			l.report.Add(report.Finding{Cause: report.Full, Certainty: report.May, Evidence: fmt.Sprintf("the file system of the %s, at %s, is %d %% full", dir.of, m.point, s.blocks)})
		case s.inodes >= fullPercent:
			l.report.Add(report.Finding{Cause: report.Full, Certainty: report.May, Evidence: fmt.Sprintf("of the file system of the %s, at %s, %d %% of the inodes are used", dir.of, m.point, s.inodes)})
		}
	}
}

var errTimeout = errors.New("no answer")

// withTimeout keeps the goroutine of a call that never returns, hence only local file systems are checked,
// once each.
func withTimeout[T any](ctx context.Context, patience time.Duration, ask func() (T, error)) (answer T, err error) {
	type result struct {
		answer T
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := ask()
		results <- result{answer, err}
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-time.After(patience):
		return answer, fmt.Errorf("%w within %s", errTimeout, patience)
	}
}
