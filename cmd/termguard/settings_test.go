package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/internal/race"
)

// TestPoliciesOfBundle checks that --policies of the webhook accepts a folder and a bundle that the
// key signed, and that --policies of other commands accepts folders only.
func TestPoliciesOfBundle(t *testing.T) {
	race.Skip(t)
	rule, err := os.ReadFile("../../policies/busy_mount/busy_mount.rego")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("busy-mount", "our-mount", "termguard.busy_mount", "termguard.our_mount").Replace(string(rule))
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(file, bundletest.Archive(t, "secret", map[string]string{"/ours/our_mount/our_mount.rego": own}), 0o600); err != nil {
		t.Fatal(err)
	}
	f := settingsFlags{policies: []string{file}, key: bundletest.KeyFile(t, "secret"), algorithm: "HS256"}
	set, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(set.IDs(), "our-mount") {
		t.Errorf("the bundle's policy is missing from %v", set.IDs())
	}
	f.key = bundletest.KeyFile(t, "another")
	if _, err := f.load(); err == nil {
		t.Error("a bundle signed by another key was accepted")
	}
	var out, errs strings.Builder
	code := run(t.Context(), []string{"termguard", "policy", "list", "--policies", file}, strings.NewReader(""), &out, &errs)
	if want := file + " is a file: name a folder with policies"; code != exitFailed || !strings.Contains(errs.String(), want) {
		t.Errorf("a command that takes no bundles: exit %d: %s%s, want %q", code, out.String(), errs.String(), want)
	}
}
