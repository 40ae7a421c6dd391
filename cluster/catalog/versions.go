package catalog

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

//go:embed versions.yaml
var shippedVersions []byte

// Bug is one that a range of versions of a component has.
type Bug struct {
	ID        string `json:"id"`
	Component string `json:"component"` // kubernetes (the control plane), kubelet, docker or containerd
	Affected  string `json:"affected"`
	FixedIn   string `json:"fixedIn"`
	Symptom   string `json:"symptom"`
	Source    string `json:"source"`

	affects semver.Range
}

var bugs = sync.OnceValue(func() []Bug {
	list, err := parseVersions(shippedVersions)
	if err != nil {
		panic("the version data in the binary is broken, which a test excludes: " + err.Error())
	}
	return list
})

func parseVersions(data []byte) ([]Bug, error) {
	var list []Bug
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, fmt.Errorf("parse versions: %w", err)
	}
	for i := range list {
		b := &list[i]
		affects, err := semver.ParseRange(b.Affected)
		if err != nil {
			return nil, fmt.Errorf("versions entry %d (%s): affected %q: %w", i+1, b.ID, b.Affected, err)
		}
		b.affects = affects
		if b.ID == "" || b.Component == "" || b.Source == "" || b.Symptom == "" {
			return nil, fmt.Errorf("versions entry %d (%s): id, component, symptom and source are needed", i+1, b.ID)
		}
	}
	return list, nil
}

// Bugs returns the known bugs that a version of a component has, by id. It
// takes versions as components report them: "v1.11.9-gke.1",
// "docker://17.3.2". What does not parse has no known bugs.
func Bugs(component, version string) map[string]Bug {
	v, err := parseVersion(version)
	if err != nil {
		return nil
	}
	found := map[string]Bug{}
	for _, b := range bugs() {
		if b.Component == component && b.affects(v) {
			found[b.ID] = b
		}
	}
	return found
}

// parseVersion drops a runtime's scheme and a vendor's suffix: "-gke.1" must
// not make a version older than the release it is built from, as "-alpha.1",
// "-beta.1" and "-rc.1" do.
func parseVersion(version string) (semver.Version, error) {
	if _, rest, found := strings.Cut(version, "://"); found {
		version = rest
	}
	v, err := semver.ParseTolerant(version)
	if err != nil {
		return v, err
	}
	if len(v.Pre) > 0 && v.Pre[0].VersionStr != "alpha" && v.Pre[0].VersionStr != "beta" && v.Pre[0].VersionStr != "rc" {
		v.Pre = nil
	}
	return v, nil
}
