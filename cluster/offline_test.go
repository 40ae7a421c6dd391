package cluster

import (
	"bytes"
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

// A snapshot that was cut off is an error wherever that happened.
func TestTruncatedSnapshot(t *testing.T) {
	var whole bytes.Buffer
	if err := NewWorld(Options{}).WriteSnapshot(&whole); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(whole.String())
	if _, err := ReadSnapshot(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) {
		if _, err := ReadSnapshot(strings.NewReader(text[:cut])); err == nil {
			t.Fatalf("no error for the first %d of %d bytes", cut, len(text))
		}
	}
}
