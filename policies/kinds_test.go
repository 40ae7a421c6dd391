package policies_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster"
)

// TestKinds compares the kinds that METADATA may name with their table. UPDATE_GOLDEN=1 writes
// them.
func TestKinds(t *testing.T) {
	var want []string
	for _, k := range cluster.Builtin() {
		want = append(want, k.String())
	}
	slices.Sort(want)
	want = slices.Compact(want)
	text := "[\n  \"" + strings.Join(want, "\",\n  \"") + "\"\n]\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("kinds.json", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile("kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds.json is out of date (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", diff)
	}
}
