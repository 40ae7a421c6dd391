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

	"github.com/termguard/termguard/lint/source"
	"github.com/termguard/termguard/lint/tree"
)

// argoController is the workload of Argo CD that removes the finalizers of Applications, as its manifests and
// its chart name it.
const argoController = "argocd-application-controller"

// prunes is the prefix of the finalizers with which Argo CD deletes the objects of an Application
// (github.com/argoproj/argo-cd, pkg/apis/application/v1alpha1/application_defaults.go).
const prunes = "resources-finalizer.argocd.argoproj.io"

// keeps is the option that exempts an object when Argo CD deletes the rest (argo-cd.readthedocs.io,
// user-guide/sync-options).
const keeps = "Delete=false"

// selves finds the Applications of a set, also in ApplicationSets, that deploy the Argo CD that manages them.
// It sets the status that Argo CD writes, for policies to read, and returns the controllers, which then run.
func (s *set) selves(subjects []*subject) (controllers []*unstructured.Unstructured) {
	for _, sub := range subjects {
		if !s.self(sub.Object, sub.object.Object) {
			continue
		}
		sub.self = true
		sub.object.Object["status"] = map[string]any{"resources": []any{map[string]any{"group": "apps", "kind": "StatefulSet", "name": argoController}}}
		labels := map[string]any{"app.kubernetes.io/name": argoController}
		controllers = append(controllers, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "StatefulSet",
			"metadata": map[string]any{"name": argoController, "namespace": sub.object.GetNamespace()},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "controller", "image": "quay.io/argoproj/argocd"}}}},
			},
		}})
	}
	return controllers
}

// deploysItself reports whether an object is such an Application, before the rest of its set is read:
// usually, Applications deploy something outside it.
func (s *set) deploysItself(o *source.Object) bool {
	if !quiet(o) || !(o.Kind == "ApplicationSet" || o.Kind == "Application" && slices.ContainsFunc(o.Finalizers(), deletes)) {
		return false
	}
	value, err := o.Value("kind", "metadata", "spec")
	return err == nil && wellFormed(value) && (s.self(o, value) || s.makes(o, value) != nil)
}

// makes returns an ApplicationSet's Application that deploys the Argo CD that manages it, nil if none surely
// does.
func (s *set) makes(o *source.Object, value map[string]any) map[string]any {
	if o.Kind != "ApplicationSet" || !quiet(o) {
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
		metadata["finalizers"] = []any{prunes}
	}
	text, err := json.Marshal(template)
	generators, _, _ := unstructured.NestedSlice(value, "spec", "generators")
	if err != nil {
		return nil
	}
	for _, generator := range generators {
		fields, _ := generator.(map[string]any)
		for _, filled := range s.generated(o, fields) {
			var app map[string]any
			if json.Unmarshal([]byte(filled.Replace(string(text))), &app) == nil && s.self(o, app) {
				return app
			}
		}
	}
	return nil
}

// generated returns a replacer for each Application of a generator; none for generators that combine others
// or query something.
func (s *set) generated(o *source.Object, generator map[string]any) (found []*strings.Replacer) {
	fill := func(params map[string]string) {
		var forms []string
		for key, value := range params {
			quoted, _ := json.Marshal(value)
			for _, form := range []string{"{{KEY}}", "{{ KEY }}", "{{.KEY}}", "{{ .KEY }}"} {
				forms = append(forms, strings.Replace(form, "KEY", key, 1), string(quoted[1:len(quoted)-1]))
			}
		}
		found = append(found, strings.NewReplacer(forms...))
	}
	elements, _, _ := unstructured.NestedSlice(generator, "list", "elements")
	for _, element := range elements {
		params := map[string]string{}
		fields, _ := element.(map[string]any)
		for key, value := range fields {
			if text, is := value.(string); is {
				params[key] = text
			}
		}
		fill(params)
	}
	if clusters, is := generator["clusters"].(map[string]any); is && clusters["selector"] == nil {
		fill(map[string]string{"name": "in-cluster", "nameNormalized": "in-cluster", "server": "https://kubernetes.default.svc"})
	}
	directories, _, _ := unstructured.NestedSlice(generator, "git", "directories")
	root := s.root(o)
	var globs, except []string
	for _, directory := range directories {
		fields, _ := directory.(map[string]any)
		if glob, _ := fields["path"].(string); fields["exclude"] == true {
			except = append(except, glob)
		} else if filepath.IsLocal(filepath.FromSlash(glob)) && root != "" {
			globs = append(globs, glob)
		}
	}
	for _, glob := range globs {
		folders, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(glob)))
		for _, folder := range folders {
			folder = filepath.ToSlash(strings.TrimPrefix(folder, root+string(filepath.Separator)))
			if !slices.ContainsFunc(except, func(glob string) bool { left, _ := path.Match(glob, folder); return left }) {
				fill(map[string]string{"path": folder, "path.path": folder, "path.basename": path.Base(folder), "path.basenameNormalized": path.Base(folder)})
			}
		}
	}
	return found
}

// deletes reports whether a finalizer makes Argo CD delete the objects of an Application.
func deletes(finalizer string) bool {
	return finalizer == prunes || strings.HasPrefix(finalizer, prunes+"/")
}

// self reports whether an Application has such a finalizer and deploys the Argo CD of its own namespace, in
// its own cluster. Any ambiguity counts as no.
func (s *set) self(o *source.Object, value map[string]any) bool {
	if value["kind"] != "Application" || !quiet(o) {
		return false
	}
	app := &unstructured.Unstructured{Object: value}
	namespace := app.GetNamespace()
	if namespace == "" || !slices.ContainsFunc(app.GetFinalizers(), deletes) {
		return false
	}
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(value, append([]string{"spec"}, fields...)...)
		return found
	}
	server, name := text("destination", "server"), text("destination", "name")
	here := server == "https://kubernetes.default.svc" && name == "" || server == "" && name == "in-cluster"
	if !here || text("destination", "namespace") != namespace {
		return false
	}
	if whole, err := yaml.Marshal(value["spec"]); err != nil || bytes.Contains(whole, []byte(keeps)) {
		return false
	}
	spec, _ := value["spec"].(map[string]any)
	sources, _ := spec["sources"].([]any)
	return slices.ContainsFunc(append(slices.Clone(sources), spec["source"]), func(item any) bool {
		from, _ := item.(map[string]any)
		repository, _ := from["repoURL"].(string)
		if chart, _ := from["chart"].(string); chart != "" {
			return chart == "argo-cd" && strings.Contains(repository, "argo")
		}
		folder, _ := from["path"].(string)
		return s.installsArgo(o, folder, namespace)
	})
}

// installsArgo reports whether a folder of an object's repository installs Argo CD. The Application may mean
// another repository, but the same folder there is likely the same; the root folder, which every repository
// has, is excluded.
func (s *set) installsArgo(o *source.Object, folder, namespace string) bool {
	root := s.root(o)
	if root == "" || filepath.Clean(folder) == "." || !filepath.IsLocal(filepath.FromSlash(folder)) {
		return false
	}
	found, kept := installsArgo(root, filepath.Join(root, filepath.FromSlash(folder)), namespace, maxDepth)
	return found && !kept
}

// root returns the root folder of an object's repository, or "".
func (s *set) root(o *source.Object) string {
	beside := s.folder
	if o.File != nil && o.File.Path != "" && s.build == nil {
		beside = filepath.Dir(o.File.Path)
	}
	if beside == "" {
		return ""
	}
	root, err := s.run.tree(beside)
	if err != nil {
		return ""
	}
	return root
}

// maxDepth bounds the nesting of kustomizations.
const maxDepth = 4

// remoteArgo matches remote bases that are Argo CD by name: argocd-autopilot's, or a folder of any
// repository.
var remoteArgo = regexp.MustCompile(`argocd-autopilot/+manifests\b|(^[^/?]+(/[^/?]+){2}/|//)([^?]*/)?argo-?cd/?(\?|$)`)

// installsArgo reports whether a folder installs Argo CD or has its namespace, and whether anything in it
// exempts an object from deletion by Argo CD.
func installsArgo(root, folder, namespace string, depth int) (found, kept bool) {
	if tree.Inside(root, folder) != nil {
		return false, false
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 200 {
		return false, false
	}
	d := &source.Directory{Path: folder}
	for _, entry := range entries {
		name := entry.Name()
		if source.IsKustomization(name) {
			d.Kustomization = name
		}
		if ext := filepath.Ext(name); !entry.Type().IsRegular() || ext != ".yaml" && ext != ".yml" && name != "Kustomization" {
			continue
		}
		file := filepath.Join(folder, name)
		if says(file, keeps) {
			kept = true
		}
		found = found || name == "Chart.yaml" && dependsOnArgo(file)
		d.Manifests = append(d.Manifests, name)
	}
	if d.Kustomization == "" {
		return found || slices.ContainsFunc(d.Manifests, func(name string) bool { return holdsController(filepath.Join(folder, name), namespace) }), kept
	}
	k, err := readKustomization(d)
	if err != nil {
		return false, kept
	}
	for _, charts := range [][]yaml.Node{k.HelmCharts, k.HelmChartInflationGenerator} {
		for _, node := range charts {
			var chart struct {
				Name      string
				ChartName string `yaml:"chartName"`
			}
			found = found || node.Decode(&chart) == nil && (chart.Name == "argo-cd" || chart.ChartName == "argo-cd")
		}
	}
	for _, name := range slices.Concat(k.Resources, k.Bases) {
		if isFar(name) {
			found = found || strings.Contains(name, "argoproj/argo-cd") && strings.Contains(name, "manifests") && !strings.Contains(name, "manifests/crds") ||
				remoteArgo.MatchString(strings.TrimPrefix(name, "https://"))
			continue
		}
		part := filepath.Join(folder, filepath.FromSlash(name))
		if info, err := os.Stat(part); err != nil {
			continue
		} else if !info.IsDir() {
			found = found || tree.Inside(root, part) == nil && holdsController(part, namespace)
		} else if depth > 0 {
			below, spared := installsArgo(root, part, namespace, depth-1)
			found, kept = found || below, kept || spared
		}
	}
	return found, kept
}

// holdsController reports whether a file has Argo CD's controller or its namespace.
func holdsController(file, namespace string) bool {
	if held := (&source.File{Path: file}).Holds(make([]byte, 32<<10), argoController, "Namespace"); !held[0] && !held[1] {
		return false
	}
	f := &source.File{Name: file, Path: file}
	found := false
	for c := range f.Read() {
		for _, o := range c.Objects {
			found = found || o.Name == argoController && slices.Contains([]string{"StatefulSet", "Deployment"}, o.Kind) ||
				o.Kind == "Namespace" && o.Name == namespace
		}
	}
	return found
}

// dependsOnArgo reports whether a chart depends on Argo CD's.
func dependsOnArgo(file string) bool {
	if !says(file, "argo-cd") {
		return false
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxKustomization {
		return false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	var chart struct{ Dependencies []struct{ Name string } }
	return yaml.Unmarshal(text, &chart) == nil && slices.ContainsFunc(chart.Dependencies, func(d struct{ Name string }) bool { return d.Name == "argo-cd" })
}

// says reports whether a file holds a word.
func says(file, word string) bool {
	return (&source.File{Path: file}).Holds(make([]byte, 32<<10), word)[0]
}
