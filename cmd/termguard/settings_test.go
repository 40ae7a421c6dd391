package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// TestPoliciesOfBundle checks that --policies of commands other than the webhook accepts folders only.
func TestPoliciesOfBundle(t *testing.T) {
	race.Skip(t)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := run(t.Context(), []string{"termguard", "policy", "list", "--policies", file}, strings.NewReader(""), &out, &errs)
	if want := file + " is a file: name a folder with policies"; code != exitFailed || !strings.Contains(errs.String(), want) {
		t.Errorf("a command that takes no bundles: exit %d: %s%s, want %q", code, out.String(), errs.String(), want)
	}
}
