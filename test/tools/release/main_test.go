package main

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

// newTestRelease returns a release of a small program: reproducible compilation is up to Go.
func newTestRelease(t *testing.T) *release {
	t.Helper()
	small := filepath.Join(t.TempDir(), "main")
	if err := os.WriteFile(small+".go", []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", small, small+".go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := &release{root: "../../..", out: t.TempDir(), version: "v1.2.3", platforms: platforms, built: map[string]string{}, man: []file{{"man/termguard.1", 0o644, []byte(".TH\n")}}}
	if err := r.describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, platform := range platforms {
		for program := range programs {
			r.built[program+" "+platform] = small
		}
	}
	if err := r.assemble(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSameBytes(t *testing.T) {
	a, b := newTestRelease(t), newTestRelease(t)
	if len(a.sums) != len(platforms)+5 {
		t.Errorf("want %d files, got %v", len(platforms)+5, a.sums)
	}
	for name, sum := range a.sums {
		if b.sums[name] != sum {
			t.Errorf("%s differs from one run to the next", name)
		}
	}
}

func TestImage(t *testing.T) {
	r := newTestRelease(t)
	dir := t.TempDir()
	if err := unpack(filepath.Join(r.out, imageOf("v1.2.3")), dir); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	outer, err := index.IndexManifest()
	if err != nil || len(outer.Manifests) != 1 {
		t.Fatalf("want one image, got %v, %v", outer, err)
	}
	inner, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]bool{}
	for _, m := range manifest.Manifests {
		of[m.Platform.String()] = true
		image, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/termguard" || len(config.RootFS.DiffIDs) != 1 {
			t.Errorf("%s: %+v", m.Platform, config)
		}
		if got := filesOf(t, image); !slices.Equal(got, []string{"termguard", "termguard-probe"}) {
			t.Errorf("%s contains %q", m.Platform, got)
		}
	}
	if !maps.Equal(of, map[string]bool{"linux/amd64": true, "linux/arm64": true}) {
		t.Errorf("platforms are %v", of)
	}
}

func filesOf(t *testing.T, image v1.Image) (names []string) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestManifests(t *testing.T) {
	r := newTestRelease(t)
	text, err := os.ReadFile(filepath.Join(r.out, "termguard.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector struct{ MatchLabels map[string]string }
				URI      string
				SHA256   string
				Bin      string
			}
		}
	}
	if err := yaml.Unmarshal(text, &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Spec.Version != "v1.2.3" || len(plugin.Spec.Platforms) != len(platforms) {
		t.Errorf("got %+v", plugin)
	}
	formula, err := os.ReadFile(filepath.Join(r.out, "termguard.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plugin.Spec.Platforms {
		file := p.URI[strings.LastIndex(p.URI, "/")+1:]
		if r.sums[file] != p.SHA256 || p.SHA256 == "" {
			t.Errorf("%s has checksum %q, want %q", file, p.SHA256, r.sums[file])
		}
		if p.Selector.MatchLabels["os"] != "windows" && !strings.Contains(string(formula), p.SHA256) {
			t.Errorf("the formula lacks %s", file)
		}
	}
	chart, err := os.ReadFile(filepath.Join(r.out, "termguard-chart-1.2.3.tgz"))
	if err != nil || len(chart) == 0 {
		t.Error(err)
	}
}

// TestArchive unpacks the archive as in docs/install.md and runs its programs; krew and Homebrew must find
// their files in it.
func TestArchive(t *testing.T) {
	r := newTestRelease(t)
	dir := t.TempDir()
	for _, command := range [][]string{
		{"sha256sum", "--check", "--ignore-missing", "checksums.txt"},
		{"tar", "-xzf", archiveOf(r.version, runtime.GOOS, runtime.GOARCH), "-C", dir},
		{filepath.Join(dir, "termguard")},
		{filepath.Join(dir, "termguard-render")},
		{"test", "-f", filepath.Join(dir, "LICENSE")},
		{"test", "-f", filepath.Join(dir, "man", "termguard.1")},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = r.out
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	windows, err := zip.OpenReader(filepath.Join(r.out, archiveOf(r.version, "windows", "amd64")))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	if _, err := windows.Open("termguard.exe"); err != nil {
		t.Error(err)
	}
}

// TestManual checks that each command's page is dated by its commit in every time zone.
func TestManual(t *testing.T) {
	var pages [2][]file
	for i, zone := range []string{"Pacific/Kiritimati", "Pacific/Pago_Pago"} {
		t.Setenv("TZ", zone)
		r := &release{root: "../../..", at: time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)}
		if err := r.manual(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
		pages[i] = r.man
	}
	at := slices.IndexFunc(pages[0], func(f file) bool { return f.name == "man/termguard-check.1" })
	if at < 0 || !strings.Contains(string(pages[0][at].text), "Mar 2026") {
		t.Errorf("no page of check, of March, among %d", len(pages[0]))
	}
	if !reflect.DeepEqual(pages[0], pages[1]) {
		t.Error("the pages differ from one place to the next")
	}
}

// TestPinned checks that workflows use third-party actions by digest, because a tag can be moved.
func TestPinned(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	digest := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
	for _, file := range append(files, filepath.Join(root, "action.yml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, action, ok := strings.Cut(line, "uses:"); ok && !digest.MatchString(strings.Fields(action)[0]) {
				t.Errorf("%s: %s is not pinned by a digest", filepath.Base(file), strings.TrimSpace(action))
			}
		}
	}
}
