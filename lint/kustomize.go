package lint

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/lint/source"
)

// kustomized is what a folder's kustomization says of what is in it.
type kustomized struct {
	directory *source.Directory
	parts     []string        // the folders that it is made of
	files     map[string]bool // that it names, relative to the folder
	narrows   bool            // it patches what webhooks see
	namespace string          // that it sets, "" if none
	far       string          // what it needs from elsewhere, "" if nothing
	plain     bool            // it says no more than what it is made of
	component bool            // it says how to change others
}

// kustomization is what lint reads of one
// (sigs.k8s.io/kustomize/api/types, Kustomization).
type kustomization struct {
	APIVersion                         string `yaml:"apiVersion"`
	Kind                               string
	Namespace                          string
	Resources, Bases, Components, CRDs []string
	Generators, Transformers           []string
	Validators, Configurations         []string
	Patches                            []struct{ Path, Patch string }
	PatchesStrategicMerge              []string                       `yaml:"patchesStrategicMerge"`
	PatchesJSON6902                    []struct{ Path, Patch string } `yaml:"patchesJson6902"`
	HelmCharts                         []yaml.Node                    `yaml:"helmCharts"`
	HelmChartInflationGenerator        []yaml.Node                    `yaml:"helmChartInflationGenerator"`
	Rest                               map[string]any                 `yaml:",inline"`
}

// maxKustomization bounds the bytes of one.
const maxKustomization = 1 << 20

// readKustomization reads that of a folder; what cannot be read says nothing.
func readKustomization(d *source.Directory) (k kustomization, err error) {
	path := filepath.Join(d.Path, d.Kustomization)
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxKustomization {
		return k, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	return k, yaml.Unmarshal(text, &k)
}

// far is what a kustomization needs from elsewhere, "" if nothing: lint opens no
// network connection, and has none opened.
func (k kustomization) far() string {
	if len(k.HelmCharts)+len(k.HelmChartInflationGenerator) > 0 {
		return "a Helm chart"
	}
	for _, name := range slices.Concat(k.Resources, k.Bases, k.Components, k.CRDs, k.Generators, k.Transformers, k.Validators, k.Configurations) {
		if isFar(name) {
			return name
		}
	}
	for _, patch := range k.Patches {
		if isFar(patch.Path) {
			return patch.Path
		}
	}
	return ""
}

// plain tells whether a kustomization says no more than what it is made of, so that its
// files hold what will be applied. One with an absolute path is refused by kustomize, which
// tells why.
func (k kustomization) plain() bool {
	for key := range k.Rest {
		if !slices.Contains([]string{"metadata", "sortOptions", "buildMetadata"}, key) {
			return false
		}
	}
	return k.Namespace == "" && len(k.Components)+len(k.Generators)+len(k.Transformers)+len(k.Patches)+len(k.PatchesStrategicMerge)+len(k.PatchesJSON6902) == 0 &&
		!slices.ContainsFunc(slices.Concat(k.Resources, k.Bases), filepath.IsAbs)
}

// tops are the kustomizations that are to be rendered: those that are part of no other,
// and of which the files do not hold what will be applied. Of those in a circle, it is one:
// the renderer tells.
func (r *run) tops() (found []*source.Directory) {
	of := r.parents()
	read := map[string]bool{} // folders
	for _, i := range r.sets {
		for _, d := range i.directories {
			read[d.Path] = true
		}
	}
	var far func(folder string, seen map[string]bool) string
	far = func(folder string, seen map[string]bool) string {
		k := r.kustomized[folder]
		if seen[folder] || k.far != "" {
			return k.far
		}
		seen[folder] = true
		for _, part := range k.parts {
			if needs := far(part, seen); needs != "" {
				return needs
			}
		}
		return ""
	}
	var plain func(folder string, seen map[string]bool) bool
	plain = func(folder string, seen map[string]bool) bool {
		k, known := r.kustomized[folder]
		if !known {
			return read[folder] // else its files are not
		}
		if seen[folder] {
			return false // a circle
		}
		seen[folder] = true
		return k.plain && len(of[folder]) <= 1 && !slices.ContainsFunc(k.parts, func(part string) bool { return !plain(part, seen) })
	}
	reached := map[string]bool{} // from those before
	var reach func(folder string)
	reach = func(folder string) {
		if !reached[folder] {
			reached[folder] = true
			for _, part := range r.kustomized[folder].parts {
				if slices.Contains(of[part], folder) {
					reach(part)
				}
			}
		}
	}
	all := slices.Sorted(maps.Keys(r.kustomized))
	parts := func(folder string) int { return min(len(of[folder]), 1) }
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(parts(a), parts(b)) })
	for _, folder := range all {
		k := r.kustomized[folder]
		if reached[folder] {
			continue
		}
		if reach(folder); k.component && len(of[folder]) == 0 {
			continue
		}
		if needs := far(folder, map[string]bool{}); needs != "" {
			r.found.notes.far = append(r.found.notes.far, k.directory.Name)
			continue
		}
		if plain(folder, map[string]bool{}) {
			continue
		}
		found = append(found, k.directory)
	}
	return found
}

// parents are, by part of a kustomization, the folders of those that it is part of.
func (r *run) parents() map[string][]string {
	of := map[string][]string{}
	for folder, k := range r.kustomized {
		for _, part := range k.parts {
			if part != folder && !slices.Contains(of[part], folder) && filepath.Base(part) != "samples" {
				of[part] = append(of[part], folder)
			}
		}
	}
	return of
}

// isFar tells whether kustomize would fetch what an entry names
// (sigs.k8s.io/kustomize/api/internal/git, NewRepoSpecFromURL): text in the place of
// a name holds line breaks.
func isFar(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return !strings.Contains(name, "\n") &&
		(strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.Contains(name, "?ref=") ||
			slices.Contains([]string{"github.com", "gitlab.com", "bitbucket.org"}, strings.TrimPrefix(host, "www.")))
}

// parts are the folders that a kustomization is made of, those below it too of which it
// names files.
func (k kustomization) parts(d *source.Directory) []string {
	var folders []string
	for _, name := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if isFar(name) || filepath.IsAbs(name) {
			continue
		}
		folder := filepath.FromSlash(name)
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			if folder = filepath.Dir(folder); folder == "." || !filepath.IsLocal(folder) {
				continue
			}
		}
		folders = append(folders, filepath.Join(d.Path, folder))
	}
	return folders
}

// files are the manifests that a kustomization names, for whatever.
func (k kustomization) files() map[string]bool {
	named := slices.Concat(k.Resources, k.Bases, k.Components, k.CRDs, k.Generators, k.Transformers, k.Validators, k.Configurations, k.PatchesStrategicMerge)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		named = append(named, patch.Path)
	}
	files := map[string]bool{}
	for _, name := range named {
		files[filepath.Clean(filepath.FromSlash(name))] = true
	}
	return files
}

// names tells whether the kustomization of a file's folder names it, if there is one that
// can be read.
func (r *run) names(file *source.File) bool {
	if file.Rendered != "" {
		return true
	}
	dir, base := filepath.Split(file.Path)
	k, known := r.kustomized[filepath.Clean(dir)]
	return !known || k.files[base]
}

// passedOver reports whether an object is in a file that no kustomization names, while one names
// another file of the folder that has the object, too: that one is applied.
func (r *run) passedOver(o *source.Object) bool {
	folder, base := filepath.Split(o.File.Path)
	folder = filepath.Clean(folder)
	if files := r.named[folder]; len(files) == 0 || files[base] {
		return false
	}
	read, _ := r.applied.LoadOrStore(folder, sync.OnceValue(func() map[identity]bool {
		held := map[identity]bool{}
		for name := range r.named[folder] {
			for c := range (&source.File{Name: name, Path: filepath.Join(folder, name)}).Read() {
				for _, other := range c.Objects {
					held[identityOf(other)] = true
				}
			}
		}
		return held
	}))
	return read.(func() map[identity]bool)()[identityOf(o)]
}

// placeholder is the namespace that the files of a kubebuilder project are in, until the
// kustomization beside them fills in another
// (sigs.k8s.io/kubebuilder, pkg/plugins/common/kustomize/v2/scaffolds).
const placeholder = "system"

// fill puts a namespace into the place of the placeholder, as kustomize does.
func fill(value any, namespace string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			fill(item, namespace)
		}
	case map[string]any:
		for key, item := range value {
			if key == "namespace" && item == placeholder {
				value[key] = namespace
				continue
			}
			fill(item, namespace)
		}
	}
}

// narrows tells whether a kustomization has a patch that changes what webhooks see,
// or what happens while they are down. Without it, what a file says of them holds
// nowhere.
func (k kustomization) narrows(d *source.Directory) bool {
	texts := slices.Clone(k.PatchesStrategicMerge) // names of files, or patches themselves
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		texts = append(texts, patch.Path, patch.Patch)
	}
	for _, text := range texts {
		if text == "" || isFar(text) {
			continue
		}
		if !strings.Contains(text, "\n") {
			file := filepath.Join(d.Path, filepath.FromSlash(text))
			if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxKustomization {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			text = string(content)
		}
		if strings.Contains(text, "webhooks") && slices.ContainsFunc([]string{"namespaceSelector", "objectSelector", "matchConditions", "failurePolicy"}, func(key string) bool {
			return strings.Contains(text, key)
		}) {
			return true
		}
	}
	return false
}

// join puts the parts of a kustomization into its set, as kubectl delete -k takes
// them: those that are part of no other. Examples that are only shipped beside it
// are no part of what is deployed, and neither are files that no kustomization names:
// those of a folder remain a set.
func (r *run) join() {
	of := r.parents()
	whole := func(folder string) string {
		for seen := map[string]bool{}; len(of[folder]) == 1 && !seen[folder]; folder = of[folder][0] {
			seen[folder] = true // in a circle, wherever it is left
		}
		return folder
	}
	into := map[string]*input{}
	for _, i := range r.sets {
		if folder := i.folder(); folder != "" && whole(folder) == folder {
			into[folder] = i
		}
	}
	r.sets = slices.DeleteFunc(r.sets, func(i *input) bool {
		other := into[whole(i.folder())]
		if i.folder() == "" || other == nil || other == i {
			return false
		}
		other.directories = append(other.directories, i.directories...)
		return true
	})
	r.named = map[string]map[string]bool{}
	for folder, k := range r.kustomized {
		for file := range k.files {
			if filepath.Ext(file) == "" {
				continue // a folder
			}
			below := filepath.Join(folder, filepath.Dir(file))
			if r.named[below] == nil {
				r.named[below] = map[string]bool{}
			}
			r.named[below][filepath.Base(file)] = true
		}
	}
	for _, i := range r.sets {
		if len(i.directories) < 2 {
			continue
		}
		for n, d := range i.directories {
			files := r.named[d.Path]
			if k, known := r.kustomized[d.Path]; known {
				files = k.files
			}
			if files == nil {
				continue
			}
			of, rest := *d, *d
			of.Manifests, rest.Manifests = nil, nil
			for _, base := range d.Manifests {
				if files[base] {
					of.Manifests = append(of.Manifests, base)
				} else {
					rest.Manifests = append(rest.Manifests, base)
				}
			}
			i.directories[n] = &of
			r.sets = append(r.sets, &input{directories: []*source.Directory{&rest}})
		}
	}
}
