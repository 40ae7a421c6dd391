package lint_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// standsIn is set if this test program replaces the renderer.
const standsIn = "TERMGUARD_RENDER_STANDS_IN"

func TestMain(m *testing.M) {
	if os.Getenv(standsIn) != "" {
		standIn(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// standIn answers as the renderer does, or fails in the way that the name of a folder says.
func standIn(in io.Reader, out io.Writer) {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r struct {
			Kind, Dir string
			Values    []string
		}
		if requests.Decode(&r) != nil {
			return
		}
		a := map[string]any{"text": "---\n# Source: web/templates/pod.yaml\n" + fmt.Sprintf(slow, "a")}
		if r.Kind == "kustomization" { // of a base, as overlays are
			base := filepath.Join(filepath.Dir(filepath.Dir(r.Dir)), "base")
			a = map[string]any{
				"text":  "---\n# Source: ../../base/pod.yaml\n" + fmt.Sprintf(slow, filepath.Base(r.Dir)+"-a"),
				"files": []string{filepath.Join(r.Dir, "kustomization.yaml"), filepath.Join(base, "kustomization.yaml"), filepath.Join(base, "pod.yaml")},
			}
		}
		switch {
		case filepath.Base(r.Dir) == "endless":
			for {
				if _, err := out.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
					return
				}
			}
		case filepath.Base(r.Dir) == "ends":
			os.Exit(3)
		case len(r.Values) > 0:
			a = map[string]any{"error": "no values today"}
		}
		_ = answers.Encode(a)
	}
}

const slow = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {terminationGracePeriodSeconds: 900}\n"

// long is the finding about it.
const long = "apply may long-grace-period: a delete may wait up to 900 s for pods/%s: the grace period is 900 s"

// nothing is the problem if no object was read because all need rendering.
const nothing = ":1:1 problem: nothing was read: every object here needs rendering, and the notes say why nothing was rendered"

// TestRenderer has a stand-in render charts, with any failure of it, and checks the hint if there
// is no renderer.
func TestRenderer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"bin/termguard-render": "#!/bin/sh\n" + standsIn + "=1 exec '" + self + "'\n"}
	for _, chart := range []string{"all/web", "all/ends", "all/ends/next", "web", "endless"} {
		files[chart+"/Chart.yaml"], files[chart+"/templates/pod.yaml"] = "name: web\n", "{{ x }}"
	}
	files["k/kustomization.yaml"], files["k/pod.yaml"] = "namePrefix: a-\nresources: [pod.yaml]\n", fmt.Sprintf(slow, "a")
	dir := write(t, files)
	if err := os.Chmod(filepath.Join(dir, "bin/termguard-render"), 0o755); err != nil {
		t.Fatal(err)
	}
	long := fmt.Sprintf(long, "a")
	const none = "note: nothing is rendered, as termguard-render is neither beside termguard nor in PATH: releases have it, and \"make render\" in a clone builds it"
	const stands = "note: 1 kustomization read as the files stand, without patches: kubectl kustomize k | termguard lint -"
	for _, tc := range []struct {
		reason, path, tools string
		off                 bool
		want                []string
	}{
		{"a chart", "web", "bin", false, []string{"web/templates/pod.yaml:1:1 (web/templates/pod.yaml) " + long}},
		{"a chart without the renderer", "web", "", false, []string{"web" + nothing, "note: the templates of 1 Helm chart were skipped: helm template web | termguard lint -", none}},
		{"a kustomization without the renderer", "k", "", false, []string{"k/pod.yaml:4:39 " + long, stands, none}},
		{"nothing is to be rendered", "k", "bin", true, []string{"k/pod.yaml:4:39 " + long, stands}},
		{"an error of the renderer about given values", "web", "bin -v", false, []string{"web" + nothing, "note: 1 chart or kustomization could not be rendered, and is read as its files stand: web: no values today"}},
		{"a renderer that never ends", "endless", "bin", false, []string{"endless" + nothing, "note: 1 chart or kustomization could not be rendered, and is read as its files stand: endless: it has more than 64 MiB"}},
		{"one that ends the renderer takes no other with it", "all", "bin", false, []string{
			"all/ends/next/templates/pod.yaml:1:1 (web/templates/pod.yaml) " + long, "all/web/templates/pod.yaml:1:1 (web/templates/pod.yaml) " + long,
			"note: 1 chart or kustomization could not be rendered, and is read as its files stand: all/ends: it ended termguard-render: exit status 3",
		}},
	} {
		tools, values, _ := strings.Cut(tc.tools, " ")
		t.Setenv("PATH", filepath.Join(dir, tools)+":/usr/bin:/bin")
		o := lint.Options{Input: sets.Options{Dir: dir, Paths: []string{tc.path}, Render: !tc.off}}
		if values != "" {
			o.Input.Values = []string{"values.yaml"}
		}
		r, err := lint.Run(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		if diff := cmp.Diff(tc.want, lines(r)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
	}
}

// withRenderer puts the real renderer into PATH.
func withRenderer(t *testing.T) {
	t.Helper()
	dir, err := buildRenderer()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

var buildRenderer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "termguard-render-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir, ".")
	build.Dir, build.Env = filepath.Join("..", "cmd", "termguard-render"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the renderer: %w: %s", err, out)
	}
	return dir, nil
})

// TestKustomizations reads kustomizations as they will be applied, and checks the file and line to
// change.
func TestKustomizations(t *testing.T) {
	withRenderer(t)
	const base = "resources: [pod.yaml]\n"
	pod := "# a comment\n" + fmt.Sprintf(slow, "it")
	fast := strings.Replace(pod, "900", "30", 1)
	patch := "apiVersion: v1\nkind: Pod\nmetadata: {name: it}\nspec:\n  terminationGracePeriodSeconds: 900\n"
	overlay := func(more string) string { return "resources: [../base]\n" + more }
	const notBuilt = "note: 1 chart or kustomization could not be rendered, and is read as its files stand: "
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   []string // the beginnings of lines; "... x" where they hold x later
	}{
		"Prefix": {"It has another name, and is reported in its file.", map[string]string{"over/kustomization.yaml": overlay("namePrefix: my-\nnamespace: prod\n"), "base/kustomization.yaml": base, "base/pod.yaml": pod},
			[]string{"base/pod.yaml:5:39 " + fmt.Sprintf(long, "my-it")}},
		"Overlays": {"An object that several apply is reported once.", map[string]string{"a/kustomization.yaml": overlay("namePrefix: a-\n"), "b/kustomization.yaml": overlay("namePrefix: b-\n"), "base/kustomization.yaml": base, "base/pod.yaml": pod},
			[]string{"base/pod.yaml:5:39 " + fmt.Sprintf(long, "a-it")}},
		"Mended": {"A patch removes the base's field.", map[string]string{"over/kustomization.yaml": overlay("patches: [{path: patch.yaml}]\n"), "over/patch.yaml": strings.Replace(patch, "900", "30", 1), "base/kustomization.yaml": base, "base/pod.yaml": pod}, nil},
		"Patch": {"A patch adds the field: it is the line to change.", map[string]string{"over/kustomization.yaml": overlay("patches: [{path: patch.yaml}]\n"), "over/patch.yaml": patch, "base/kustomization.yaml": base, "base/pod.yaml": fast},
			[]string{"over/patch.yaml:5:34 " + fmt.Sprintf(long, "it")}},
		"Inline": {"A patch in the kustomization: it is the line to change.", map[string]string{"over/kustomization.yaml": overlay("patches: [{target: {kind: Pod}, patch: '[{\"op\": \"replace\", \"path\": \"/spec/terminationGracePeriodSeconds\", \"value\": 900}]'}]\n"), "base/kustomization.yaml": base, "base/pod.yaml": fast},
			[]string{"over/kustomization.yaml:2:75 " + fmt.Sprintf(long, "it")}},
		"Component": {"A component changes it, too.", map[string]string{"over/kustomization.yaml": overlay("components: [../slow]\n"), "slow/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: patch.yaml}]\n", "slow/patch.yaml": patch, "base/kustomization.yaml": base, "base/pod.yaml": fast},
			[]string{"slow/patch.yaml:5:34 " + fmt.Sprintf(long, "it")}},
		"Two": {"Of several in a file, the one of that name.", map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [all.yaml]\n", "all.yaml": fmt.Sprintf(slow, "it") + "---\n" + strings.Replace(fmt.Sprintf(slow, "it-too"), "900", "30", 1)},
			[]string{"all.yaml:4:39 " + fmt.Sprintf(long, "my-it")}},
		"Replacement": {"A replacement sets the value that is too long.", map[string]string{"kustomization.yaml": "resources: [pod.yaml, c.yaml]\nreplacements: [{source: {kind: ConfigMap, name: c, fieldPath: data.seconds}, targets: [{select: {kind: Pod}, fieldPaths: ['metadata.annotations.[x.io/seconds]'], options: {create: true}}]}]\n", "pod.yaml": pod, "c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {seconds: '1'}\n"},
			[]string{"pod.yaml:5:39 " + fmt.Sprintf(long, "it")}},
		"Beside":  {"What no kustomization names is read as it stands.", map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": fast, "b.yaml": pod}, []string{"b.yaml:5:39 " + fmt.Sprintf(long, "it")}},
		"Ignored": {"A comment in the file applies to the rendered object.", map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": pod + "# termguard:ignore long-grace-period -- a reason\n"}, []string{"a.yaml:5:39 " + fmt.Sprintf(long, "my-it")}},
		"Generated": {"What it generates has no file.", map[string]string{"kustomization.yaml": "configMapGenerator: [{name: c, literals: [a=b], options: {annotations: {x: z}}}]\npatches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"add\", \"path\": \"/metadata/finalizers\", \"value\": [\"example.com/x\"]}]'}]\n"},
			[]string{"kustomization.yaml:1:1 (kustomization.yaml) apply may unowned-finalizer"}},
		"Far": {"Remote files are not fetched, which one note says.", map[string]string{"a/kustomization.yaml": "namePrefix: a-\nresources: [https://example.com/x.yaml, pod.yaml]\n", "b/kustomization.yaml": "namePrefix: b-\nresources: [../a]\n", "c/kustomization.yaml": "resources: ['github.com/a/b?ref=v1']\nnamePrefix: c-\n", "a/pod.yaml": pod},
			[]string{"a/pod.yaml:5:39 " + fmt.Sprintf(long, "it"), "note: 2 kustomizations (b, c) read as the files stand, without patches: other files that they need are not in the repository, and nothing is fetched"}},
		"Itself":  {"One that names itself.", map[string]string{"a/kustomization.yaml": "namePrefix: a-\nresources: [../a, pod.yaml]\n", "a/pod.yaml": pod}, []string{"a/pod.yaml:5:39 ", notBuilt + "a: accumulating resources"}},
		"Nothing": {"A patch that hits nothing.", map[string]string{"kustomization.yaml": "patches: [{path: patch.yaml}]\nresources: [pod.yaml]\n", "patch.yaml": strings.Replace(patch, "name: it", "name: other", 1), "pod.yaml": fast}, []string{"patch.yaml:5:34 ", notBuilt + `.: no resource matches strategic merge patch "Pod.v1.[noGrp]/other.[noNs]"`}},
		"Circle":  {"Components in a circle.", map[string]string{"kustomization.yaml": "components: [b]\nresources: [pod.yaml]\n", "b/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncomponents: [../c]\n", "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncomponents: [../b]\n", "pod.yaml": pod}, []string{"pod.yaml:5:39 ", notBuilt + ".: ... cycle detected"}},
		"Outside": {"A base outside of the repository.", map[string]string{"repository/.git/HEAD": "", "repository/kustomization.yaml": "namePrefix: a-\nresources: [../base, pod.yaml]\n", "repository/pod.yaml": pod, "base/kustomization.yaml": base, "base/pod.yaml": strings.Replace(fast, "it", "other", 1)}, []string{"repository/pod.yaml:5:39 ", notBuilt + "repository: ... leads out of the repository, and is not read"}},
		"CRLF":    {"Lines end as on Windows.", map[string]string{"kustomization.yaml": "namePrefix: my-\r\nresources:\r\n- pod.yaml\t\r\n", "pod.yaml": strings.ReplaceAll(pod, "\n", "\r\n")}, []string{"pod.yaml:5:39 " + fmt.Sprintf(long, "my-it")}},
		"Anchors": {"An anchor is valid in one document.", map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: it}\nspec: &spec {terminationGracePeriodSeconds: 900}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: *spec\n"}, []string{"a.yaml:4:45 ", "a.yaml:9:7 problem: invalid YAML", notBuilt + ".: accumulating resources"}},
		"Plain":   {"A kustomization that only names its files has their findings.", map[string]string{"kustomization.yaml": "resources: [pod.yaml]\n", "pod.yaml": pod}, []string{"pod.yaml:5:39 " + fmt.Sprintf(long, "it")}},
		"NoYAML":  {"One that cannot be read.", map[string]string{"kustomization.yaml": "resources: [", "pod.yaml": pod}, []string{"pod.yaml:5:39 ", notBuilt + ".: it cannot be read"}},
		"ToZero": {"An overlay scales to zero what its base runs.", map[string]string{"over/kustomization.yaml": "resources: [../base, kiali.yaml]\nreplicas: [{name: kiali-operator, count: 0}]\n", "over/kiali.yaml": kiali, "base/kustomization.yaml": "resources: [o.yaml]\n", "base/o.yaml": kialiOperator},
			[]string{"over/kiali.yaml:3:18 delete may orphaned-finalizer"}},
		"Document": {"A file of several, with a finalizer in a list.", map[string]string{"over/kustomization.yaml": overlay("namePrefix: my-\n"), "base/kustomization.yaml": base, "base/pod.yaml": pod + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  finalizers:\n  - foregroundDeletion\n  - example.com/x\n"}, []string{"base/pod.yaml:5:39 ", "base/pod.yaml:13:5 apply may unowned-finalizer"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Dir: write(t, tc.files), Paths: []string{"."}, Render: true}})
			got := lines(r)
			if !slices.EqualFunc(got, tc.want, func(got, want string) bool {
				begins, holds, _ := strings.Cut(want, "... ")
				return strings.HasPrefix(got, begins) && strings.Contains(got, holds)
			}) {
				t.Errorf("%s: want beginnings:\n%s\ngot:\n%s", tc.reason, strings.Join(tc.want, "\n"), strings.Join(got, "\n"))
			}
		})
	}
}

// TestNothingElse checks the reason for reading nothing if all there is is a chart or kustomization
// that cannot be rendered: its other files are elsewhere, or it is broken, but the folder is the
// right one.
func TestNothingElse(t *testing.T) {
	withRenderer(t)
	const chart, template, notBuilt = "apiVersion: v2\nname: app\nversion: 1.0.0\n", "metadata: {name: {{ include \"common.name\" . }}}\n", "note: 1 chart or kustomization could not be rendered, and is read as its files stand: "
	base := fmt.Sprintf(slow, "it")
	for name, tc := range map[string]struct {
		reason, path string
		files        map[string]string
		want         string // the beginning; what follows "... " is held later
	}{
		"Library":    {"A library chart that helm has yet to fetch.", ".", map[string]string{"Chart.yaml": chart + "dependencies: [{name: common, version: 1.x.x, repository: https://example.com}]\n", "templates/a.yaml": template}, notBuilt + ".: its charts/ lacks common: run helm dependency build"},
		"Undeclared": {"One that is a part of another, which has the library.", ".", map[string]string{"Chart.yaml": chart, "templates/a.yaml": template}, notBuilt + `.: ... no template "common.name"`},
		"Itself":     {"A kustomization that names itself, and no more.", ".", map[string]string{"kustomization.yaml": "resources: [.]\n"}, notBuilt + ".: ... cycle detected"},
		"Circle":     {"Two kustomizations that name only each other.", ".", map[string]string{"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}, notBuilt + "a: ... cycle detected"},
		"Components": {"Components that name only each other.", ".", map[string]string{"a/kustomization.yaml": "kind: Component\ncomponents: [../b]\n", "b/kustomization.yaml": "kind: Component\ncomponents: [../a]\n"}, notBuilt + "a: ... cycle detected"},
		"Outside":    {"A base outside of the repository.", "repository", map[string]string{"repository/.git/HEAD": "", "repository/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": base}, notBuilt + "repository: ... leads out of the repository, and is not read"},
		"Absolute":   {"A path of this machine, which kustomize refuses.", ".", map[string]string{"kustomization.yaml": "resources: [/etc]\n"}, notBuilt + ".: ... /etc"},
		"Far":        {"All of it is elsewhere.", ".", map[string]string{"kustomization.yaml": "resources: ['https://example.com/x.yaml']\nnamePrefix: a-\n"}, "note: 1 kustomization (.) read as the files stand"},
		"Beyond":     {"A base in the repository, and not in the folder that was named.", "over", map[string]string{".git/HEAD": "", "over/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": base}, "over/kustomization.yaml:1:1 (../base/pod.yaml) " + fmt.Sprintf(long, "it")},
		"BesideIt":   {"Its base is read, and has the applied objects.", ".", map[string]string{"over/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": base}, "base/pod.yaml:4:39 " + fmt.Sprintf(long, "it")},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(run(t, lint.Options{Input: sets.Options{Dir: write(t, tc.files), Paths: []string{tc.path}, Render: true}}))
			if strings.HasPrefix(tc.want, "note: ") && len(got) > 0 && got[0] == tc.path+nothing {
				got = got[1:]
			}
			begins, holds, _ := strings.Cut(tc.want, "... ")
			if len(got) != 1 || !strings.HasPrefix(got[0], begins) || !strings.Contains(got[0], holds) {
				t.Errorf("%s got %q, want one of %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestChangedKustomization checks that only kustomizations with a changed file are evaluated.
func TestChangedKustomization(t *testing.T) {
	withRenderer(t)
	files := map[string]string{}
	for _, name := range []string{"a", "b"} {
		files[name+"/kustomization.yaml"], files[name+"/pod.yaml"] = "namePrefix: my-\nresources: [pod.yaml]\n", fmt.Sprintf(slow, name)
	}
	dir := write(t, files)
	for only, want := range map[string]string{"a/pod.yaml": "a/pod.yaml", "b/kustomization.yaml": "b/pod.yaml"} {
		r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Render: true, Only: map[string]bool{filepath.Join(dir, only): true}}})
		if len(r.Findings) != 1 || r.Findings[0].Place.File != want {
			t.Errorf("%s changed: got %q, want one finding in %s", only, lines(r), want)
		}
	}
}

// TestManyOverlays checks that a finding that hundreds of overlays share is reported once.
func TestManyOverlays(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	withRenderer(t)
	const n = 300
	files := map[string]string{"base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": fmt.Sprintf(slow, "a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: " + strings.Repeat("x", 100<<10) + "}\n"}
	for i := range n {
		files[fmt.Sprintf("o%d/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: o%d-\nresources: [../base]\n", i)
	}
	growth := peak()
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, files), Paths: []string{"."}, Render: true}})
	if most := growth(); most > mostOverlays {
		t.Errorf("it held %d MiB at once, want at most %d", most>>20, mostOverlays>>20)
	}
	if len(r.Findings) != 1 || r.Objects != 2*n || len(r.Notes) != 0 {
		t.Fatalf("%d objects, %q; want %d, with the base's finding once", r.Objects, lines(r), 2*n)
	}
	if last := r.Findings[0].Evidence[len(r.Findings[0].Evidence)-1]; last != fmt.Sprintf("applied by o0, o1, o10 and %d more", n-3) {
		t.Error(last)
	}
}

// TestTenThousandOverlays checks that a finding of ten thousand overlays becomes one. A stand-in
// renders them: the 2 ms that kustomize takes for each are not measured here.
func TestTenThousandOverlays(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	if race.Detector {
		t.Skip("the race detector takes ten times as long, and TestManyOverlays has hundreds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	files := map[string]string{
		"bin/termguard-render":    "#!/bin/sh\n" + standsIn + "=1 exec '" + self + "'\n",
		"base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": fmt.Sprintf(slow, "a"),
	}
	for i := range n {
		files[fmt.Sprintf("overlays/o%04d/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: o%04d-\nresources: [../../base]\n", i)
	}
	dir := write(t, files)
	if err := os.Chmod(filepath.Join(dir, "bin/termguard-render"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
	growth := peak()
	r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Render: true}})
	if most := growth(); most > mostOverlays {
		t.Errorf("it held %d MiB at once, want at most %d", most>>20, mostOverlays>>20)
	}
	got := lines(r)
	if want := []string{"base/pod.yaml:4:39 " + fmt.Sprintf(long, "o0000-a")}; !slices.Equal(got, want) || r.Objects != n {
		t.Fatalf("%d objects, %.2000q; want %q once, and nothing else", r.Objects, got, want)
	}
	if last := r.Findings[0].Evidence[len(r.Findings[0].Evidence)-1]; last != "applied by overlays/o0000, overlays/o0001, overlays/o0002 and 9997 more" {
		t.Error(last)
	}
}

// mostOverlays bounds the memory for hundreds of overlays with a base of 100 KB, and for ten
// thousand with a small one, which was 56 and 76 MiB: all rendered text, and the objects of one
// set.
const mostOverlays = 100 << 20

// peak measures how far the live memory of this process, in bytes, exceeds the present. Garbage of a busy machine,
// which collects it late, does not count.
func peak() func() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	live := func() uint64 {
		runtime.GC()
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before, most := live(), uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, live())
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-stopped
		return most - min(before, most)
	}
}

// TestChartNamespace checks the namespace of a release, which may be deleted, with objects of the
// release that name no namespace.
func TestChartNamespace(t *testing.T) {
	withRenderer(t)
	const api = `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: {{ .Release.Namespace }}, name: api}}
---
apiVersion: v1
kind: Service
metadata: {name: api%s}
spec: {ports: [{port: 443}], selector: {app: api}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api%[1]s}
spec: {selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: api}]}}}
`
	for in, want := range map[string]int{"": 1, ", namespace: default": 0} {
		r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: api\nversion: 1.0.0\n", "templates/api.yaml": fmt.Sprintf(api, in)}), Paths: []string{"."}, Render: true}})
		if len(r.Findings) != want {
			t.Errorf("a Service with %q: got %q, want %d findings", in, lines(r), want)
		}
		for _, f := range r.Findings {
			if f.Policy != "apiservice-backend-removed" || f.Target.Name != "release" {
				t.Errorf("%s of %v, want one of the namespace of the release", f.Policy, f.Target)
			}
		}
	}
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: api\nversion: 1.0.0\n", "templates/pod.yaml": fmt.Sprintf(slow, "it")}), Paths: []string{"."}, Render: true}})
	if len(r.Findings) != 1 || r.Findings[0].Target.Namespace != "release" {
		t.Errorf("a pod without a namespace: got %+v, want one finding in the release's namespace", r.Findings)
	}
}

// TestOneTemplate checks that the worst of equal messages of one policy about one template is
// reported.
func TestOneTemplate(t *testing.T) {
	withRenderer(t)
	const hook = `apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: things}
webhooks:
- name: things.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: {{ .Release.Namespace }}, name: things}}
  rules: [{apiGroups: [things.example.com], apiVersions: [v1], operations: [%s], resources: [things]}]
---
`
	template := fmt.Sprintf(hook, "Mutating", "UPDATE") + fmt.Sprintf(hook, "Validating", "DELETE")
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: things\nversion: 1.0.0\n", "templates/hooks.yaml": template}), Paths: []string{"."}, Render: true}})
	if len(r.Findings) != 1 || r.Findings[0].Severity != policies.Low {
		t.Errorf("got %q, want one of low severity, like the finding about deletes", lines(r))
	}
}

// TestSubchart checks that a sub-chart's objects are read only if its parent's values switch it on.
func TestSubchart(t *testing.T) {
	withRenderer(t)
	for switched, want := range map[string][]string{
		"false": nil, "true": {"charts/db/templates/pod.yaml:1:1 (app/charts/db/templates/pod.yaml) " + fmt.Sprintf(long, "it")},
	} {
		dir := write(t, map[string]string{
			"Chart.yaml":           "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0, condition: db.enabled}]\n",
			"values.yaml":          "db: {enabled: " + switched + "}\n",
			"templates/a.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
			"charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n", "charts/db/templates/pod.yaml": fmt.Sprintf(slow, "it") + "# {{ .Release.Name }}\n",
		})
		r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Render: true}})
		if diff := cmp.Diff(want, lines(r)); diff != "" {
			t.Errorf("enabled %s: -want, +got:\n%s", switched, diff)
		}
	}
}

// TestTwoReleases checks that the budget of a chart counts no workload of another chart: both are
// rendered for a namespace of the same name.
func TestTwoReleases(t *testing.T) {
	withRenderer(t)
	const budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: {{ .Release.Namespace }}}\nspec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\n"
	const web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: {{ .Release.Namespace }}}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}\n"
	for of, want := range map[string]int{"a": 1, "b": 0} {
		r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{
			"a/Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n", "a/templates/budget.yaml": budget,
			"b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n", of + "/templates/web.yaml": web,
		}), Paths: []string{"."}, Render: true}})
		if len(r.Findings) != want {
			t.Errorf("with the workload in chart %s: got %q, want %d findings", of, lines(r), want)
		}
	}
}

// TestRenderKustomization renders a folder that includes one outside of it, as check -k does, and reports the
// renderer's error.
func TestRenderKustomization(t *testing.T) {
	withRenderer(t)
	dir := write(t, map[string]string{
		"base/kustomization.yaml": "resources: [pod.yaml]\n", "base/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
		"top/kustomization.yaml": "resources: [../base]\nnamePrefix: x-\n", "broken/kustomization.yaml": "resources: [absent.yaml]\n",
	})
	text, err := sets.RenderKustomization(t.Context(), filepath.Join(dir, "top"))
	if err != nil || !strings.Contains(text, "name: x-a") {
		t.Errorf("got %q, error %v", text, err)
	}
	if _, err := sets.RenderKustomization(t.Context(), filepath.Join(dir, "broken")); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("error %v, want one with the missing file", err)
	}
}
