package sets

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/page"
)

// Log collects what a run reports beside findings.
type Log struct {
	mu      sync.Mutex
	stopped bool
	notes   map[Note][]string

	Problems []files.Problem
	Marks    []files.Mark
	Counts   Counts
}

// Counts count the input.
type Counts struct {
	Files     int `json:"files"`
	Documents int `json:"documents"`
	Objects   int `json:"objects"`
	Skipped   int `json:"skipped"` // no Kubernetes objects
	Tests     int `json:"tests"`   // left out, as only tests read them
}

func (l *Log) Stop() {
	l.Record(func() { l.stopped = true })
}

// Record changes results under the lock of l, unless the run was stopped.
func (l *Log) Record(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		change()
	}
}

func (l *Log) AddProblem(at files.Place, message string) {
	l.Record(func() { l.Problems = append(l.Problems, files.Problem{Place: at, Message: message}) })
}

func (l *Log) AddNote(kind Note, name string) {
	l.Record(func() {
		if l.notes == nil {
			l.notes = map[Note][]string{}
		}
		l.notes[kind] = append(l.notes[kind], name)
	})
}

// Note is a kind of note, in the order of the result.
type Note int

const (
	unrenderedChart         Note = iota // a folder
	unrenderedKustomization             // a folder
	renderingOff                        // why
	remoteKustomization                 // a folder
	renderFailure                       // a folder, and why
	partlyRendered                      // a chart, and why
	Template                            // a file
	IncompleteWebhooks                  // a webhook configuration
	PatchedWebhooks                     // a webhook configuration
	snippet                             // a place
	UserPolicy                          // the id of a custom policy
	RedactedSnapshot                    // a file
	UnknownOwner                        // for each object
)

// noteTexts have COUNT for the number of names with the noun, NAMES for some and FIRST for the first. One is
// for a single name.
var noteTexts = [...]struct{ noun, text, one string }{
	unrenderedChart:         {"Helm chart", "the templates of COUNT were skipped: helm template FIRST | termguard lint -", ""},
	unrenderedKustomization: {"kustomization", "COUNT read as the files stand, without patches: kubectl kustomize FIRST | termguard lint -", ""},
	renderingOff:            {"", "nothing is rendered, as FIRST", ""},
	remoteKustomization:     {"kustomization", "COUNT (NAMES) read as the files stand, without patches: other files that they need are not in the repository, and nothing is fetched", ""},
	renderFailure:           {"charts and kustomization", "COUNT could not be rendered, and are read as their files stand: NAMES", "1 chart or kustomization could not be rendered, and is read as its files stand: NAMES"},
	partlyRendered:          {"chart", "COUNT rendered without what is missing: NAMES", ""},
	Template:                {"template", "COUNT skipped (NAMES): render first, as in helm template CHART | termguard lint -", ""},
	IncompleteWebhooks:      {"webhook configuration", "the requests that COUNT (NAMES) matches are unknown: the rules are filled in at run time", ""},
	PatchedWebhooks:         {"webhook configuration", "the requests that COUNT (NAMES) matches are unknown: a kustomization patches the rules, and was not rendered", ""},
	snippet:                 {"document", "COUNT cannot be read as YAML, and do not look like manifests: NAMES", "COUNT cannot be read as YAML, and does not look like a manifest: NAMES"},
	UserPolicy:              {"", "not evaluated, because they read the user, which no manifest names: NAMES: run termguard check --policies", ""},
	RedactedSnapshot:        {"", "FIRST is redacted: it lacks texts, ConfigMaps and certificates that policies read", ""},
	UnknownOwner:            {"object", "only a cluster shows whether the owners of the finalizers of COUNT run (NAMES): add --snapshot", ""},
}

// Notes returns notes about the whole run, such as skipped inputs and how to include them.
func (l *Log) Notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := []string{}
	for kind, note := range noteTexts {
		names := slices.Sorted(slices.Values(l.notes[Note(kind)]))
		if Note(kind) == PatchedWebhooks { // noted by each alternative
			names = slices.Compact(names)
		}
		if len(names) == 0 {
			continue
		}
		text := note.text
		if len(names) == 1 {
			text = cmp.Or(note.one, text)
		}
		texts = append(texts, strings.NewReplacer("COUNT", page.Count(len(names), note.noun), "NAMES", JoinFirst(names), "FIRST", names[0]).Replace(text))
	}
	return texts
}

// JoinFirst names the first three different names.
func JoinFirst(names []string) string {
	return page.List(slices.Compact(slices.Sorted(slices.Values(names))), 3)
}

// maxReason bounds an error in a note, in bytes, from its end: libraries write the cause last.
const maxReason = 240

func (l *Log) noteFailure(name string, err error) { l.noteReason(renderFailure, name, err.Error()) }

func (l *Log) noteReason(kind Note, name, reason string) {
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxReason {
		reason = "… " + strings.ToValidUTF8(reason[len(reason)-maxReason:], "")
	}
	l.AddNote(kind, name+": "+reason)
}
