package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/bundletest"
)

// TestPoliciesOfBundle holds that --policies takes a bundle that is signed by the key, as
// it takes a folder.
func TestPoliciesOfBundle(t *testing.T) {
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
	set, err := f.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(set.IDs(), "our-mount") {
		t.Errorf("the policy of the bundle is not among %v", set.IDs())
	}
	f.key = bundletest.KeyFile(t, "another")
	if _, err := f.load(t.Context()); err == nil {
		t.Error("a bundle that somebody else signed is taken")
	}
}

// TestPoliciesFromElsewhere holds that a bundle is downloaded once for a command, that it must
// be signed, and that neither a key that is pressed nor a repository makes one be downloaded.
func TestPoliciesFromElsewhere(t *testing.T) {
	rule, err := os.ReadFile("../../policies/busy_mount/busy_mount.rego")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("busy-mount", "our-mount", "termguard.busy_mount", "termguard.our_mount").Replace(string(rule))
	r := bundletest.NewRegistry(t)
	if _, err := r.Push(t.Context(), "team/policies:1", bundletest.Archive(t, "secret", map[string]string{"/ours/our_mount/our_mount.rego": own}), ""); err != nil {
		t.Fatal(err)
	}
	r.Asked()
	address := "oci://" + r.Host + "/team/policies:1"
	f := settingsFlags{policies: []string{address}, algorithm: "HS256"}
	if _, err := f.load(t.Context()); err == nil || !strings.Contains(err.Error(), "it must be signed: name the key by --verification-key") || len(r.Asked()) > 0 {
		t.Errorf("without a key: %v", err)
	}
	f.key = bundletest.KeyFile(t, "secret")
	if ids, _ := f.completeID(nil, nil, "busy"); !slices.Equal(ids, []string{"busy-mount"}) || len(r.Asked()) > 0 {
		t.Errorf("it completes %q, and asks the registry", ids)
	}
	for range 2 {
		set, err := f.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(set.IDs(), "our-mount") {
			t.Errorf("the policy of the bundle is not among %v", set.IDs())
		}
	}
	if asked := r.Asked(); len(asked) != 3 {
		t.Errorf("it asks %q, want the digest, the manifest and the bundle", asked)
	}
	repository := t.TempDir()
	if err := os.WriteFile(filepath.Join(repository, ".termguard.yaml"), []byte("apiVersion: termguard.dev/v1\nkind: LintConfig\npolicies: ["+address+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := run(t.Context(), []string{"termguard", "lint", repository, "--verification-key", f.key, "--signing-alg", "HS256"}, strings.NewReader(""), &out, &errs)
	if asked := r.Asked(); code != exitFailed || len(asked) > 0 || !strings.Contains(errs.String(), "no such file") {
		t.Errorf("a repository that names a bundle elsewhere: exit %d, asked %q: %s%s", code, asked, out.String(), errs.String())
	}
}

// TestInterruptedDownload holds that Ctrl-C ends the wait for a server that never answers.
func TestInterruptedDownload(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer server.Close()
	f := settingsFlags{policies: []string{server.URL + "/bundle.tar.gz"}, key: bundletest.KeyFile(t, "secret"), algorithm: "HS256"}
	if _, err := f.load(ctx); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("it ends with %v", err)
	}
}
