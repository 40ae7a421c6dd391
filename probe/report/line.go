package report

import (
	"fmt"
	"strings"

	"github.com/termguard/termguard/internal/printable"
)

// Whom is the pod that a finding is about.
func (f Finding) Whom() string {
	switch {
	case f.Pod == nil:
		return "every pod of this node"
	case f.Pod.Name == "":
		return "pod with UID " + f.Pod.UID
	}
	return "pod " + f.Pod.Namespace + "/" + f.Pod.Name
}

// maxLine is how many bytes node-problem-detector reads unless it is told otherwise
// (max_output_length, pkg/custompluginmonitor/types/config.go).
const maxLine = 80

// Line tells of the first finding, and how many there are: what a custom plugin of
// node-problem-detector says.
func (r Report) Line() string {
	all := r.Holding()
	if len(all) == 0 {
		return "nothing keeps pods from going"
	}
	more := ""
	if len(all)+r.Omitted > 1 {
		more = fmt.Sprintf(" (+%d)", len(all)+r.Omitted-1)
	}
	line := printable.Line(fmt.Sprintf("%s: %s", all[0].Cause, all[0].Whom()))
	if room := maxLine - len(more); len(line) > room {
		line = strings.ToValidUTF8(line[:room-len("…")], "") + "…"
	}
	return line + more
}
