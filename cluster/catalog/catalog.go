// Package catalog knows well-known finalizers and the software that removes
// them, and versions of Kubernetes components with bugs that make deletions
// hang. It explains and hints: it never outweighs what a cluster itself shows.
package catalog

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed finalizers.yaml
var shipped []byte

// Components in which whatever removes a finalizer runs.
const (
	InCluster              = "in-cluster"
	KubeControllerManager  = "kube-controller-manager"
	CloudControllerManager = "cloud-controller-manager"
	KubeAPIServer          = "kube-apiserver"
	External               = "external-controller"
)

// Entry describes one finalizer, or those that a pattern matches.
type Entry struct {
	Finalizer string `json:"finalizer,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	Suffix    string `json:"suffix,omitempty"`
	Regex     string `json:"regex,omitempty"` // matches the whole finalizer

	// On lists the resources that carry it, as plural.group; "*" for many kinds.
	On        []string `json:"resources"`
	Owner     string   `json:"owner"`
	Component string   `json:"component"`
	// CRDGroup is the API group without which the owner cannot work.
	CRDGroup string `json:"crdGroup,omitempty"`
	// Clears says what clears the finalizer, in a few words.
	Clears string `json:"clears,omitempty"`
	Note   string `json:"note,omitempty"`
	// Workloads are those of a usual installation.
	Workloads []Workload `json:"workloads,omitempty"`
	// Source is the file that the string was found in; Verified says how far it
	// was checked, where it was not opened there.
	Source   string `json:"source"`
	Verified string `json:"verified,omitempty"`

	regex *regexp.Regexp
}

// Workload describes what runs the owner of a finalizer. Empty fields say nothing.
type Workload struct {
	Kind      string `json:"kind,omitempty"`      // Deployment, StatefulSet or DaemonSet
	Namespace string `json:"namespace,omitempty"` // the usual one
	Name      string `json:"name,omitempty"`      // may hold '*'
	Image     string `json:"image,omitempty"`     // last path element of the image's repository, without tag
}

// genericNames are workload names that many projects share.
var genericNames = []string{"controller", "controller-manager", "manager", "operator", "server", "webhook", "agent", "node-agent"}

// Matches tells whether a workload of a cluster is the one described: by image,
// or by name, as it is or behind the name of a Helm release ("RELEASE-NAME").
// A name that many projects share counts only in the usual namespace.
func (w Workload) Matches(kind, namespace, name string, images []string) bool {
	if w.Image != "" && slices.Contains(images, w.Image) {
		return true
	}
	if w.Name == "" || w.Kind != "" && w.Kind != kind {
		return false
	}
	if slices.Contains(genericNames, w.Name) {
		return name == w.Name && namespace == w.Namespace
	}
	matched, err := path.Match(w.Name, name)
	return err == nil && matched || strings.HasSuffix(name, "-"+w.Name)
}

// Catalog is a set of entries. A nil Catalog knows nothing.
type Catalog struct{ entries []Entry }

// Default is the catalog that ships in the binary.
var Default = sync.OnceValue(func() *Catalog {
	c, err := Parse(shipped)
	if err != nil {
		panic("the catalog in the binary is broken, which a test excludes: " + err.Error())
	}
	return c
})

// Parse reads a catalog in YAML. It refuses fields that it does not know.
func Parse(data []byte) (*Catalog, error) {
	c := &Catalog{}
	if err := yaml.UnmarshalStrict(data, &c.entries); err != nil {
		return nil, fmt.Errorf("parse catalog: %w", err)
	}
	seen := map[string]int{}
	for i := range c.entries {
		e := &c.entries[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("catalog entry %d (%s): %w", i+1, e.key(), err)
		}
		id := e.key() + " " + strings.Join(e.On, ",")
		if first, twice := seen[id]; twice {
			return nil, fmt.Errorf("catalog entry %d (%s): the same as entry %d", i+1, e.key(), first)
		}
		seen[id] = i + 1
	}
	return c, nil
}

func (e *Entry) key() string {
	return e.Finalizer + e.Prefix + e.Suffix + e.Regex
}

func (e *Entry) check() error {
	keys := 0
	for _, k := range []string{e.Finalizer, e.Prefix, e.Suffix, e.Regex} {
		if k != "" {
			keys++
		}
	}
	switch {
	case keys != 1:
		return errors.New("exactly one of finalizer, prefix, suffix and regex is needed")
	case len(e.On) == 0 || e.Owner == "" || e.Source == "":
		return errors.New("resources, owner and source are needed")
	case !slices.Contains([]string{InCluster, KubeControllerManager, CloudControllerManager, KubeAPIServer, External}, e.Component):
		return fmt.Errorf("unknown component %q", e.Component)
	}
	for _, w := range e.Workloads {
		if w.Name == "" && w.Image == "" {
			return errors.New("a workload needs a name or an image")
		}
		if _, err := path.Match(w.Name, ""); err != nil {
			return fmt.Errorf("workload name %q: %w", w.Name, err)
		}
	}
	if e.Regex != "" {
		re, err := regexp.Compile("^(?:" + e.Regex + ")$")
		if err != nil {
			return fmt.Errorf("regex: %w", err)
		}
		e.regex = re
	}
	return nil
}

// Merge returns a catalog in which the entries of user come first: they win
// over those of c with the same key.
func (c *Catalog) Merge(user *Catalog) *Catalog {
	return &Catalog{entries: slices.Concat(user.Entries(), c.Entries())}
}

// Entries of the catalog, in its order.
func (c *Catalog) Entries() []Entry {
	if c == nil {
		return nil
	}
	return slices.Clone(c.entries)
}

// Lookup finds the entry for a finalizer on a resource (plural.group): exact
// before the longest prefix or suffix, those before a regular expression, and
// in each of these an entry that lists the resource before one that does not.
func (c *Catalog) Lookup(finalizer, resource string) (Entry, bool) {
	if c == nil {
		return Entry{}, false
	}
	best, bestRank := -1, 0
	for i := range c.entries {
		e := &c.entries[i]
		rank := e.rank(finalizer)
		if rank == 0 {
			continue
		}
		rank *= 2
		if slices.Contains(e.On, resource) {
			rank++
		}
		if rank > bestRank {
			best, bestRank = i, rank
		}
	}
	if best < 0 {
		return Entry{}, false
	}
	return c.entries[best], true
}

// rank is how well an entry matches a finalizer: 0 not at all.
func (e *Entry) rank(finalizer string) int {
	switch {
	case e.Finalizer != "" && e.Finalizer == finalizer:
		return 1 << 20
	case e.Prefix != "" && strings.HasPrefix(finalizer, e.Prefix):
		return 1 + len(e.Prefix)
	case e.Suffix != "" && strings.HasSuffix(finalizer, e.Suffix):
		return 1 + len(e.Suffix)
	case e.regex != nil && e.regex.MatchString(finalizer):
		return 1
	}
	return 0
}
