package sets

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/lint/files"
)

// Kustomization is the part that lint reads (sigs.k8s.io/kustomize/api/types, Kustomization).
type Kustomization struct {
	directory *files.Directory
	files     map[string]bool // that it names, relative to the folder

	APIVersion                         string `yaml:"apiVersion"`
	Kind                               string
	Namespace                          string
	Resources, Bases, Components, CRDs []string
	Generators, Transformers           []string
	Validators, Configurations         []string
	Patches                            []patch
	PatchesStrategicMerge              []string       `yaml:"patchesStrategicMerge"`
	PatchesJSON6902                    []patch        `yaml:"patchesJson6902"`
	HelmCharts                         []helmChart    `yaml:"helmCharts"`
	HelmChartInflationGenerator        []helmChart    `yaml:"helmChartInflationGenerator"`
	Rest                               map[string]any `yaml:",inline"`
}

type patch struct{ Path, Patch string }

type helmChart struct {
	Name      string
	ChartName string `yaml:"chartName"`
	Namespace string
}

// ReadSmall reads an ordinary file of at most 1 MiB, such as a kustomization.
func ReadSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > 1<<20:
		return nil, errors.New("it is no ordinary file of at most 1 MiB")
	}
	return os.ReadFile(path)
}

func ReadKustomization(d *files.Directory) (k Kustomization, err error) {
	k.directory = d
	text, err := ReadSmall(filepath.Join(d.Path, d.Kustomization))
	if err != nil {
		return k, err
	}
	err = yaml.Unmarshal(text, &k)
	k.files = k.namedFiles()
	return k, err
}

// isRemote reports whether a kustomization has remote references, which nothing here fetches.
func (k Kustomization) isRemote() bool {
	return len(k.HelmCharts)+len(k.HelmChartInflationGenerator) > 0 ||
		slices.ContainsFunc(slices.Concat(k.Resources, k.Bases, k.Components, k.CRDs, k.Generators, k.Transformers, k.Validators, k.Configurations), IsRemote) ||
		slices.ContainsFunc(k.Patches, func(p patch) bool { return IsRemote(p.Path) })
}

// isPlain reports whether a kustomization includes only unchanged files. An absolute path is rendered, for
// kustomize's error.
func (k Kustomization) isPlain() bool {
	for key := range k.Rest {
		if !slices.Contains([]string{"metadata", "sortOptions", "buildMetadata"}, key) {
			return false
		}
	}
	return k.Namespace == "" && len(k.Components)+len(k.Generators)+len(k.Transformers)+len(k.Patches)+len(k.PatchesStrategicMerge)+len(k.PatchesJSON6902) == 0 &&
		!slices.ContainsFunc(slices.Concat(k.Resources, k.Bases), filepath.IsAbs)
}

// rootKustomizations returns the roots to render, and one folder of a circle, for the renderer's error.
func (in *Input) rootKustomizations() (roots []*files.Directory) {
	parents := in.parents()
	read := map[string]bool{}
	for _, s := range in.Sets {
		for _, d := range s.directories {
			read[d.Path] = true
		}
	}
	all := slices.Sorted(maps.Keys(in.kustomizations))
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(min(len(parents[a]), 1), min(len(parents[b]), 1)) })
	reached := map[string]bool{}
	for _, folder := range all {
		if reached[folder] {
			continue
		}
		for _, part := range in.below(folder, func(from, part string) bool { return slices.Contains(parents[part], from) }) {
			reached[part] = true
		}
		k := in.kustomizations[folder]
		parts := in.below(folder, func(_, _ string) bool { return true })
		isPlain := func(part string) bool {
			k, ok := in.kustomizations[part]
			if !ok {
				return read[part]
			}
			circle := slices.Contains(k.parts(), folder) || slices.Contains(k.parts(), part)
			return k.isPlain() && len(parents[part]) <= 1 && !circle
		}
		switch {
		case k.Kind == "Component" && len(parents[folder]) == 0:
		case slices.ContainsFunc(parts, func(part string) bool { return in.kustomizations[part].isRemote() }):
			in.AddNote(remoteKustomization, k.directory.Name)
		case slices.ContainsFunc(parts, func(part string) bool { return !isPlain(part) }):
			roots = append(roots, k.directory)
		}
	}
	return roots
}

// below includes the folder itself.
func (in *Input) below(folder string, includes func(from, part string) bool) []string {
	folders, seen := []string{folder}, map[string]bool{folder: true}
	for at := 0; at < len(folders); at++ {
		for _, part := range in.kustomizations[folders[at]].parts() {
			if !seen[part] && includes(folders[at], part) {
				seen[part] = true
				folders = append(folders, part)
			}
		}
	}
	return folders
}

func (in *Input) parents() map[string][]string {
	parents := map[string][]string{}
	for folder, k := range in.kustomizations {
		for _, part := range k.parts() {
			if part != folder && !slices.Contains(parents[part], folder) && filepath.Base(part) != "samples" {
				parents[part] = append(parents[part], folder)
			}
		}
	}
	return parents
}

// IsRemote reports whether kustomize would fetch an entry (sigs.k8s.io/kustomize/api/internal/git,
// NewRepoSpecFromURL). Inline text has line breaks.
func IsRemote(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return !strings.Contains(name, "\n") &&
		(strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.Contains(name, "?ref=") ||
			slices.Contains([]string{"github.com", "gitlab.com", "bitbucket.org"}, strings.TrimPrefix(host, "www.")))
}

// parts returns the included folders, and those below with an included file.
func (k Kustomization) parts() []string {
	var folders []string
	for _, name := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if IsRemote(name) || filepath.IsAbs(name) {
			continue
		}
		folder := filepath.FromSlash(name)
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			if folder = filepath.Dir(folder); folder == "." || !filepath.IsLocal(folder) {
				continue
			}
		}
		folders = append(folders, filepath.Join(k.directory.Path, folder))
	}
	return folders
}

func (k Kustomization) namedFiles() map[string]bool {
	names := slices.Concat(k.Resources, k.Bases, k.Components, k.CRDs, k.Generators, k.Transformers, k.Validators, k.Configurations, k.PatchesStrategicMerge)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		names = append(names, patch.Path)
	}
	files := map[string]bool{}
	for _, name := range names {
		files[filepath.Clean(filepath.FromSlash(name))] = true
	}
	return files
}

// IsListed reports whether a file's kustomization names it, or is missing or unreadable.
func (in *Input) IsListed(file *files.File) bool {
	if file.Rendered != "" {
		return true
	}
	dir, base := filepath.Split(file.Path)
	k, ok := in.kustomizations[filepath.Clean(dir)]
	return !ok || k.files[base]
}

// IsSuperseded reports whether a kustomization names only another file of the folder with the same object.
func (in *Input) IsSuperseded(o *files.Object) bool {
	folder, base := filepath.Split(o.File.Path)
	folder = filepath.Clean(folder)
	if files := in.listed[folder]; len(files) == 0 || files[base] {
		return false
	}
	read, _ := in.objectCache.LoadOrStore(folder, sync.OnceValue(func() map[identity]bool {
		identities := map[identity]bool{}
		for name := range in.listed[folder] {
			for c := range (&files.File{Name: name, Path: filepath.Join(folder, name)}).Read() {
				for _, other := range c.Objects {
					identities[identityOf(other)] = true
				}
			}
		}
		return identities
	}))
	return read.(func() map[identity]bool)()[identityOf(o)]
}

// placeholder is the namespace that a kubebuilder project's kustomization replaces (sigs.k8s.io/kubebuilder,
// pkg/plugins/common/kustomize/v2/scaffolds).
const placeholder = "system"

func replacePlaceholder(value any, namespace string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			replacePlaceholder(item, namespace)
		}
	case map[string]any:
		for key, item := range value {
			if key == "namespace" && item == placeholder {
				value[key] = namespace
				continue
			}
			replacePlaceholder(item, namespace)
		}
	}
}

// PatchesWebhooks reports whether a kustomization of the set changes which requests webhooks match, or their
// failure policy.
func (s *Set) PatchesWebhooks() bool {
	return slices.ContainsFunc(s.directories, func(d *files.Directory) bool { return s.kustomizations[d.Path].patchesWebhooks() })
}

func (k Kustomization) patchesWebhooks() bool {
	texts := slices.Clone(k.PatchesStrategicMerge) // file names, or inline patches
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		texts = append(texts, patch.Path, patch.Patch)
	}
	for _, text := range texts {
		if text == "" || IsRemote(text) {
			continue
		}
		if !strings.Contains(text, "\n") {
			content, err := ReadSmall(filepath.Join(k.directory.Path, filepath.FromSlash(text)))
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

// joinKustomizations merges parts that only one kustomization includes into its set, as for kubectl delete
// -k. Samples and unnamed files, which are not deployed with it, remain a set.
func (in *Input) joinKustomizations() {
	parents := in.parents()
	whole := func(folder string) string {
		for seen := map[string]bool{}; len(parents[folder]) == 1 && !seen[folder]; folder = parents[folder][0] {
			seen[folder] = true // a circle may be left anywhere
		}
		return folder
	}
	into := map[string]*Set{}
	for _, s := range in.Sets {
		if folder := s.folder(); folder != "" && whole(folder) == folder {
			into[folder] = s
		}
	}
	in.Sets = slices.DeleteFunc(in.Sets, func(s *Set) bool {
		other := into[whole(s.folder())]
		if s.folder() == "" || other == nil || other == s {
			return false
		}
		other.directories = append(other.directories, s.directories...)
		return true
	})
	in.listed = map[string]map[string]bool{}
	for folder, k := range in.kustomizations {
		for file := range k.files {
			if filepath.Ext(file) == "" {
				continue // a folder
			}
			dir := filepath.Join(folder, filepath.Dir(file))
			if in.listed[dir] == nil {
				in.listed[dir] = map[string]bool{}
			}
			in.listed[dir][filepath.Base(file)] = true
		}
	}
	for _, s := range in.Sets {
		if len(s.directories) < 2 {
			continue
		}
		for n, d := range s.directories {
			names := in.listed[d.Path]
			if k, ok := in.kustomizations[d.Path]; ok {
				names = k.files
			}
			if names == nil {
				continue
			}
			named, rest := d.Split(func(base string) bool { return names[base] })
			s.directories[n] = named
			in.Sets = append(in.Sets, &Set{Input: in, directories: []*files.Directory{rest}})
		}
	}
}
