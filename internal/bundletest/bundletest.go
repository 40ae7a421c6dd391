// Package bundletest makes OPA bundles for tests.
package bundletest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// Archive returns a bundle as opa build makes it, signed unless secret is "". later is appended to each file
// after signing.
func Archive(t testing.TB, secret string, files map[string]string, later ...string) []byte {
	t.Helper()
	b := bundle.Bundle{Data: map[string]any{}}
	b.Manifest.Init()
	for name, text := range files {
		b.Modules = append(b.Modules, bundle.ModuleFile{URL: name, Path: name, Raw: []byte(text)})
	}
	if secret != "" {
		if err := b.GenerateSignature(bundle.NewSigningConfig(secret, "HS256", ""), "somebody", true); err != nil {
			t.Fatal(err)
		}
	}
	for i := range b.Modules {
		b.Modules[i].Raw = append(b.Modules[i].Raw, strings.Join(later, "")...)
	}
	var archive bytes.Buffer
	if err := bundle.NewWriter(&archive).UseModulePath(true).DisableFormat(true).Write(b); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// KeyFile writes a secret to a file.
func KeyFile(t testing.TB, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
