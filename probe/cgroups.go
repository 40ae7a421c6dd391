package probe

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/termguard/termguard/probe/report"
)

const maxCgroups = 20_000

func (l *inspection) inspectCgroups() {
	root, frozen := "sys/fs/cgroup/freezer", l.reportFrozenV1
	if _, err := fs.Stat(l.node, "sys/fs/cgroup/cgroup.controllers"); err == nil {
		root, frozen = "sys/fs/cgroup", l.reportFrozenV2
	}
	seen := 0
	err := fs.WalkDir(l.node, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == root {
				return err
			}
			return fs.SkipDir // removed meanwhile
		}
		if !d.IsDir() {
			return nil
		}
		if seen++; seen > maxCgroups {
			l.report.AddUnseen("cgroups: there are more than %d", maxCgroups)
			return fs.SkipAll
		}
		if id, rest, ok := podOf(name); ok {
			frozen(id, rest, name)
		}
		return nil
	})
	if err != nil {
		l.report.AddUnseen("cgroups: %v", err)
	}
}

// reportFrozenV1 reports a frozen cgroup, whose processes cannot be killed; under a frozen ancestor only the
// pod's. To kill a container, runc thaws the container's cgroup and no other.
func (l *inspection) reportFrozenV1(id, rest, name string) {
	self, _, err := l.read(path.Join(name, "freezer.self_freezing"))
	above := rest == "" && err == nil && strings.TrimSpace(l.value(name, "freezer.parent_freezing")) == "1"
	if err != nil || strings.TrimSpace(self) != "1" && !above {
		return
	}
	f := report.Finding{
		Cause: report.Stuck, Certainty: report.Will,
		Evidence: fmt.Sprintf("cgroup /%s is frozen (freezer.state): nothing in it can be killed", name),
		Remedy:   command("echo THAWED >", "/"+path.Join(name, "freezer.state")),
	}
	switch {
	case above:
		f.Evidence, f.Remedy = fmt.Sprintf("a cgroup above /%s is frozen (freezer.state): nothing in it can be killed", name), ""
	case rest != "" && !strings.Contains(rest, "/"):
		f.Certainty, f.Remedy = report.Note, ""
		f.Evidence = fmt.Sprintf("cgroup /%s, of a container, is frozen (freezer.state): runc thaws it to kill what is in it", name)
	}
	l.add(id, f)
}

// reportFrozenV2 reports a frozen cgroup, whose processes end on SIGKILL, and on SIGTERM unless they handle it
// (Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze).
func (l *inspection) reportFrozenV2(id, _, name string) {
	if strings.TrimSpace(l.value(name, "cgroup.freeze")) != "1" {
		return
	}
	l.add(id, report.Finding{
		Cause: report.Stuck, Certainty: report.Note,
		Evidence: fmt.Sprintf("cgroup /%s is frozen (cgroup.freeze): its processes end when their grace period does, at the latest", name),
	})
}

func (l *inspection) value(cgroup, file string) string {
	text, _, _ := l.read(path.Join(cgroup, file)) // "" if removed
	return text
}
