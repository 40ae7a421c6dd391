package report

import (
	"fmt"
	"strings"

	"github.com/termguard/termguard/internal/printable"
)

// Whom names the pod of a finding.
func (f Finding) Whom() string {
	switch {
	case f.Pod == nil:
		return "every pod of this node"
	case f.Pod.Name == "":
		return "pod with UID " + f.Pod.UID
	}
	return "pod " + f.Pod.Namespace + "/" + f.Pod.Name
}

// maxLine is the number of bytes that node-problem-detector reads by default (max_output_length,
// pkg/custompluginmonitor/types/config.go).
const maxLine = 80

// Line returns the first finding and the number of others, as output for a custom plugin of
// node-problem-detector.
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
