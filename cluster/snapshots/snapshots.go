// Package snapshots writes the facts about a cluster to a file, and reads them back.
package snapshots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/termguard/termguard/cluster"
)

// Write writes the facts as JSON.
func Write(w *cluster.World, out io.Writer) error {
	var err error
	w.View(func(doc map[string]any) {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(doc)
	})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ErrNot is returned for input that is no facts document of this version.
var ErrNot = errors.New("not a snapshot of termguard.dev/v1 (make one with: termguard snapshot)")

// mostFacts bounds a snapshot, in bytes. One of 1,000,000 objects, 1 % of them with finalizers, is smaller by an
// order of magnitude.
const mostFacts = 1 << 30

// Read returns the facts that Write wrote, which take in no further objects.
func Read(in io.Reader) (*cluster.World, error) { return read(in, mostFacts) }

func read(in io.Reader, limit int64) (*cluster.World, error) {
	var doc map[string]any
	bounded := &io.LimitedReader{R: in, N: limit + 1}
	if err := json.NewDecoder(bounded).Decode(&doc); err != nil {
		if bounded.N <= 0 {
			return nil, fmt.Errorf("read snapshot: larger than %d MiB: make one of fewer namespaces, with termguard snapshot -n", limit>>20)
		}
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrNot, err)
	}
	w, err := cluster.FromDocument(doc)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrNot, err)
	}
	return w, nil
}
