// Command termguard-render renders Helm charts and kustomizations for termguard
// lint --render, with the libraries of helm and kustomize. They would make
// termguard half as large again, and every start of it slower: so they are a
// program, and a module, of their own.
//
// It opens no network connection and runs no other program: what a chart or a
// kustomization needs from elsewhere is an error.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const usage = `usage: termguard-render chart [--root DIR] [--values FILE]... DIR
       termguard-render kustomization [--root DIR] DIR

Links that lead out of the root (default: DIR) are an error`

func main() {
	log.SetOutput(io.Discard) // the libraries', which repeats what errors tell
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(err.Error()))
		os.Exit(1)
	}
}

// offline refuses what would leave this machine.
type offline struct{}

func (offline) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is elsewhere, and nothing is fetched", r.URL.Redacted())
}

func run(args []string, out io.Writer) error {
	http.DefaultTransport = offline{}
	if err := os.Setenv("PATH", ""); err != nil { // kustomize would look for git
		return err
	}
	if len(args) == 0 {
		return errors.New(usage)
	}
	if err := boundMemory(); err != nil {
		return err
	}
	var values []string
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("values", "", func(file string) error { values = append(values, file); return nil })
	root := flags.String("root", "", "")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() != 1 {
		return errors.New(usage)
	}
	dir := flags.Arg(0)
	if err := inside(cmp.Or(*root, dir), dir); err != nil {
		return err
	}
	switch args[0] {
	case "chart":
		if err := confine(cmp.Or(*root, dir), dir, map[string]bool{}); err != nil {
			return err
		}
		return renderChart(dir, values, out)
	case "kustomization":
		return renderKustomization(*root, dir, out)
	default:
		return errors.New(usage)
	}
}

// renderChart writes what helm template writes of a chart: the objects with
// comments that name their templates, hooks too, in the order of an installation.
// Values are not held to the chart's schema, which may name what is elsewhere.
func renderChart(dir string, files []string, out io.Writer) error {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return err
	}
	if missing := missingCharts(c); len(missing) > 0 {
		return fmt.Errorf("its charts/ lacks %s: run helm dependency build", strings.Join(missing, ", "))
	}
	values := map[string]any{}
	for _, file := range files {
		more, err := readValues(file)
		if err != nil {
			return err
		}
		values = loader.MergeMaps(values, more)
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return fmt.Errorf("process the dependencies: %w", err)
	}
	release := common.ReleaseOptions{Name: "release", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := commonutil.ToRenderValuesWithSchemaValidation(c, values, release, nil, true)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return err
	}
	for name := range rendered {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(rendered, name)
		}
	}
	hooks, objects, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		objects = append(objects, releaseutil.Manifest{Name: hook.Path, Content: hook.Manifest})
	}
	for _, object := range objects {
		if _, err := fmt.Fprintf(out, "---\n# Source: %s\n%s\n", object.Name, object.Content); err != nil {
			return err
		}
	}
	return nil
}

// missingCharts are the dependencies of a chart that are not in its charts/.
func missingCharts(c *chart.Chart) (missing []string) {
	for _, needed := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(is *chart.Chart) bool { return is.Name() == needed.Name }) {
			missing = append(missing, needed.Name)
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

// renderKustomization writes what kustomize build writes. Files outside the
// folder are not read, and no plugin runs.
func renderKustomization(root, dir string, out io.Writer) error {
	files := filesys.MakeFsOnDisk()
	if root != "" {
		files = confined{files, root}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		return err
	}
	text, err := built.AsYaml()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
