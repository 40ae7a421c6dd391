package catalog

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

//go:embed versions.yaml
var shippedVersions []byte

// Bug affects a range of versions of a component.
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
	seen := map[string]bool{}
	for i := range list {
		b := &list[i]
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("versions entry %d (%s): %w", i+1, b.ID, err)
		}
		if seen[b.ID] {
			return nil, fmt.Errorf("versions entry %d (%s): the id is taken", i+1, b.ID)
		}
		seen[b.ID] = true
	}
	return list, nil
}

func (b *Bug) check() error {
	var err error
	b.affects, err = semver.ParseRange(b.Affected)
	return cmp.Or(
		require(b.ID != "" && b.FixedIn != "" && b.Symptom != "" && b.Source != "", "id, fixedIn, symptom and source are needed"),
		require(slices.Contains([]string{"kubernetes", "kubelet", "docker", "containerd"}, b.Component), "unknown component %q", b.Component),
		require(err == nil, "affected %q: %w", b.Affected, err),
	)
}

// Bugs returns the known bugs, by id, of a version as components report it, such as "docker://17.3.2"; nil for
// other texts.
func Bugs(component, version string) map[string]Bug {
	if scheme, rest, ok := strings.Cut(version, "://"); ok {
		if scheme != component {
			return nil
		}
		version = rest
	}
	v, err := parseVersion(version)
	if err != nil {
		return nil
	}
	matches := map[string]Bug{}
	for _, b := range bugs() {
		if b.Component == component && b.affects(v) {
			matches[b.ID] = b
		}
	}
	return matches
}

// Facts returns a bug as the document has it.
func (b Bug) Facts() map[string]any {
	return map[string]any{"affected": b.Affected, "fixedIn": b.FixedIn, "symptom": b.Symptom, "source": b.Source}
}

// AtLeast reports whether a version is of a minor release, with its pre-releases, or later. Other texts count
// as new.
func AtLeast(version string, major, minor uint64) bool {
	v, err := parseVersion(version)
	return err != nil || v.Major > major || v.Major == major && v.Minor >= minor
}

// versionPattern matches the release, and a pre-release. Other suffixes are vendors' ("+coreos.0", "~ds1").
var versionPattern = regexp.MustCompile(`^\s*v?([0-9]+(?:\.[0-9]+){0,2})(?:[-~]((?:alpha|beta|rc)(?:\.?[0-9]+)*)(?:$|[^0-9A-Za-z]))?`)

// parseVersion drops a vendor's suffix: unlike "-rc.1", "-gke.1" must not make a version older than its
// release.
func parseVersion(version string) (semver.Version, error) {
	parts := versionPattern.FindStringSubmatch(version)
	if parts == nil {
		return semver.Version{}, fmt.Errorf("%q is no version", version)
	}
	v, err := semver.ParseTolerant(parts[1])
	if err != nil || parts[2] == "" {
		return v, err
	}
	for _, identifier := range strings.Split(parts[2], ".") {
		pre, err := semver.NewPRVersion(identifier)
		if err != nil {
			return v, err
		}
		v.Pre = append(v.Pre, pre)
	}
	return v, nil
}
