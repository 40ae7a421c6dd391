package policies

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDoc holds that the pages are those that Doc writes. UPDATE_GOLDEN=1
// writes them.
func TestDoc(t *testing.T) {
	set, err := load(true, Embedded()) // the index may be older
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Policies() {
		page := filepath.Join(p.Folder, "README.md")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(page, Doc(p), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Errorf("%v (write it with: UPDATE_GOLDEN=1 go test ./policies)", err)
			continue
		}
		if diff := cmp.Diff(string(Doc(p)), string(got)); diff != "" {
			t.Errorf("%s is out of date (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", page, diff)
		}
	}
}
