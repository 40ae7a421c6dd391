// Command release builds a release of termguard: archives of the programs for each platform, the image as an
// OCI archive, the chart, a krew manifest, a Homebrew formula, a bill of materials (SPDX) and checksums. The
// same commit gives the same bytes: no file has the time or place of its build.
//
// With -publish, it pushes the image of an existing release and prints its digest.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	_ "embed"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	spdxcommon "github.com/spdx/tools-golang/spdx/v2/common"
	"sigs.k8s.io/yaml"
)

var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// The archives are for users, the image for clusters.
var (
	programs  = map[string]string{"termguard": ".", "termguard-probe": ".", "termguard-render": "cmd/termguard-render"}
	inArchive = []string{"termguard", "termguard-render"}
	inImage   = []string{"termguard", "termguard-probe"}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := release{}
	flag.StringVar(&r.root, "root", ".", "root of the repository")
	flag.StringVar(&r.out, "out", "dist", "`FOLDER` to write to")
	flag.StringVar(&r.version, "version", "", "as in v1.2.3 (default: what git describes)")
	to := flag.String("publish", "", "push the image of the release in -out to this `REPOSITORY`, as ghcr.io/termguard/termguard, and print its digest")
	only := flag.String("platforms", strings.Join(platforms, ","), "`OS/ARCH,...`")
	flag.Parse()
	r.platforms = strings.Split(*only, ",")
	do := r.make
	if *to != "" {
		do = func(ctx context.Context) error { return r.publish(ctx, *to) }
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct {
	root, out, version string
	platforms          []string

	commit string
	at     time.Time         // of the commit
	built  map[string]string // paths, by "PROGRAM OS/ARCH"
	man    []file            // one page per command
	sums   map[string]string // SHA-256 by file
}

func (r *release) make(ctx context.Context) error {
	if err := r.describe(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "termguard-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if err := r.build(ctx, bin); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if err := r.manual(ctx, bin); err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	return r.assemble()
}

func (r *release) assemble() error {
	r.sums = map[string]string{}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"pack", r.pack}, {"image", r.image}, {"chart", r.chart}, {"bill of materials", r.materials}, {"manifests", r.manifests}, {"checksums", r.checksums},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (r *release) describe(ctx context.Context) error {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var err error
	if r.version == "" {
		if r.version, err = git("describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if r.commit, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	at, err := git("show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	if r.at, err = time.Parse(time.RFC3339, at); err != nil {
		return err
	}
	r.at = r.at.UTC()
	return nil
}

// Programs are static, without local paths.
func (r *release) build(ctx context.Context, bin string) error {
	r.built = map[string]string{}
	for i, platform := range r.platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		if goos == "" || goarch == "" {
			return fmt.Errorf("%q is no platform: want OS/ARCH, such as linux/amd64", platform)
		}
		for program, module := range programs {
			if goos != "linux" && !slices.Contains(inArchive, program) {
				continue // nodes run Linux
			}
			out := filepath.Join(bin, program+"_"+goos+"_"+goarch+suffix(goos))
			fmt.Fprintf(os.Stderr, "platform %d of %d: building %s\n", i+1, len(r.platforms), filepath.Base(out))
			main := "."
			if module == "." {
				main = "./cmd/" + program
			}
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+r.version+" -X main.commit="+r.commit, "-o", out, main)
			cmd.Dir = filepath.Join(r.root, module)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=-mod=readonly", "GOWORK=off")
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s for %s: %w", program, platform, err)
			}
			r.built[program+" "+platform] = out
		}
	}
	return nil
}

// A test writes the man pages from the commands, like --help.
func (r *release) manual(ctx context.Context, folder string) error {
	folder, err := filepath.Abs(filepath.Join(folder, "man"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "writing man pages")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestMan$", "./cmd/termguard")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "MAN="+folder, "TZ=UTC", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	pages, err := os.ReadDir(folder) // sorted
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(folder, page.Name()))
		if err != nil {
			return err
		}
		r.man = append(r.man, file{"man/" + page.Name(), 0o644, text})
	}
	return nil
}

func suffix(goos string) string {
	if goos == "windows" {
		return ".exe"
	}
	return ""
}

type file struct {
	name string
	mode int64
	text []byte
}

func (r *release) pack() error {
	for _, platform := range r.platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		var files []file
		for _, name := range []string{"LICENSE", "README.md"} {
			text, err := os.ReadFile(filepath.Join(r.root, name))
			if err != nil {
				return err
			}
			files = append(files, file{name, 0o644, text})
		}
		for _, program := range inArchive {
			text, err := os.ReadFile(r.built[program+" "+platform])
			if err != nil {
				return err
			}
			files = append(files, file{program + suffix(goos), 0o755, text})
		}
		name, archive := archiveOf(r.version, goos, goarch), tarGzip
		if goos == "windows" {
			archive = zipFiles
		} else {
			files = append(files, r.man...)
		}
		text, err := archive(files, r.at)
		if err != nil {
			return err
		}
		if err := r.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

func archiveOf(version, goos, goarch string) string {
	name := "termguard_" + version + "_" + goos + "_" + goarch
	if goos == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

func tarGzip(files []file, at time.Time) ([]byte, error) {
	text, err := tarFiles(files, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(text); err != nil {
		return nil, err
	}
	err = zip.Close() // Close writes the end
	return out.Bytes(), err
}

func tarFiles(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close() // Close writes the end
	return out.Bytes(), err
}

func zipFiles(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(fs.FileMode(f.mode))
		in, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := in.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close() // Close writes the end
	return out.Bytes(), err
}

// Static programs suffice; the service account brings the trusted certificates.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range r.platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		if goos != "linux" {
			continue
		}
		var files []file
		for _, program := range inImage {
			text, err := os.ReadFile(r.built[program+" "+platform])
			if err != nil {
				return err
			}
			files = append(files, file{program, 0o755, text})
		}
		text, err := tarFiles(files, r.at)
		if err != nil {
			return err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		one, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
		if err != nil {
			return err
		}
		one, err = mutate.ConfigFile(one, &v1.ConfigFile{
			Architecture: goarch, OS: goos, Created: v1.Time{Time: r.at},
			RootFS: rootOf(one),
			Config: v1.Config{
				Entrypoint: []string{"/termguard"}, User: "65532:65532", ExposedPorts: map[string]struct{}{"9443/tcp": {}, "8081/tcp": {}},
				Labels: map[string]string{"org.opencontainers.image.source": "https://github.com/termguard/termguard", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0"},
			},
		})
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: goarch}}})
	}
	dir, err := os.MkdirTemp("", "termguard-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "ghcr.io/termguard/termguard:" + r.version,
	}}})); err != nil {
		return err
	}
	files, err := filesIn(dir, "")
	if err != nil {
		return err
	}
	text, err := tarFiles(files, r.at)
	if err != nil {
		return err
	}
	return r.write(imageOf(r.version), text)
}

func imageOf(version string) string { return "termguard_" + version + "_image.tar" }

func rootOf(image v1.Image) v1.RootFS {
	config, err := image.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return config.RootFS
}

func filesIn(dir, prefix string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		files = append(files, file{path.Join(prefix, filepath.ToSlash(rel)), 0o644, text})
		return err
	})
	return files, err
}

func (r *release) chart() error {
	files, err := filesIn(filepath.Join(r.root, "deploy", "chart"), "termguard")
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(r.version, "v")
	for i, f := range files {
		if f.name != "termguard/Chart.yaml" {
			continue
		}
		meta := map[string]any{}
		if err := yaml.Unmarshal(f.text, &meta); err != nil {
			return err
		}
		if _, err := fmt.Sscanf(version, "%d.%d", new(int), new(int)); err != nil {
			version = fmt.Sprintf("%v-%s", meta["version"], version) // a commit without a tag
		}
		meta["version"], meta["appVersion"] = version, r.version
		if files[i].text, err = yaml.Marshal(meta); err != nil {
			return err
		}
	}
	text, err := tarGzip(files, r.at)
	if err != nil {
		return err
	}
	return r.write("termguard-chart-"+version+".tgz", text)
}

func (r *release) materials() error {
	modules := map[string]string{} // version by module
	for _, program := range r.built {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		for _, module := range info.Deps {
			modules[module.Path] = module.Version
		}
		modules["stdlib"] = info.GoVersion
	}
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "termguard " + r.version,
		DocumentNamespace: "https://github.com/termguard/termguard/spdx/" + r.commit,
		CreationInfo:      &spdx.CreationInfo{Created: r.at.Format(time.RFC3339), Creators: []spdxcommon.Creator{{CreatorType: "Organization", Creator: "termguard"}}},
	}
	add := func(id, name, version, license, locator, relation string) {
		p := &spdx.Package{
			PackageSPDXIdentifier: spdxcommon.ElementID(id), PackageName: name, PackageVersion: version,
			PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		}
		if locator != "" {
			p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: locator}}
		}
		document.Packages = append(document.Packages, p)
		from, to := "DOCUMENT", id
		if relation == "DEPENDS_ON" {
			from = "termguard"
		}
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: spdxcommon.MakeDocElementID("", from), RefB: spdxcommon.MakeDocElementID("", to), Relationship: relation,
		})
	}
	add("termguard", "termguard", r.version, "Apache-2.0", "pkg:golang/github.com/termguard/termguard@"+r.version, "DESCRIBES")
	for i, module := range slices.Sorted(maps.Keys(modules)) {
		add(fmt.Sprintf("module-%d", i), module, modules[module], "NOASSERTION", "pkg:golang/"+module+"@"+modules[module], "DEPENDS_ON")
	}
	var text bytes.Buffer
	if err := json.Write(document, &text); err != nil {
		return err
	}
	return r.write("termguard_"+r.version+".spdx.json", text.Bytes())
}

var (
	//go:embed krew.yaml.tmpl
	krewManifest string
	//go:embed homebrew.rb.tmpl
	homebrewFormula string
)

func (r *release) manifests() error {
	type archive struct{ OS, Arch, File, Sum, Suffix string }
	var archives []archive
	for _, platform := range r.platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		name := archiveOf(r.version, goos, goarch)
		archives = append(archives, archive{goos, goarch, name, r.sums[name], suffix(goos)})
	}
	for name, text := range map[string]string{"krew.yaml": krewManifest, "homebrew.rb": homebrewFormula} {
		var out bytes.Buffer
		t := template.Must(template.New(name).Parse(text))
		if err := t.Execute(&out, map[string]any{"Version": r.version, "Number": strings.TrimPrefix(r.version, "v"), "Archives": archives}); err != nil {
			return err
		}
		if err := r.write(map[string]string{"krew.yaml": "termguard.krew.yaml", "homebrew.rb": "termguard.rb"}[name], out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) checksums() error {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&out, "%s  %s\n", r.sums[name], name)
	}
	fmt.Print(out.String())
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(out.String()), 0o644)
}

func (r *release) write(name string, text []byte) error {
	sum := sha256.Sum256(text)
	r.sums[name] = hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}
