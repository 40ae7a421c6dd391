// Command termguard-render renders Helm charts and kustomizations for termguard lint. It is a separate
// program and module because the libraries would make termguard half as large again and slower to start.
//
// It opens no network connection and runs no other program: remote content is an error.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

const usage = `usage: termguard-render serve

It reads requests from standard input, as {"kind": "chart", "root": DIR, "dir": DIR, "values": [FILE]}
or {"kind": "kustomization", "root": DIR, "dir": DIR}, and answers each with
{"text": OBJECTS, "files": [FILE], "namespace": NAME} or {"error": TEXT}. Links that lead out
of the root (default: /) are an error`

func main() {
	log.SetOutput(io.Discard) // the libraries log errors that they also return
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(err.Error()))
		os.Exit(1)
	}
}

type offline struct{}

func (offline) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is elsewhere, and nothing is fetched", r.URL.Redacted())
}

func run(args []string, in io.Reader, out io.Writer) error {
	http.DefaultTransport = offline{}
	if err := os.Setenv("PATH", ""); err != nil { // kustomize would run git
		return err
	}
	if len(args) != 1 || args[0] != "serve" {
		return errors.New(usage)
	}
	if err := boundMemory(); err != nil {
		return err
	}
	return serve(in, out)
}

// request is one rendering. Links may not lead out of Root, which defaults to /.
type request struct {
	Kind   string   `json:"kind"`
	Root   string   `json:"root"`
	Dir    string   `json:"dir"`
	Values []string `json:"values"`
	// Lenient is as in lint/sets/render.go.
	Lenient bool `json:"lenient"`
}

type answer struct {
	Text      string   `json:"text,omitempty"`
	Files     []string `json:"files,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Missing   []string `json:"missing,omitempty"` // charts, except those that a condition may leave out
	Error     string   `json:"error,omitempty"`
}

// serve answers requests one by one: starting a process for each would take longer than most renderings.
func serve(in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r request
		switch err := requests.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		}
		a, err := r.render()
		if err != nil {
			a = answer{Error: strings.TrimSpace(err.Error())}
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

// render returns a library's panic as an error.
func (r request) render() (a answer, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("the library failed: %v", failed)
		}
	}()
	root := cmp.Or(r.Root, string(filepath.Separator))
	if err := inside(root, r.Dir); err != nil {
		return a, err
	}
	switch r.Kind {
	case "chart":
		if err := confine(root, r.Dir, map[string]bool{}); err != nil {
			return a, err
		}
		a.Namespace = namespace
		a.Text, a.Missing, err = renderChart(r.Dir, r.Values, r.Lenient)
	case "kustomization":
		a.Text, a.Files, err = renderKustomization(root, r.Dir)
	default:
		err = fmt.Errorf("kind %q: want chart or kustomization", r.Kind)
	}
	return a, err
}

// namespace is where charts are installed: unlike default, it can be deleted.
const namespace = "release"

// renderChart returns the output of helm template, with hooks, in installation order, under comments that
// name the templates. It skips the values schema, which may refer to remote ones.
func renderChart(dir string, files []string, lenient bool) (text string, missing []string, err error) {
	c, err := loader.LoadDir(dir)
	if err != nil && !unversioned(c) {
		return "", nil, err
	}
	var lacks []string
	for _, needed := range missingCharts(c) {
		lacks = append(lacks, needed.Name)
		if needed.Condition == "" && len(needed.Tags) == 0 {
			missing = append(missing, needed.Name)
		}
	}
	if len(lacks) > 0 && !lenient {
		return "", nil, fmt.Errorf("its charts/ lacks %s: run helm dependency build", strings.Join(lacks, ", "))
	}
	values := map[string]any{}
	for _, file := range files {
		more, err := readValues(file)
		if err != nil {
			return "", nil, err
		}
		values = loader.MergeMaps(values, more)
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return "", nil, fmt.Errorf("process the dependencies: %w", err)
	}
	release := common.ReleaseOptions{Name: "release", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := commonutil.ToRenderValuesWithSchemaValidation(c, values, release, nil, true)
	if err != nil {
		return "", nil, err
	}
	rendered, err := engine.Engine{LintMode: lenient}.RenderWithContext(context.Background(), c, all) // whoever started the process ends it
	if err != nil {
		return "", nil, err
	}
	for name := range rendered {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(rendered, name)
		}
	}
	hooks, objects, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", nil, err
	}
	for _, hook := range hooks {
		objects = append(objects, releaseutil.Manifest{Name: hook.Path, Content: hook.Manifest})
	}
	var out strings.Builder
	for _, object := range objects {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", object.Name, object.Content)
	}
	return out.String(), missing, nil
}

// unversioned sets a missing version, which some projects set at release, if the chart lacks nothing else.
// Its dependencies are not loaded then.
func unversioned(c *chart.Chart) bool {
	if c.Metadata == nil || len(c.Metadata.Dependencies) > 0 {
		return false
	}
	c.Metadata.Version = "0.0.0"
	return c.Validate() == nil
}

func missingCharts(c *chart.Chart) (missing []*chart.Dependency) {
	for _, needed := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(is *chart.Chart) bool { return is.Name() == needed.Name }) {
			missing = append(missing, needed)
		}
	}
	return missing
}

func readValues(file string) (map[string]any, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values, err := loader.LoadValues(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

// renderKustomization returns the output of kustomize build, with comments that name each object's file
// relative to dir, or its generator. It reads no files outside root and runs no plugins.
func renderKustomization(root, dir string) (text string, read []string, err error) {
	files := newConfined(root)
	top, err := filepath.EvalSymlinks(dir)
	if err == nil {
		top, err = filepath.Abs(top)
	}
	if err != nil {
		return "", nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(traced{files, top}, dir)
	if err != nil {
		if *files.refused != nil {
			return "", nil, *files.refused
		}
		return "", nil, err
	}
	sources := make([]string, 0, built.Size())
	for _, object := range built.Resources() {
		origin, err := object.GetOrigin()
		if err != nil {
			return "", nil, err
		}
		source := ""
		if origin != nil {
			source = cmp.Or(origin.Path, origin.ConfiguredIn)
		}
		sources = append(sources, source)
	}
	if err := built.RemoveOriginAnnotations(); err != nil {
		return "", nil, err
	}
	var out strings.Builder
	for i, object := range built.Resources() {
		content, err := object.AsYAML()
		if err != nil {
			return "", nil, err
		}
		out.WriteString("---\n")
		if sources[i] != "" && !strings.ContainsAny(sources[i], "\r\n") {
			fmt.Fprintf(&out, "# Source: %s\n", filepath.ToSlash(sources[i]))
		}
		out.Write(content)
	}
	return out.String(), *files.files, nil
}

// traced requests the origin of each object of the kustomization in top.
type traced struct {
	confined
	top string
}

func (t traced) ReadFile(path string) ([]byte, error) {
	text, err := t.confined.ReadFile(path)
	if err != nil || filepath.Dir(path) != t.top || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		return text, err
	}
	var k map[string]any
	if yaml.Unmarshal(text, &k) != nil || k == nil {
		return text, nil // kustomize reports the error
	}
	options, _ := k["buildMetadata"].([]any)
	k["buildMetadata"] = append(options, types.OriginAnnotations)
	if with, err := yaml.Marshal(k); err == nil {
		return with, nil
	}
	return text, nil
}
