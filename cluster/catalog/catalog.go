// Package catalog knows well-known finalizers and the software that removes them, and versions of Kubernetes
// components with bugs that make deletions hang.
//
// It is hints, and never outweighs the facts of a cluster. A missing workload may prove that its owner is not
// installed, so an entry names workloads only if they are specific, known, and in the cluster of the objects.
package catalog

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	InCluster              = "in-cluster"
	KubeControllerManager  = "kube-controller-manager"
	CloudControllerManager = "cloud-controller-manager"
	KubeAPIServer          = "kube-apiserver"
	External               = "external-controller"
)

var components = []string{InCluster, KubeControllerManager, CloudControllerManager, KubeAPIServer, External}

// Entry describes one finalizer, or a pattern of finalizers.
type Entry struct {
	Finalizer string `json:"finalizer,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	Suffix    string `json:"suffix,omitempty"`
	Regex     string `json:"regex,omitempty"` // matches the whole finalizer

	// On lists the resources that carry it, as plural.group; "*" for many kinds.
	On        []string `json:"resources"`
	Owner     string   `json:"owner"`
	Component string   `json:"component"`
	// ServiceAccount in kube-system is of kube-controller-manager's controller that removes it
	// (cmd/kube-controller-manager/app).
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// CRDGroup is the API group without which the owner cannot work.
	CRDGroup string `json:"crdGroup,omitempty"`
	// Seldom is set if current versions of the owner set the finalizer only on request.
	Seldom bool `json:"seldom,omitempty"`
	// Set describes the owners that set it, if not all do.
	Set *Set `json:"set,omitempty"`
	// Carries is a pattern's finalizer on objects of a kind: {kind} and {plural} are replaced, in lower case.
	Carries string `json:"carries,omitempty"`
	Clears  string `json:"clears,omitempty"`
	// Creates is the resource that the owner must create in the object's namespace: the API server refuses that
	// in a Terminating one (k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle/admission.go). It is unset
	// if the owner then gives up.
	Creates     string      `json:"creates,omitempty"`
	CreatesWhen []Condition `json:"createsWhen,omitempty"`
	Needs       []Need      `json:"needs,omitempty"`
	// Sure are the releases for which Needs are certain; nil means all.
	Sure      *Set       `json:"sure,omitempty"`
	WaitsFor  []Referrer `json:"waitsFor,omitempty"`
	Obstacles []Obstacle `json:"obstacles,omitempty"`
	Acts      []Act      `json:"acts,omitempty"`
	Drains    *Drain     `json:"drains,omitempty"`
	Note      string     `json:"note,omitempty"`
	Workloads []Workload `json:"workloads,omitempty"`
	// Source is github.com/owner/repository@VERSION:path#LLINE.
	Source string `json:"source"`

	regex *regexp.Regexp
}

// Drain says how an owner evicts the pods of a node.
type Drain struct {
	// Node is the path to the node's name in the object, with dots between fields.
	Node string `json:"node"`
	// Bounded are paths to how long the owner respects budgets: a duration, or a number of seconds.
	Bounded []string `json:"bounded,omitempty"`
	// Elsewhere says that the node may be in another cluster.
	Elsewhere bool   `json:"elsewhere,omitempty"`
	Source    string `json:"source"`
}

// Set describes containers that set a finalizer. Empty fields match anything.
type Set struct {
	Image  string `json:"image"`            // as in Workload
	Since  string `json:"since,omitempty"`  // the first version that does, by its tag
	Before string `json:"before,omitempty"` // the first version that no longer does
	Option string `json:"option,omitempty"` // part of one of its arguments
}

// By reports whether a container matches s. With Since or Before, an image needs a version as its tag.
func (s Set) By(image string, args []string) bool {
	if ImageName(image) != s.Image {
		return false
	}
	if s.Option != "" && !slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, s.Option) }) {
		return false
	}
	if s.Since == "" && s.Before == "" {
		return true
	}
	version, err := semver.ParseTolerant(Tag(image))
	if err != nil {
		return false
	}
	version.Pre = nil
	since, before := semver.MustParse(cmp.Or(s.Since, "0.0.0")), semver.MustParse(cmp.Or(s.Before, "9999.0.0"))
	return version.GE(since) && version.LT(before)
}

func (s *Set) check(what string) error {
	if s == nil {
		return nil
	}
	version := func(version string) error {
		_, err := semver.Parse(cmp.Or(version, "0.0.0"))
		return require(err == nil, "%s: %q is no version, as in 1.2.0", what, version)
	}
	return cmp.Or(require(s.Image != "", "%s: an image is needed", what), version(s.Since), version(s.Before))
}

// Workload is an owner's. Empty fields match anything.
type Workload struct {
	Kind      string `json:"kind,omitempty"`      // Deployment, StatefulSet, DaemonSet or Pod
	Namespace string `json:"namespace,omitempty"` // the usual one: it counts for generic names only
	Name      string `json:"name,omitempty"`      // may hold '*'
	// Image is the last path element of the repository, without tag. It is unset if other containers run it, too,
	// such as a webhook: they would be taken for the controller.
	Image string `json:"image,omitempty"`
}

var genericNames = []string{
	"", "agent", "api", "app", "controller", "controller-manager", "controllers", "driver", "main", "manager",
	"node", "node-agent", "operator", "server", "webhook", "worker",
}

// Generic reports whether many projects share a name, whatever '*' matches.
func Generic(name string) bool {
	return slices.Contains(genericNames, strings.Trim(name, "*-"))
}

// versionSuffix matches a version at the end of a name: "-v2", "-1-20-3".
var versionSuffix = regexp.MustCompile(`^(-v?[0-9][0-9a-z]*)+$`)

// Matches reports whether a workload, with images as references or as their last path elements, is w:
//   - by image, whatever its name;
//   - by w.Kind and w.Name, in any namespace: as it is, behind the name of a Helm release ("RELEASE-NAME"), or,
//     for names of two words or more, before a version. Other words behind a name make another workload
//     (cert-manager-webhook), as do words before it that its image has, too (cloak-external-secrets);
//   - by a generic name, only in w.Namespace and as it is.
func (w Workload) Matches(kind, namespace, name string, images []string) bool {
	if w.Image != "" && slices.ContainsFunc(images, func(ref string) bool { return ImageName(ref) == w.Image }) {
		return true
	}
	if w.Name == "" || w.Kind != "" && w.Kind != kind {
		return false
	}
	if Generic(w.Name) {
		return w.Namespace != "" && namespace == w.Namespace && glob(w.Name, name)
	}
	if glob(w.Name, name) || glob("*-"+w.Name, name) && !slices.ContainsFunc(images, func(ref string) bool { return w.longer(name, ImageName(ref)) }) {
		return true
	}
	rest, ok := strings.CutPrefix(name, w.Name)
	return ok && strings.Contains(w.Name, "-") && versionSuffix.MatchString(rest)
}

// InstalledBy reports whether a Helm chart, or a package of OLM, usually installs w, which is the owner's.
func (w Workload) InstalledBy(chart, owner string) bool {
	owner = strings.ReplaceAll(strings.ToLower(owner), " ", "-")
	names := []string{w.Name, strings.TrimSuffix(w.Name, "-controller-manager"), w.Image, owner, owner + "-operator"}
	return chart != "" && !Generic(chart) && slices.Contains(names, chart)
}

// longer reports whether the words before w.Name are the image's, not a release's.
func (w Workload) longer(name, image string) bool {
	return glob("*-"+w.Name, image) && (name == image || strings.HasSuffix(name, "-"+image))
}

// Doubtful reports whether Matches finds a workload only by the end of its name, which no image has.
func (w Workload) Doubtful(name string, images []string) bool {
	return len(images) > 0 && !Generic(w.Name) && !glob(w.Name, name) && glob("*-"+w.Name, name) && !slices.ContainsFunc(images, func(ref string) bool {
		image := ImageName(ref)
		return glob("*"+w.Name+"*", image) || w.Image != "" && strings.Contains(image, w.Image)
	})
}

func glob(pattern, name string) bool {
	matched, err := path.Match(pattern, name)
	return err == nil && matched
}

// ImageName returns the last path element of an image reference, without tag and digest.
func ImageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name
}

// Catalog is a set of entries. A nil Catalog is empty.
type Catalog struct {
	read func() []Entry

	indexing sync.Once
	index
}

type index struct {
	named     map[string][]*Entry // that match one finalizer
	patterns  []*Entry
	referring map[string][]*Entry // with references or conditions on fields, by each of their resources
	affected  map[string]bool
}

func (c *Catalog) indexed() *index {
	if c == nil {
		return &index{}
	}
	c.indexing.Do(func() {
		c.index = index{named: map[string][]*Entry{}, referring: map[string][]*Entry{}, affected: map[string]bool{}}
		for i, entries := 0, c.Entries(); i < len(entries); i++ {
			c.add(&entries[i])
		}
	})
	return &c.index
}

func (i *index) add(e *Entry) {
	if e.Finalizer != "" {
		i.named[e.Finalizer] = append(i.named[e.Finalizer], e)
	} else {
		i.patterns = append(i.patterns, e)
	}
	if len(e.Needs)+len(e.WaitsFor)+len(e.Obstacles)+len(e.Acts) > 0 {
		for _, on := range e.On {
			i.referring[on] = append(i.referring[on], e)
		}
	}
	if e.Sure != nil {
		i.affected[e.Sure.Image] = true
	}
	for _, o := range e.Obstacles {
		if o.Image != "" {
			i.affected[o.Image] = true
		}
	}
}

// Entries returns the entries in order, which must not be changed.
func (c *Catalog) Entries() []Entry {
	if c == nil || c.read == nil {
		return nil
	}
	return c.read()
}

//go:embed finalizers.yaml
var shipped []byte

// Default returns the built-in catalog.
func Default() *Catalog { return fromBinary }

var fromBinary = &Catalog{read: sync.OnceValue(func() []Entry {
	c, err := Parse(shipped)
	if err != nil {
		panic("the catalog in the binary is broken, which a test excludes: " + err.Error())
	}
	return c.Entries()
})}

// Parse reads YAML. It rejects unknown fields, and entries that could never match.
func Parse(data []byte) (*Catalog, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("parse catalog: %w", err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parse catalog: a list of entries is needed: %w", err)
	}
	entries := make([]Entry, len(list))
	for i, fields := range list {
		unknown, err := kjson.UnmarshalStrict(fields, &entries[i])
		if err := errors.Join(append(unknown, err)...); err != nil {
			return nil, fmt.Errorf("catalog entry %d (%s): %w", i+1, entries[i].Key(), err)
		}
	}
	if err := check(entries); err != nil {
		return nil, err
	}
	return &Catalog{read: func() []Entry { return entries }}, nil
}

func check(entries []Entry) error {
	seen := map[[2]string]int{} // pattern and resource
	for i := range entries {
		e := &entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("catalog entry %d (%s): %w", i+1, e.Key(), err)
		}
		for _, resource := range e.On {
			id := [2]string{e.Key(), resource}
			if first, twice := seen[id]; twice {
				return fmt.Errorf("catalog entry %d (%s): entry %d says it of %s already", i+1, e.Key(), first, resource)
			}
			seen[id] = i + 1
		}
	}
	return nil
}

// BuiltIn reports whether Kubernetes itself removes the finalizer.
func (e *Entry) BuiltIn() bool {
	return e.Component == KubeControllerManager || e.Component == KubeAPIServer
}

// Key names an entry by its pattern.
func (e *Entry) Key() string {
	switch {
	case e.Finalizer != "":
		return e.Finalizer
	case e.Prefix != "":
		return "prefix " + e.Prefix
	case e.Suffix != "":
		return "suffix " + e.Suffix
	case e.Regex != "":
		return "regex " + e.Regex
	}
	return "no finalizer"
}

var resourcePattern = regexp.MustCompile(`^[a-z][a-z0-9]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func (e *Entry) check() error {
	keys := slices.DeleteFunc([]string{e.Finalizer, e.Prefix, e.Suffix, e.Regex}, func(key string) bool { return key == "" })
	if e.Regex != "" {
		var err error
		if e.regex, err = whole(e.Regex); err != nil {
			return fmt.Errorf("regex: %w", err)
		}
	}
	return cmp.Or(
		require(len(keys) == 1, "exactly one of finalizer, prefix, suffix and regex is needed"),
		require(len(e.On) > 0 && e.Owner != "" && e.Source != "", "resources, owner and source are needed"),
		require(slices.Contains(components, e.Component), "unknown component %q, want one of %s", e.Component, strings.Join(components, ", ")),
		checkAll("resources", e.On, func(resource *string) error {
			return require(*resource == "*" || resourcePattern.MatchString(*resource), "%q is neither plural.group nor \"*\"", *resource)
		}),
		require(e.Creates == "" || resourcePattern.MatchString(e.Creates), "creates: %q is not plural.group", e.Creates),
		require(e.Creates != "" || len(e.CreatesWhen) == 0, "createsWhen: creates is needed"),
		checkConditions("createsWhen", e.CreatesWhen),
		e.Set.check("set"),
		e.Sure.check("sure"),
		checkAll("obstacles", e.Obstacles, func(o *Obstacle) error { return o.check(e.On) }),
		checkAll("acts", e.Acts, (*Act).check),
		checkAll("needs", e.Needs, func(n *Need) error { return n.check(e.On, 1) }),
		checkAll("waitsFor", e.WaitsFor, func(r *Referrer) error { return r.check(e.On) }),
		checkAll("workloads", e.Workloads, (*Workload).check),
	)
}

func require(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func checkAll[T any](what string, list []T, check func(*T) error) error {
	for i := range list {
		if err := check(&list[i]); err != nil {
			return fmt.Errorf("%s %d: %w", what, i+1, err)
		}
	}
	return nil
}

func checkConditions(what string, list []Condition) error {
	return checkAll(what, list, func(c *Condition) error { return c.check("", nil) })
}

func whole(pattern string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + pattern + ")$") }

func (w *Workload) check() error {
	_, err := path.Match(w.Name, "")
	return cmp.Or(
		require(w.Name != "" || w.Image != "", "a name or an image is needed"),
		require(slices.Contains([]string{"", "Deployment", "StatefulSet", "DaemonSet", "Pod"}, w.Kind), "unknown kind %q", w.Kind),
		require(w.Name == "" || !Generic(w.Name) || w.Namespace != "", "many projects share that name: add the namespace, or use an image"),
		require(w.Image == "" || !Generic(w.Image), "many projects share the image name %q: use a name", w.Image),
		require(!strings.ContainsAny(w.Image, "/:@*"), "image %q is not the last path element of a repository", w.Image),
		require(err == nil, "name %q: %w", w.Name, err),
	)
}

// Merge puts the user's entries first, which win among equally good matches.
func (c *Catalog) Merge(user *Catalog) *Catalog {
	return &Catalog{read: sync.OnceValue(func() []Entry { return slices.Concat(user.Entries(), c.Entries()) })}
}

// Carried returns the finalizers that the controller sets on every object of a custom resource. runs reports
// whether a container exists for one that only some versions set.
func (c *Catalog) Carried(resource, kind string, runs func(Set) bool) []string {
	plural, group, custom := strings.Cut(resource, ".")
	if !custom || group == "argoproj.io" || !strings.Contains(group, ".") ||
		strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io") {
		return nil
	}
	var finalizers []string
	for _, e := range c.Entries() {
		if e.Seldom || e.Component != InCluster || !slices.Contains(e.On, resource) {
			continue
		}
		if e.CRDGroup != "" && !e.Owns(resource) || e.Set != nil && !runs(*e.Set) {
			continue
		}
		if name := cmp.Or(e.Finalizer, strings.NewReplacer("{kind}", strings.ToLower(kind), "{plural}", plural).Replace(e.Carries)); name != "" {
			finalizers = append(finalizers, name)
		}
	}
	return finalizers
}

// Referring returns the entries with references or conditions on fields that list a resource. They must not
// be changed.
func (c *Catalog) Referring(resource string) []*Entry { return c.indexed().referring[resource] }

// Lookup finds the entry for a finalizer on a resource (plural.group): exact before the longest prefix or
// suffix, before a regular expression; then one that lists the resource before one for "*", before others.
// These count only if the finalizer names a domain, or the resource is of their API group: "server" is
// Dynatrace's on its own kinds only.
func (c *Catalog) Lookup(finalizer, resource string) (Entry, bool) {
	var best *Entry
	bestRank := 0
	all := c.indexed()
	for _, candidates := range [][]*Entry{all.named[finalizer], all.patterns} {
		for _, e := range candidates {
			rank := e.rank(finalizer)
			if rank == 0 {
				continue
			}
			rank *= 3
			switch {
			case slices.Contains(e.On, resource):
				rank += 2
			case slices.Contains(e.On, "*"):
				rank++
			case !e.qualified() && !e.Owns(resource):
				continue
			}
			if rank > bestRank {
				best, bestRank = e, rank
			}
		}
		if best != nil {
			return *best, true
		}
	}
	return Entry{}, false
}

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

// qualified reports whether a pattern names a domain, which makes it one project's: "user.cleanup" does not.
func (e *Entry) qualified() bool {
	domain, _, _ := strings.Cut(e.Finalizer+e.Prefix+e.Suffix+e.Regex, "/")
	dot := strings.LastIndexByte(domain, '.')
	return dot >= 0 && !slices.Contains([]string{"", "cleanup", "finalizer", "finalizers"}, domain[dot+1:])
}

// Foreign reports whether the finalizer is of software with its own kinds, and unknown on this resource.
func (e *Entry) Foreign(resource string) bool {
	return len(e.On) > 0 && e.CRDGroup != "" && !slices.Contains(e.On, resource) && !slices.Contains(e.On, "*") && !e.Owns(resource)
}

// Owns reports whether a resource is of the API group that the owner needs, or of one below it.
func (e *Entry) Owns(resource string) bool {
	_, group, _ := strings.Cut(resource, ".")
	return e.CRDGroup != "" && (group == e.CRDGroup || strings.HasSuffix(group, "."+e.CRDGroup))
}
