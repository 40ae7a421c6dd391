package cluster

import (
	"strings"
	"testing"
)

// A snapshot that is larger than any is not read into memory.
func TestEnormousSnapshot(t *testing.T) {
	text := `{"apiVersion": "termguard.dev/v1", "kind": "Facts", "namespaces": {"` + strings.Repeat("a", 2<<20) + `": {}}}`
	if _, err := readSnapshot(strings.NewReader(text), 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("error %v, want one about its size", err)
	}
	if _, err := readSnapshot(strings.NewReader(text), 3<<20); err != nil {
		t.Error(err)
	}
}
