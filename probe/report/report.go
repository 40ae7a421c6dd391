// Package report defines the report of the node probe.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
)

const (
	// Label marks the ConfigMaps that hold reports, under Key. Their names are Prefix and the node's name, so
	// a Role or an admission policy can restrict a probe to its own.
	Label  = "termguard.dev/probe"
	Prefix = "termguard-probe-"
	Key    = "report.json"

	// MaxSize, and MaxText for each text, are in bytes. 100 findings with two paths of 255 bytes each stay far
	// below the 1 MiB of a ConfigMap.
	MaxSize     = 256 << 10
	MaxFindings = 100
	MaxText     = 1024

	apiVersion = "termguard.dev/v1"
	kind       = "Probe"
)

// Report is the result of one inspection of a node.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Node       string `json:"node,omitempty"`
	// Time is the end of the inspection, by the node's clock.
	Time  time.Time `json:"time"`
	Pods  int       `json:"pods"`
	Files int       `json:"files"`
	// Findings holds at most MaxFindings; Omitted counts the rest.
	Findings []Finding `json:"findings"`
	Omitted  int       `json:"omitted,omitempty"`
	// Unseen lists omissions, with reasons.
	Unseen []string `json:"unseen"`
}

// Cause is the reason that a pod does not terminate; one policy reads each.
type Cause string

const (
	Immutable Cause = "immutable" // a file that cannot be removed
	Busy      Cause = "busy"      // a mount in the way or in use
	Stuck     Cause = "stuck"
	Runtime   Cause = "runtime"
	Full      Cause = "full"
	ReadOnly  Cause = "readOnly" // the kubelet cannot remove directories
)

// Certainty is how surely a deletion hangs.
type Certainty string

const (
	Will Certainty = "will"
	May  Certainty = "may"
	Note Certainty = "note" // does not block a deletion
)

// Finding is one problem of a node.
type Finding struct {
	Cause     Cause     `json:"cause"`
	Certainty Certainty `json:"certainty"`
	// Pod is nil for all pods of the node.
	Pod      *Pod   `json:"pod,omitempty"`
	Evidence string `json:"evidence"`
	// Remedy is a command to run on the node, or "".
	Remedy string `json:"remedy,omitempty"`
}

// Pod is a pod on the node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// New returns an empty report.
func New(node string) Report {
	return Report{APIVersion: apiVersion, Kind: kind, Node: node, Findings: []Finding{}, Unseen: []string{}}
}

// Add adds a finding, within the limits; notes take at most half of them.
func (r *Report) Add(f Finding) {
	if len(r.Findings) == MaxFindings || f.Certainty == Note && len(r.Findings) >= MaxFindings/2 {
		r.Omitted++
		return
	}
	f.Evidence = shorten(f.Evidence)
	if len(f.Remedy) > MaxText {
		f.Remedy = "" // a truncated command is useless
	}
	r.Findings = append(r.Findings, f)
}

// AddUnseen records something that was not inspected.
func (r *Report) AddUnseen(format string, args ...any) {
	if len(r.Unseen) < MaxFindings {
		r.Unseen = append(r.Unseen, shorten(fmt.Sprintf(format, args...)))
	}
}

// Blocking returns the findings that may keep a pod from terminating.
func (r Report) Blocking() (all []Finding) {
	for _, f := range r.Findings {
		if f.Certainty != Note {
			all = append(all, f)
		}
	}
	return all
}

// Read reads the report in a ConfigMap, with the time of the managed fields if present: a node's clock may be
// wrong.
func Read(cm *corev1.ConfigMap) (Report, error) {
	node, ok := NodeOf(cm.Name)
	if !ok {
		return Report{}, fmt.Errorf("ConfigMap %s: its name does not begin with %s", cm.Name, Prefix)
	}
	r, err := Decode([]byte(cm.Data[Key]), node)
	if err != nil {
		return Report{}, fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	var written metav1.Time
	for _, m := range cm.ManagedFields {
		if m.Time != nil && written.Before(m.Time) {
			written = *m.Time
		}
	}
	if !written.IsZero() {
		r.Time = written.Time
	}
	return r, nil
}

// Decode parses a report within the limits. It ignores unknown fields, which a newer probe may write.
func Decode(text []byte, node string) (Report, error) {
	if len(text) > MaxSize {
		return Report{}, fmt.Errorf("the report has %d bytes: more than %d", len(text), MaxSize)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	switch {
	case r.APIVersion != apiVersion || r.Kind != kind:
		return Report{}, fmt.Errorf("it is %q of %q: want %s of %s", r.Kind, r.APIVersion, kind, apiVersion)
	case r.Node != node:
		return Report{}, fmt.Errorf("it is about node %q: want %q", r.Node, node)
	case len(r.Findings) > MaxFindings:
		return Report{}, fmt.Errorf("it has %d findings: more than %d", len(r.Findings), MaxFindings)
	}
	for i := range r.Findings {
		r.Findings[i].Evidence, r.Findings[i].Remedy = shorten(r.Findings[i].Evidence), shorten(r.Findings[i].Remedy)
	}
	return r, nil
}

// NodeOf returns the node of a ConfigMap, by its name.
func NodeOf(configMap string) (node string, ok bool) {
	node, ok = strings.CutPrefix(configMap, Prefix)
	return node, ok && node != ""
}

func shorten(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Subject names the pod of a finding.
func (f Finding) Subject() string {
	switch {
	case f.Pod == nil:
		return "every pod of this node"
	case f.Pod.Name == "":
		return "pod with UID " + f.Pod.UID
	}
	return "pod " + f.Pod.Namespace + "/" + f.Pod.Name
}

var verdicts = map[Certainty]struct {
	word string
	tone page.Tone
}{Will: {"will hang", page.Bad}, May: {"may hang", page.Doubtful}, Note: {"note", page.Plain}}

// Page is the report for people.
func (r Report) Page() *page.Page {
	var p page.Page
	for _, f := range r.Findings {
		verdict := verdicts[f.Certainty]
		p.Verdict(f.Subject()+": ", verdict.word, verdict.tone, fmt.Sprintf(": %s [%s]", f.Evidence, f.Cause))
		if f.Remedy != "" {
			p.Item("  ", "%s", f.Remedy)
		}
	}
	if r.Omitted > 0 {
		p.Line("%s", page.More(r.Omitted, ""))
	}
	p.Line("inspected %d pods and %d files", r.Pods, r.Files)
	for _, u := range r.Unseen {
		p.Line("unseen: %s", u)
	}
	return &p
}

// maxLine is the default of node-problem-detector, in bytes (max_output_length,
// pkg/custompluginmonitor/types/config.go).
const maxLine = 80

// Line returns the first finding and the number of others, for a custom plugin of node-problem-detector.
func (r Report) Line() string {
	all := r.Blocking()
	if len(all) == 0 {
		return "nothing blocks the deletion of pods"
	}
	more := ""
	if len(all)+r.Omitted > 1 {
		more = fmt.Sprintf(" (+%d)", len(all)+r.Omitted-1)
	}
	line := printable.Line(fmt.Sprintf("%s: %s", all[0].Cause, all[0].Subject()))
	if room := maxLine - len(more); len(line) > room {
		line = strings.ToValidUTF8(line[:room-len("…")], "") + "…"
	}
	return line + more
}
