package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/termguard/termguard/probe/report"
)

// maxProcesses is below pid_max, which can be 4 Mi.
const maxProcesses = 100_000

// process is a line of proc_pid_stat(5).
type process struct {
	pid, parent int
	name        string // at most 15 bytes, anything but NUL
	state       byte
	start       uint64 // ticks since boot; with the PID, identifies the process
}

// parseStat parses /proc/PID/stat. The name may contain parentheses: it ends at the last one.
func parseStat(line string) (process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, errors.New("no name in parentheses")
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, fmt.Errorf("%d fields after the name: want at least 20", len(fields))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return process{}, err
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64) // field 22
	if err != nil {
		return process{}, err
	}
	return process{pid: pid, parent: parent, name: line[open+1 : end], state: fields[0][0], start: start}, nil
}

func (l *inspection) processes() map[int]process {
	entries, err := fs.ReadDir(l.node, "proc")
	if err != nil {
		l.report.AddUnseen("processes: %v", err)
		return nil
	}
	all := map[int]process{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if len(all) == maxProcesses {
			l.report.AddUnseen("processes: there are more than %d", maxProcesses)
			break
		}
		text, _, err := l.read("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if p, err := parseStat(text); err == nil {
			all[p.pid] = p
		}
	}
	return all
}

// cgroups iterates over controllers ("" in version 2) and paths; a process that ended has none.
func (l *inspection) cgroups(pid int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		text, _, err := l.read(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			return
		}
		for line := range strings.Lines(text) {
			// hierarchy-ID:controllers:path (cgroups(7)); a path may contain colons
			parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			if len(parts) == 3 && !yield(parts[1], parts[2]) {
				return
			}
		}
	}
}

func (l *inspection) podOfProcess(pid int) (string, bool) {
	for _, cgroup := range l.cgroups(pid) {
		if id, _, ok := podOf(cgroup); ok {
			return id, true
		}
	}
	return "", false
}

func (l *inspection) inFreezer(pid int) bool {
	for controllers, cgroup := range l.cgroups(pid) {
		if controllers == "freezer" {
			state := l.value(path.Join("/sys/fs/cgroup/freezer", cgroup), "freezer.state")
			return state != "" && strings.TrimSpace(state) != "THAWED"
		}
	}
	return false
}

func suspects(all map[int]process) map[int]process {
	suspects := map[int]process{}
	for pid, p := range all {
		if p.state == 'D' || p.isShim() && p.state == 'T' || p.state == 'Z' && all[p.parent].isShim() {
			suspects[pid] = p
		}
	}
	return suspects
}

// isShim works on a name that the kernel cut to 15 bytes.
func (p process) isShim() bool {
	return strings.HasPrefix(p.name, "containerd-shim") || p.name == "conmon"
}

// inspectProcesses checks twice, to skip states that pass.
func (l *inspection) inspectProcesses(ctx context.Context) {
	all := l.processes()
	previous := suspects(all)
	if len(previous) == 0 {
		return
	}
	select {
	case <-ctx.Done():
		l.report.AddUnseen("processes: %v", ctx.Err())
		return
	case <-time.After(l.RecheckAfter):
	}
	all = l.processes()
	current := suspects(all)
	for _, pid := range sortedKeys(current) {
		p := current[pid]
		if before, same := previous[pid]; !same || before.start != p.start || before.state != p.state {
			continue
		}
		switch {
		case p.isShim() && p.state == 'T': // the runtime waits for it to kill its pods
			for _, id := range l.podsOfShim(p.pid, all) {
				l.add(id, report.Finding{
					Cause: report.Stuck, Certainty: report.Will,
					Evidence: fmt.Sprintf("process %d (%s), the shim of its containers, is stopped (state T)", p.pid, p.name),
					Remedy:   fmt.Sprintf("kill -CONT %d", p.pid),
				})
			}
		case p.state == 'D' && l.inFreezer(p.pid):
			// It looks the same; its cgroup is reported instead.
		case p.state == 'D':
			if id, ok := l.podOfProcess(p.pid); ok {
				l.add(id, report.Finding{
					Cause: report.Stuck, Certainty: report.May,
					Evidence: fmt.Sprintf("process %d (%s) is in state D%s: no signal reaches it", p.pid, p.name, l.kernelFunction(p.pid)),
				})
			}
		default: // version 1 shows no cgroup of a zombie
			for _, id := range l.podsOfShim(p.parent, all) {
				l.add(id, report.Finding{
					Cause: report.Stuck, Certainty: report.May,
					Evidence: fmt.Sprintf("process %d (%s) is a zombie that its shim %d does not reap", p.pid, p.name, p.parent),
				})
			}
		}
	}
}

// podsOfShim returns the pods of the shim's children: no path names the pod of the shim itself.
func (l *inspection) podsOfShim(shim int, all map[int]process) (ids []string) {
	for _, pid := range sortedKeys(all) {
		if all[pid].parent != shim {
			continue
		}
		if id, ok := l.podOfProcess(pid); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// kernelFunction returns the kernel function that a process waits in, if readable (proc_pid_wchan(5)).
func (l *inspection) kernelFunction(pid int) string {
	text, _, err := l.read(fmt.Sprintf("/proc/%d/wchan", pid))
	if err != nil || text == "" || text == "0" {
		return ""
	}
	return ", in " + text
}

func (l *inspection) holders(dir, id string, all map[int]process) (holders []process) {
	for _, pid := range sortedKeys(all) {
		if len(holders) == maxHolders {
			break
		}
		if of, ok := l.podOfProcess(pid); ok && of == id {
			continue
		}
		if l.uses(pid, dir) {
			holders = append(holders, all[pid])
		}
	}
	return holders
}

const (
	maxHolders = 3
	maxLinks   = 1024 // per process
)

// uses reports whether a working directory, root or open file is in dir. It reads links of /proc without
// following them.
func (l *inspection) uses(pid int, dir string) bool {
	base := l.nodePath("/proc/" + strconv.Itoa(pid))
	links := []string{"cwd", "root"}
	if f, err := os.Open(path.Join(base, "fd")); err == nil {
		names, _ := f.Readdirnames(maxLinks)
		f.Close()
		for _, name := range names {
			links = append(links, "fd/"+name)
		}
	}
	return slices.ContainsFunc(links, func(link string) bool {
		to, err := os.Readlink(path.Join(base, link))
		return err == nil && isWithin(to, dir)
	})
}

func isWithin(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/')
}
