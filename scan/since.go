package scan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/termguard/termguard/policies"
)

// Changes are what differs from an earlier scan.
type Changes struct {
	// At is when that one was.
	At string `json:"at"`
	// New and Gone are the ids of causes, and Changed those that hold more or fewer.
	New     []string `json:"new"`
	Gone    []string `json:"gone"`
	Changed []Change `json:"changed"`
	// Objects that did not complete in one of the two, or did so otherwise.
	Objects []ObjectChange `json:"objects"`
}

// Change is a cause that holds more or fewer than before.
type Change struct {
	Cause string `json:"cause"`
	Held  int    `json:"held"` // before
	Holds int    `json:"holds"`
}

// ObjectChange is an object whose answer changed; "" for one that completes, or is gone.
type ObjectChange struct {
	Target policies.Object  `json:"target"`
	Was    policies.Verdict `json:"was,omitempty"`
	Is     policies.Verdict `json:"is,omitempty"`
}

// ErrNotScan is returned for input that is no scan of this version.
var ErrNotScan = errors.New("not a scan of termguard.dev/v1 (make one with: termguard scan -o json)")

// maxScan bounds an earlier scan, in bytes: one of 100,000 held objects is smaller by half.
const maxScan = 256 << 20

// Read reads an earlier scan, as -o json writes it.
func Read(in io.Reader) (*Scan, error) {
	bounded := &io.LimitedReader{R: in, N: maxScan + 1}
	var s Scan
	if err := json.NewDecoder(bounded).Decode(&s); err != nil {
		if bounded.N <= 0 {
			return nil, fmt.Errorf("larger than %d MiB: %w", maxScan>>20, ErrNotScan)
		}
		return nil, fmt.Errorf("%w: %w", ErrNotScan, err)
	}
	if s.APIVersion != "termguard.dev/v1" || s.Kind != "Scan" {
		return nil, fmt.Errorf("%w: it has apiVersion %q, kind %q", ErrNotScan, s.APIVersion, s.Kind)
	}
	return &s, nil
}

// Compare tells what changed since an earlier scan. What one of them did not ask about
// counts as unchanged.
func (s *Scan) Compare(before *Scan) {
	changes := &Changes{At: before.At, New: []string{}, Gone: []string{}, Changed: []Change{}, Objects: []ObjectChange{}}
	had := map[string]int{}
	for _, c := range before.Causes {
		had[c.ID] = c.Holds
	}
	for _, c := range s.Causes {
		held, known := had[c.ID]
		switch {
		case !known:
			changes.New = append(changes.New, c.ID)
		case held != c.Holds:
			changes.Changed = append(changes.Changed, Change{c.ID, held, c.Holds})
		}
		delete(had, c.ID)
	}
	for _, c := range before.Causes {
		if _, still := had[c.ID]; still {
			changes.Gone = append(changes.Gone, c.ID)
		}
	}
	both := func(kind Kind) bool {
		asked := func(s *Scan) bool { return slices.ContainsFunc(s.Asked, func(c Count) bool { return c.Kind == kind }) }
		return asked(s) && asked(before) || kind == Terminating
	}
	was := map[policies.Object]Item{}
	for _, item := range before.Items {
		was[item.Target] = item
	}
	for _, item := range s.Items {
		old := was[item.Target]
		delete(was, item.Target)
		if old.Verdict != item.Verdict && both(item.Kind) {
			changes.Objects = append(changes.Objects, ObjectChange{item.Target, old.Verdict, item.Verdict})
		}
	}
	for _, item := range before.Items {
		if _, still := was[item.Target]; still && both(item.Kind) {
			changes.Objects = append(changes.Objects, ObjectChange{Target: item.Target, Was: item.Verdict})
		}
	}
	s.Since = changes
}
