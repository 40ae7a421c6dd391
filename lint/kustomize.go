package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/lint/source"
)

// kustomization is what lint reads of one
// (sigs.k8s.io/kustomize/api/types, Kustomization).
type kustomization struct {
	Resources, Bases, Components, CRDs []string
	Generators, Transformers           []string
	Validators, Configurations         []string
	Patches                            []struct{ Path string }
	HelmCharts                         []yaml.Node `yaml:"helmCharts"`
	HelmChartInflationGenerator        []yaml.Node `yaml:"helmChartInflationGenerator"`
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

// isFar tells whether kustomize would fetch what an entry names
// (sigs.k8s.io/kustomize/api/internal/git, NewRepoSpecFromURL): text in the place of
// a name holds line breaks.
func isFar(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return !strings.Contains(name, "\n") &&
		(strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.Contains(name, "?ref=") ||
			slices.Contains([]string{"github.com", "gitlab.com", "bitbucket.org"}, strings.TrimPrefix(host, "www.")))
}

// parts are the folders that a kustomization is made of.
func (k kustomization) parts(d *source.Directory) []string {
	var folders []string
	for _, name := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if isFar(name) || filepath.IsAbs(name) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			continue
		}
		folders = append(folders, filepath.Join(d.Path, filepath.FromSlash(name)))
	}
	return folders
}

// join puts the parts of a kustomization into its set, as kubectl delete -k takes
// them: those that are part of no other. Examples that are only shipped beside it
// are no part of what is deployed.
func (r *run) join() {
	of := map[string][]string{} // by part, what it is part of
	for folder, parts := range r.parts {
		for _, part := range parts {
			if part != folder && !slices.Contains(of[part], folder) && filepath.Base(part) != "samples" {
				of[part] = append(of[part], folder)
			}
		}
	}
	whole := func(folder string) string {
		for seen := map[string]bool{}; len(of[folder]) == 1 && !seen[folder]; folder = of[folder][0] {
			seen[folder] = true // in a circle, wherever it is left
		}
		return folder
	}
	sets := map[string]*set{}
	for folder, s := range r.folders {
		if whole(folder) == folder {
			sets[folder] = s
		}
	}
	var kept []*set
	for _, s := range r.sets {
		into := sets[whole(s.folder)]
		if s.folder == "" || into == nil || into == s {
			kept = append(kept, s)
			continue
		}
		into.files = append(into.files, s.files...)
	}
	r.sets = kept
}
