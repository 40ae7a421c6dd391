package probe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/probe/report"
)

// maxMounts is fs.mount-max, the kernel's default.
const maxMounts = 100_000

// mount is a line of proc_pid_mountinfo(5).
type mount struct {
	point, kind, source string
	readOnly            bool
}

func parseMount(line string) (mount, error) {
	fields := strings.Fields(line)
	end := slices.Index(fields, "-")
	if end < 6 || len(fields) < end+4 {
		return mount{}, errors.New("not a line of mountinfo")
	}
	return mount{
		point: unescape(fields[4]), kind: fields[end+1], source: unescape(fields[end+2]),
		readOnly: hasOption(fields[5], "ro") || hasOption(fields[end+3], "ro"),
	}, nil
}

func hasOption(options, option string) bool {
	return slices.Contains(strings.Split(options, ","), option)
}

// unescape decodes the octal escapes that the kernel writes, such as \040.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// readMounts reads the mounts of process 1, whose mount namespace the kubelet shares.
func (l *inspection) readMounts() {
	text, whole, err := l.read("/proc/1/mountinfo")
	if err != nil {
		l.report.AddUnseen("mounts: %v", err)
		return
	}
	for line := range strings.Lines(text) {
		if len(l.mounts) == maxMounts {
			whole = false
			break
		}
		if m, err := parseMount(strings.TrimSuffix(line, "\n")); err == nil {
			l.mounts = append(l.mounts, m)
		}
	}
	if !whole {
		l.report.AddUnseen("mounts: there are more than %d", len(l.mounts))
	}
}

// splitVolume splits a path KUBELET/pods/UID/volumes/PLUGIN/NAME/REST (pkg/kubelet/kubelet_getters.go).
func (l *inspection) splitVolume(name string) (id, dir, rest string, ok bool) {
	below, ok := strings.CutPrefix(name, l.Kubelet+"/pods/")
	if !ok {
		return "", "", "", false
	}
	parts := strings.SplitN(below, "/", 5)
	if len(parts) < 4 || parts[1] != "volumes" || !uid.MatchString(parts[0]) {
		return "", "", "", false
	}
	dir = l.Kubelet + "/pods/" + strings.Join(parts[:4], "/")
	if len(parts) == 5 {
		rest = parts[4]
	}
	if parts[2] == "kubernetes.io~csi" { // at NAME/mount (pkg/volume/csi/csi_util.go, GetCSIMounterPath)
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "mount"), "/")
	}
	return parts[0], dir, rest, true
}

// inspectMounts finds mounts inside volumes, which the kubelet does not unmount, and mounted volumes that
// other processes use.
func (l *inspection) inspectMounts() {
	var all map[int]process
	for _, m := range l.mounts {
		id, _, rest, ok := l.splitVolume(m.point)
		if _, here := l.pods[id]; !ok || !here {
			continue
		}
		if rest != "" {
			l.add(id, report.Finding{
				Cause: report.Busy, Certainty: report.Will,
				Evidence: fmt.Sprintf("%s is mounted at %s, within a volume", m.kind, m.point),
				Remedy:   command("umount", m.point),
			})
			continue
		}
		if all == nil {
			all = l.processes()
		}
		for _, holder := range l.holders(m.point, id, all) {
			l.add(id, report.Finding{
				Cause: report.Busy, Certainty: report.May,
				Evidence: fmt.Sprintf("process %d (%s), which is not the pod's, works in its volume %s", holder.pid, holder.name, m.point),
				Remedy:   fmt.Sprintf("kill %d", holder.pid),
			})
		}
	}
}

// command returns "" for unprintable characters.
func command(verb, name string) string {
	if printable.Line(name) != name {
		return ""
	}
	return verb + " " + shell.Quote(name)
}

func (l *inspection) mountOf(name string) (top mount, ok bool) {
	for _, m := range l.mounts { // a later mount at one point covers the earlier
		if (m.point == "/" || isWithin(name, m.point)) && len(m.point) >= len(top.point) {
			top, ok = m, true
		}
	}
	return top, ok
}

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
