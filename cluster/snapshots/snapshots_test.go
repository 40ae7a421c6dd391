package snapshots

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

// A snapshot above the size limit is not read into memory.
func TestEnormousSnapshot(t *testing.T) {
	text := `{"apiVersion": "termguard.dev/v1", "kind": "Facts", "namespaces": {"` + strings.Repeat("a", 2<<20) + `": {}}}`
	if _, err := read(strings.NewReader(text), 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("error %v, want one about its size", err)
	}
	if _, err := read(strings.NewReader(text), 3<<20); err != nil {
		t.Error(err)
	}
}

// A truncated snapshot is an error wherever it ends.
func TestTruncatedSnapshot(t *testing.T) {
	var whole bytes.Buffer
	if err := Write(cluster.NewWorld(cluster.Options{}), &whole); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(whole.String())
	if _, err := Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) {
		if _, err := Read(strings.NewReader(text[:cut])); err == nil {
			t.Fatalf("no error for the first %d of %d bytes", cut, len(text))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","kind":"Facts","unseen":[]}`))
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","kind":"Facts","finalizers":{"a":{"b":1}}}`))
	about := question.Target{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "B"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "b"}, Name: "x",
		Object: map[string]any{"metadata": map[string]any{"name": "x", "finalizers": []any{"a"}}},
	}.Delete(nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		w.Ask(about, func(m cluster.Moment) { m.Input() })
	})
}
