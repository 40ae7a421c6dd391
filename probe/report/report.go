// Package report is what a node probe writes and the facts read: its shape, its
// bounds, and the ConfigMap that holds it. It looks at nothing itself.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// Label is on the ConfigMaps that hold reports, Prefix begins their name, and
	// the node's name ends it: a Role or an admission policy can name the one that
	// the probe of a node may write. Key is where the report stands in it.
	Label  = "termguard.dev/probe"
	Prefix = "termguard-probe-"
	Key    = "report.json"

	// MaxSize bounds a report that is read, in bytes, MaxFindings what it holds, and
	// MaxText each text in it, in bytes: 100 findings with two paths of 255 bytes
	// to the name stay far below the 1 MiB of a ConfigMap.
	MaxSize     = 256 << 10
	MaxFindings = 100
	MaxText     = 1024

	apiVersion = "termguard.dev/v1"
	kind       = "Probe"
)

// Report is what one look at a node found, apiVersion termguard.dev/v1, kind Probe.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Node is its name in the cluster, "" where nobody said.
	Node string `json:"node,omitempty"`
	// Time is when the look ended, by the node's clock.
	Time time.Time `json:"time"`
	// Pods and Files are how many were looked at.
	Pods  int `json:"pods"`
	Files int `json:"files"`
	// Findings are at most MaxFindings; Omitted counts the others.
	Findings []Finding `json:"findings"`
	Omitted  int       `json:"omitted,omitempty"`
	// Unseen is what was not looked at, and why.
	Unseen []string `json:"unseen"`
}

// Cause is what keeps a pod from going.
type Cause string

// The causes, each of which one policy reads.
const (
	Immutable Cause = "immutable" // a file that nobody can remove
	Busy      Cause = "busy"      // a mount that is in the way, or in use
	Stuck     Cause = "stuck"     // processes that cannot be killed
	Runtime   Cause = "runtime"   // the container runtime does not answer
	Full      Cause = "full"      // a file system is full
	ReadOnly  Cause = "readOnly"  // the kubelet cannot remove directories
)

// Certainty is how surely a deletion hangs.
type Certainty string

// The certainties.
const (
	Will Certainty = "will"
	May  Certainty = "may"
	Note Certainty = "note" // worth knowing, and no reason to hang
)

// Finding is one thing that is wrong on a node.
type Finding struct {
	Cause     Cause     `json:"cause"`
	Certainty Certainty `json:"certainty"`
	// Pod is whom it concerns: nil for all pods of the node.
	Pod *Pod `json:"pod,omitempty"`
	// Evidence names the file, the process or the mount.
	Evidence string `json:"evidence"`
	// Remedy is what to run on the node, "" if nothing is to be run.
	Remedy string `json:"remedy,omitempty"`
}

// Pod is one that is on the node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// New is an empty report.
func New(node string) Report {
	return Report{APIVersion: apiVersion, Kind: kind, Node: node, Findings: []Finding{}, Unseen: []string{}}
}

// Add takes in a finding, within the bounds. Notes take no more than half of them.
func (r *Report) Add(f Finding) {
	if len(r.Findings) == MaxFindings || f.Certainty == Note && len(r.Findings) >= MaxFindings/2 {
		r.Omitted++
		return
	}
	f.Evidence = shorten(f.Evidence)
	if len(f.Remedy) > MaxText {
		f.Remedy = "" // half a command is none
	}
	r.Findings = append(r.Findings, f)
}

// Miss notes what was not looked at.
func (r *Report) Miss(format string, args ...any) {
	if len(r.Unseen) < MaxFindings {
		r.Unseen = append(r.Unseen, shorten(fmt.Sprintf(format, args...)))
	}
}

// Holding are the findings that may keep a pod from going.
func (r Report) Holding() (all []Finding) {
	for _, f := range r.Findings {
		if f.Certainty != Note {
			all = append(all, f)
		}
	}
	return all
}

// Decode reads a report of a node and holds it to its bounds. Unknown fields are
// ignored: they are those of a newer probe.
func Decode(text []byte, node string) (Report, error) {
	if len(text) > MaxSize {
		return Report{}, fmt.Errorf("the report has %d bytes: more than %d", len(text), MaxSize)
	}
	var r Report
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Report{}, errors.New("read the report: something follows it")
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

// NodeOf is the node that a ConfigMap of this name is about.
func NodeOf(configMap string) (node string, ok bool) {
	node, ok = strings.CutPrefix(configMap, Prefix)
	return node, ok && node != ""
}

// shorten keeps a text within MaxText, in whole characters.
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
