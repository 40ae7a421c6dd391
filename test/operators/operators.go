// Package operators holds termguard to operators that nobody here wrote: each is built
// from its project's own Go module, installed with its project's own manifests on a real
// control plane, and run as the process of its Deployment's pod. The same situations are
// played with all of them, and beside what termguard said stands what happened.
package operators

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/test/scenario"
)

// Operator is one file of testdata. "$NS" stands for a name that is its row's own, "$KIND"
// and "$kind" for one that a kind can have.
type Operator struct {
	// Name is the file's name.
	Name string `json:"-"`
	// About says in a line what it is, and where from.
	About string `json:"about"`
	// Programs run; the first is the operator.
	Programs []scenario.Program `json:"programs"`
	// Targets are objects that it puts its finalizer on.
	Targets []Target `json:"targets"`
	// Rights are what lets it do so, TYPE/NAME each: one after the other is taken.
	Rights []string `json:"rights,omitempty"`
	// Uninstall are the commands by which its project says that it is uninstalled; the
	// definitions stay, if the project leaves them.
	Uninstall []string `json:"uninstall"`
	// Traps are rows of its own, which its users fell into.
	Traps []Trap `json:"traps,omitempty"`
	// Tidy are commands that remove what rows leave behind.
	Tidy []string `json:"tidy,omitempty"`
	// Wrong are the rows that termguard is known to be wrong in, and why. One that has
	// become right fails, so that it is taken off.
	Wrong map[string]string `json:"wrong,omitempty"`
	// Undecided says why more answers than usual are neither hangs nor completes.
	Undecided string `json:"undecided,omitempty"`
}

// Target is an object that the operator looks after.
type Target struct {
	// Name is what the row calls it. Defaults to its type.
	Name string `json:"name,omitempty"`
	// Object names it as for kubectl, such as "widgets.x.io it -n $NS".
	Object string `json:"object"`
	// Finalizer is the one that the operator puts on it.
	Finalizer string `json:"finalizer"`
	// Definition is the name of its kind's, where that is deleted, too.
	Definition string `json:"definition,omitempty"`
	// Needs are what the operator must read to let it go, named as for kubectl: one after
	// the other is taken.
	Needs []string `json:"needs,omitempty"`
	// Manifests are created for each row, in this order; "--- # later" parts as in a
	// scenario wait for those before them to be served.
	Manifests string `json:"manifests"`
	// Ready are commands as Do of a scenario, until it is in use.
	Ready []string `json:"ready,omitempty"`
	// Then are commands that follow once the operator is as the situation has it: where
	// what it looks after goes by itself as soon as it could be deleted.
	Then []string `json:"then,omitempty"`
}

// Trap is a row of its own.
type Trap struct {
	Name string `json:"name"`
	// Source is where a user fell into it.
	Source string `json:"source"`
	// Manifests, then Do, set it up.
	Manifests string   `json:"manifests"`
	Do        []string `json:"do,omitempty"`
	// Delete is what is deleted.
	Delete string `json:"delete"`
	// Leaves is what is deleted once that has gone.
	Leaves string `json:"leaves,omitempty"`
}

// called is what rows call what is deleted.
func called(what string) string {
	return strings.NewReplacer("$NS", "NAME", "$KIND", "KIND", "$kind", "kind").Replace(what)
}

// Load reads the operators of a folder.
func Load(dir string) ([]Operator, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no operator in %s", dir)
	}
	var all []Operator
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		o := Operator{Name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		if err := yaml.UnmarshalStrict(data, &o); err != nil {
			return nil, fmt.Errorf("operator %s: %w", file, err)
		}
		if err := o.check(); err != nil {
			return nil, fmt.Errorf("operator %s: %w", file, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func (o *Operator) check() error {
	if o.About == "" || len(o.Programs) == 0 || len(o.Targets) == 0 || len(o.Uninstall) == 0 {
		return errors.New("about, programs, targets and uninstall are needed")
	}
	for i := range o.Targets {
		t := &o.Targets[i]
		if t.Object == "" || t.Finalizer == "" || t.Manifests == "" {
			return fmt.Errorf("target %d: object, finalizer and manifests are needed", i)
		}
		if t.Name == "" {
			t.Name, _, _ = strings.Cut(t.Object, " ")
		}
	}
	for _, t := range o.Traps {
		if t.Name == "" || t.Source == "" || t.Delete == "" {
			return fmt.Errorf("trap %q: name, source and delete are needed", t.Name)
		}
	}
	return nil
}

// namespaced tells whether the target lies in the row's namespace.
func (t Target) namespaced() bool { return strings.HasSuffix(t.Object, " -n $NS") }

// deployment is that of the operator.
func (o *Operator) deployment() (namespace, name string) {
	namespace, name, _ = strings.Cut(o.Programs[0].Deployment, "/")
	return namespace, name
}

// runs is the situation of an operator that does what it should.
const runs = "runs"

// A situation is what becomes of the operator before its objects are deleted.
type situation struct {
	name string
	// deletes is what brings it about, where that is a deletion, and a row of its own.
	deletes string
	// do are commands that bring it about otherwise, and crashes says that its pods crash.
	do      []string
	crashes bool
	// stops says that the operator runs no more then.
	stops bool
	// short is one that is played with every change, too.
	short bool
	// of is the name of the target that it is about, "" if all.
	of string
	// deletions of a target then, by what rows call them.
	deletions func(Target) map[string]string
}

// What is deleted: objects, they and namespaces of others, or the definition.
func objects(t Target) map[string]string { return map[string]string{t.Name: t.Object} }

func all(t Target) map[string]string {
	found := objects(t)
	if t.namespaced() {
		found["namespace of "+t.Name] = "namespace $NS"
	}
	return found
}

func definition(t Target) map[string]string {
	if t.Definition == "" {
		return nil
	}
	return map[string]string{"definition of " + t.Name: "crd " + t.Definition}
}

// situations of an operator, in the order in which they are played.
func (o *Operator) situations() []situation {
	namespace, name := o.deployment()
	scaled := []string{"scale deployment " + name + " -n " + namespace + " --replicas=0"}
	// These two namespaces cannot be deleted (k8s.io/apiserver, plugin/namespace/lifecycle).
	home := situation{name: "without its namespace", deletes: "namespace " + namespace, stops: true, deletions: objects}
	if namespace == "default" || namespace == "kube-system" {
		home.name, home.deletes = "without its Deployment", "deployment "+name+" -n "+namespace
	}
	found := []situation{
		{name: runs, short: true, deletions: all},
		{name: runs, deletions: definition},
		{name: "scaled to zero", short: true, do: scaled, stops: true, deletions: all},
		{name: "scaled to zero", do: scaled, stops: true, deletions: definition},
		{name: "crashes", crashes: true, stops: true, deletions: all},
		home,
		{name: "uninstalled", short: true, do: o.Uninstall, stops: true, deletions: all},
	}
	for _, right := range o.Rights {
		found = append(found, situation{name: "without its " + named(right), deletes: right, deletions: objects})
	}
	for _, t := range o.Targets {
		for _, need := range t.Needs {
			found = append(found, situation{name: "without " + named(need) + " that it needs", deletes: need, of: t.Name, deletions: objects})
		}
	}
	return found
}

// named is an object that is named as for kubectl, in rows: by type and name, since two
// rights may be of one type.
func named(object string) string {
	object, _, _ = strings.Cut(object, " -n ")
	return called(object)
}

// own gives a row's own name to what holds $NS, and a kind of that name to $KIND.
func own(text, name string) string {
	bare := strings.ReplaceAll(name, "-", "")
	return strings.NewReplacer("$NS", name, "$KIND", strings.ToUpper(bare[:1])+bare[1:], "$kind", bare).Replace(text)
}
