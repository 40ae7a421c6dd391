package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinks checks that links cannot lead out of the repository.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "hunter2"
	write(filepath.Join(outside, "secret"), secret)
	write(filepath.Join(outside, "kustomization.yaml"), "namePrefix: "+secret+"-\nresources: [pod.yaml]\n")
	write(filepath.Join(outside, "chart/values.yaml"), "name: "+secret)
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: it}\n"
	write(filepath.Join(outside, "pod.yaml"), pod)
	chart := func(root, name string) {
		write(filepath.Join(root, name, "Chart.yaml"), "{apiVersion: v2, name: web, version: 1.0.0}")
		write(filepath.Join(root, name, "templates/pod.yaml"), `a: {{ .Files.Get "file" | quote }} {{ .Values.name }}`)
	}
	for name, tc := range map[string]struct {
		reason, kind, dir string
		make              func(root string)
		fails             bool
	}{
		"File": {"a file of a chart", "chart", "web", func(root string) {
			chart(root, "web")
			link(filepath.Join(outside, "secret"), filepath.Join(root, "web/file"))
		}, true},
		"Environment": {"the environment of whoever lints", "chart", "web", func(root string) { chart(root, "web"); link("/proc/self/environ", filepath.Join(root, "web/file")) }, true},
		"Values": {"values", "chart", "web", func(root string) {
			chart(root, "web")
			link(filepath.Join(outside, "chart/values.yaml"), filepath.Join(root, "web/values.yaml"))
		}, true},
		"ByAFolder": {"a link to a folder that holds one", "chart", "web", func(root string) {
			chart(root, "web")
			write(filepath.Join(root, "more/x"), "")
			link(filepath.Join(outside, "secret"), filepath.Join(root, "more/file"))
			link("../more", filepath.Join(root, "web/more"))
		}, true},
		"Within": {"a link within the repository is read", "chart", "web", func(root string) {
			chart(root, "web")
			write(filepath.Join(root, "shared"), "x")
			link("../shared", filepath.Join(root, "web/file"))
		}, false},
		"Loop": {"links in a circle end", "chart", "web", func(root string) { chart(root, "web"); link("..", filepath.Join(root, "web/crds/up")) }, true},
		"Itself": {"a folder that is a link", "chart", "web", func(root string) {
			chart(outside, "web")
			link(filepath.Join(outside, "web"), filepath.Join(root, "web"))
		}, true},
		"Kustomization": {"a kustomization that is a link", "kustomization", "k", func(root string) {
			write(filepath.Join(root, "k/pod.yaml"), pod)
			link(filepath.Join(outside, "kustomization.yaml"), filepath.Join(root, "k/kustomization.yaml"))
		}, true},
		"Base": {"a base that is one", "kustomization", "k", func(root string) {
			write(filepath.Join(root, "k/kustomization.yaml"), "resources: [../base]")
			write(filepath.Join(root, "base/pod.yaml"), pod)
			link(filepath.Join(outside, "kustomization.yaml"), filepath.Join(root, "base/kustomization.yaml"))
		}, true},
		"Plain": {"a kustomization without links", "kustomization", "k", func(root string) {
			write(filepath.Join(root, "k/kustomization.yaml"), "resources: [../base]")
			write(filepath.Join(root, "base/pod.yaml"), pod)
			write(filepath.Join(root, "base/kustomization.yaml"), "resources: [pod.yaml]")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tc.make(root)
			text, err := serveOne(t, request{Kind: tc.kind, Root: root, Dir: filepath.Join(root, tc.dir)})
			if (err != nil) != tc.fails || strings.Contains(text, secret) {
				t.Errorf("%s: error %v, want one: %t; printed:\n%s", tc.reason, err, tc.fails, text)
			}
		})
	}
}
