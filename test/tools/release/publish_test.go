package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	r := newTestRelease(t)
	repository := strings.TrimPrefix(server.URL, "http://") + "/termguard/termguard"
	ref, err := push(t.Context(), filepath.Join(r.out, imageOf(r.version)), repository, r.version)
	if err != nil {
		t.Fatal(err)
	}
	byDigest, err := name.NewDigest(ref)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(byDigest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	byTag, err := remote.Head(byDigest.Tag(r.version))
	if err != nil {
		t.Fatal(err)
	}
	if byTag.Digest.String() != byDigest.DigestStr() {
		t.Errorf("the tag is %s, and %s was printed", byTag.Digest, byDigest)
	}
}

// TestPushChart has Helm push the chart, as make publish does, and read it from there.
func TestPushChart(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	r := newTestRelease(t)
	helm := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=../helm/go.mod", "helm"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("helm %v: %v", args, err)
		}
		return string(out)
	}
	to := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/charts"
	helm("push", filepath.Join(r.out, "termguard-chart-1.2.3.tgz"), to, "--plain-http")
	if got := helm("show", "chart", to+"/termguard", "--version=1.2.3", "--plain-http"); !strings.Contains(got, "appVersion: v1.2.3") {
		t.Errorf("the chart that was pulled is not the one of the release:\n%s", got)
	}
}

func TestPushSaysWhy(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	host := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	r := newTestRelease(t)
	image := filepath.Join(r.out, imageOf(r.version))
	for _, tt := range []struct{ archive, repository, version, want string }{
		{image, host + "/termguard", r.version, "docker login " + host},
		{image, host + "/Termguard", r.version, "can only contain"},
		{image + ".gone", host + "/termguard", r.version, "read " + image + ".gone"},
		{filepath.Join(r.out, "checksums.txt"), host + "/termguard", r.version, "checksums.txt"},
	} {
		if _, err := push(t.Context(), tt.archive, tt.repository, tt.version); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("want %q, got %v", tt.want, err)
		}
	}
}
