package lint

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
)

// argoController, so named in Argo CD's manifests and chart, removes the finalizers of Applications.
const argoController = "argocd-application-controller"

// argoFinalizer, also with a suffix, makes Argo CD delete an Application's objects
// (github.com/argoproj/argo-cd, pkg/apis/application/v1alpha1/application_defaults.go).
const argoFinalizer = "resources-finalizer.argocd.argoproj.io"

// noDeleteOption exempts an object from Argo CD's deletion (argo-cd.readthedocs.io, user-guide/sync-options).
const noDeleteOption = "Delete=false"

// selfManagedControllers returns the controllers of Applications that deploy their own Argo CD, and sets the
// status that policies read.
func (e *evaluator) selfManagedControllers(subjects []*subject) (controllers []*unstructured.Unstructured) {
	for _, sub := range subjects {
		if !e.isSelfManagedApp(sub.Object, sub.object.Object) {
			continue
		}
		sub.selfManaged = true
		sub.object.Object["status"] = map[string]any{"resources": []any{map[string]any{"group": "apps", "kind": "StatefulSet", "name": argoController}}}
		controllers = append(controllers, deployed("StatefulSet", sub.object.GetNamespace(), argoController, "quay.io/argoproj/argocd"))
	}
	return controllers
}

func (e *evaluator) generatedApp(o *files.Object, value map[string]any) map[string]any {
	if o.Kind != "ApplicationSet" || !isGitOps(o) {
		return nil
	}
	template, _, _ := unstructured.NestedMap(value, "spec", "template")
	metadata, _ := template["metadata"].(map[string]any)
	namespace, _, _ := unstructured.NestedString(value, "metadata", "namespace")
	if metadata == nil || !wellFormed(template) {
		return nil
	}
	template["apiVersion"], template["kind"], metadata["namespace"] = o.APIVersion, "Application", namespace
	preserves, _, _ := unstructured.NestedBool(value, "spec", "syncPolicy", "preserveResourcesOnDeletion")
	if _, given := metadata["finalizers"]; !given && !preserves { // applicationset/utils/utils.go, RenderTemplateParams
		metadata["finalizers"] = []any{argoFinalizer}
	}
	text, err := json.Marshal(template)
	if err != nil {
		return nil
	}
	for _, generator := range cluster.Items(value, "spec", "generators") {
		for _, replacer := range e.generatorReplacers(o, generator) {
			var app map[string]any
			if json.Unmarshal([]byte(replacer.Replace(string(text))), &app) == nil && e.isSelfManagedApp(o, app) {
				return app
			}
		}
	}
	return nil
}

// generatorReplacers ignores generators that combine others or query something.
func (e *evaluator) generatorReplacers(o *files.Object, generator map[string]any) (replacers []*strings.Replacer) {
	fill := func(params map[string]string) {
		var forms []string
		for key, value := range params {
			quoted, _ := json.Marshal(value)
			for _, form := range []string{"{{KEY}}", "{{ KEY }}", "{{.KEY}}", "{{ .KEY }}"} {
				forms = append(forms, strings.Replace(form, "KEY", key, 1), string(quoted[1:len(quoted)-1]))
			}
		}
		replacers = append(replacers, strings.NewReplacer(forms...))
	}
	for _, element := range cluster.Items(generator, "list", "elements") {
		params := map[string]string{}
		for key, value := range element {
			if text, ok := value.(string); ok {
				params[key] = text
			}
		}
		fill(params)
	}
	if clusters, ok := generator["clusters"].(map[string]any); ok && clusters["selector"] == nil {
		fill(map[string]string{"name": "in-cluster", "nameNormalized": "in-cluster", "server": "https://kubernetes.default.svc"})
	}
	root := e.Root(o)
	var globs, excludes []string
	for _, directory := range cluster.Items(generator, "git", "directories") {
		if glob, _ := directory["path"].(string); directory["exclude"] == true {
			excludes = append(excludes, glob)
		} else if filepath.IsLocal(filepath.FromSlash(glob)) && root != "" {
			globs = append(globs, glob)
		}
	}
	for _, glob := range globs {
		folders, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(glob)))
		for _, folder := range folders {
			folder = filepath.ToSlash(strings.TrimPrefix(folder, root+string(filepath.Separator)))
			if !slices.ContainsFunc(excludes, func(glob string) bool { excluded, _ := path.Match(glob, folder); return excluded }) {
				fill(map[string]string{"path": folder, "path.path": folder, "path.basename": path.Base(folder), "path.basenameNormalized": path.Base(folder)})
			}
		}
	}
	return replacers
}

func isArgoFinalizer(finalizer string) bool {
	return finalizer == argoFinalizer || strings.HasPrefix(finalizer, argoFinalizer+"/")
}

// isSelfManagedApp reports whether an Application with argoFinalizer certainly deploys its own Argo CD.
func (e *evaluator) isSelfManagedApp(o *files.Object, value map[string]any) bool {
	if value["kind"] != "Application" || !isGitOps(o) {
		return false
	}
	app := &unstructured.Unstructured{Object: value}
	namespace := app.GetNamespace()
	if namespace == "" || !slices.ContainsFunc(app.GetFinalizers(), isArgoFinalizer) {
		return false
	}
	type appSource struct{ RepoURL, Chart, Path string }
	var spec struct {
		Destination struct{ Server, Name, Namespace string }
		Source      appSource
		Sources     []appSource
	}
	text, err := json.Marshal(value["spec"])
	if err != nil || bytes.Contains(text, []byte(noDeleteOption)) || json.Unmarshal(text, &spec) != nil {
		return false
	}
	to := spec.Destination
	inCluster := to.Server == "https://kubernetes.default.svc" && to.Name == "" || to.Server == "" && to.Name == "in-cluster"
	return inCluster && to.Namespace == namespace && slices.ContainsFunc(append(spec.Sources, spec.Source), func(from appSource) bool {
		if from.Chart != "" {
			return from.Chart == "argo-cd" && strings.Contains(from.RepoURL, "argo")
		}
		return e.sourceInstallsArgo(o, from.Path, namespace)
	})
}

// sourceInstallsArgo assumes the object's own repository; the root folder, which every repository has, does
// not count.
func (e *evaluator) sourceInstallsArgo(o *files.Object, folder, namespace string) bool {
	root := e.Root(o)
	if root == "" || filepath.Clean(folder) == "." || !filepath.IsLocal(filepath.FromSlash(folder)) {
		return false
	}
	installs, exempts := folderInstallsArgo(root, filepath.Join(root, filepath.FromSlash(folder)), namespace, maxDepth)
	return installs && !exempts
}

// maxDepth bounds the nesting of kustomizations.
const maxDepth = 4

// remoteArgo matches argocd-autopilot's base, or a folder of Argo CD's name in any repository.
var remoteArgo = regexp.MustCompile(`argocd-autopilot/+manifests\b|(^[^/?]+(/[^/?]+){2}/|//)([^?]*/)?argo-?cd/?(\?|$)`)

// folderInstallsArgo also looks for noDeleteOption.
func folderInstallsArgo(root, folder, namespace string, depth int) (installs, exempts bool) {
	if files.Inside(root, folder) != nil {
		return false, false
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 200 {
		return false, false
	}
	d := &files.Directory{Path: folder}
	for _, entry := range entries {
		name := entry.Name()
		if files.IsKustomization(name) {
			d.Kustomization = name
		}
		if ext := filepath.Ext(name); !entry.Type().IsRegular() || ext != ".yaml" && ext != ".yml" && name != "Kustomization" {
			continue
		}
		file := filepath.Join(folder, name)
		if (&files.File{Path: file}).Contains(noDeleteOption) {
			exempts = true
		}
		installs = installs || name == "Chart.yaml" && dependsOnArgo(file)
		d.Manifests = append(d.Manifests, name)
	}
	if d.Kustomization == "" {
		return installs || slices.ContainsFunc(d.Manifests, func(name string) bool { return containsArgoController(filepath.Join(folder, name), namespace) }), exempts
	}
	k, err := sets.ReadKustomization(d)
	if err != nil {
		return false, exempts
	}
	for _, chart := range slices.Concat(k.HelmCharts, k.HelmChartInflationGenerator) {
		installs = installs || chart.Name == "argo-cd" || chart.ChartName == "argo-cd"
	}
	for _, name := range slices.Concat(k.Resources, k.Bases) {
		if sets.IsRemote(name) {
			installs = installs || strings.Contains(name, "argoproj/argo-cd") && strings.Contains(name, "manifests") && !strings.Contains(name, "manifests/crds") ||
				remoteArgo.MatchString(strings.TrimPrefix(name, "https://"))
			continue
		}
		part := filepath.Join(folder, filepath.FromSlash(name))
		if info, err := os.Stat(part); err != nil {
			continue
		} else if !info.IsDir() {
			installs = installs || files.Inside(root, part) == nil && containsArgoController(part, namespace)
		} else if depth > 0 {
			installsBelow, exemptsBelow := folderInstallsArgo(root, part, namespace, depth-1)
			installs, exempts = installs || installsBelow, exempts || exemptsBelow
		}
	}
	return installs, exempts
}

func containsArgoController(file, namespace string) bool {
	contains := false
	for c := range (&files.File{Path: file}).ReadMatching(files.ContainsAny(argoController, "Namespace")) {
		for _, o := range c.Objects {
			contains = contains || o.Name == argoController && slices.Contains([]string{"StatefulSet", "Deployment"}, o.Kind) ||
				o.Kind == "Namespace" && o.Name == namespace
		}
	}
	return contains
}

func dependsOnArgo(file string) bool {
	text, err := sets.ReadSmall(file)
	var chart struct{ Dependencies []struct{ Name string } }
	return err == nil && yaml.Unmarshal(text, &chart) == nil && slices.ContainsFunc(chart.Dependencies, func(d struct{ Name string }) bool { return d.Name == "argo-cd" })
}
