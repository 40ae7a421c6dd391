// Package operators tests termguard with independently written operators: each is built from its project's Go
// module, installed with its project's manifests, and run as its Deployment's pod.
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

// Operator is one file of testdata. "$NS" is a unique name for a row, "$KIND" and "$kind" one that is valid
// for a kind.
type Operator struct {
	Name  string `json:"-"`
	About string `json:"about"`
	// Programs run; the first is the operator.
	Programs []scenario.Program `json:"programs"`
	// Targets get its finalizer.
	Targets []Target `json:"targets"`
	// Rights are permissions, as TYPE/NAME, removed one at a time.
	Rights []string `json:"rights,omitempty"`
	// Uninstall follows its project's instructions; definitions stay if the project leaves them.
	Uninstall []string `json:"uninstall"`
	// Traps are rows for problems that its users had.
	Traps []Trap `json:"traps,omitempty"`
	// Tidy are commands that remove what rows leave behind.
	Tidy []string `json:"tidy,omitempty"`
	// Wrong are rows in which termguard is known to be wrong, and why. A row that has become right fails.
	Wrong map[string]string `json:"wrong,omitempty"`
	// Undecided is why more answers than usual are neither hangs nor completes.
	Undecided string `json:"undecided,omitempty"`
}

type Target struct {
	// Name is for rows, by default the type.
	Name string `json:"name,omitempty"`
	// Object is as for kubectl, such as "widgets.x.io it -n $NS".
	Object    string `json:"object"`
	Finalizer string `json:"finalizer"`
	// Definition is to be deleted, too.
	Definition string `json:"definition,omitempty"`
	// Needs are objects that the operator must read to release it, removed one at a time.
	Needs []string `json:"needs,omitempty"`
	// Manifests are for each row; "--- # later" waits for the earlier ones to be served.
	Manifests string `json:"manifests"`
	// Ready are commands, like a scenario's Do.
	Ready []string `json:"ready,omitempty"`
	// Then are commands for dependents, which disappear once the target can.
	Then []string `json:"then,omitempty"`
}

type Trap struct {
	Name string `json:"name"`
	// Source is a user's report.
	Source string `json:"source"`
	// Manifests, then Do, set it up.
	Manifests string   `json:"manifests"`
	Do        []string `json:"do,omitempty"`
	Delete    string   `json:"delete"`
	// Leaves is deleted after that.
	Leaves string `json:"leaves,omitempty"`
}

func rowName(what string) string {
	return strings.NewReplacer("$NS", "NAME", "$KIND", "KIND", "$kind", "kind").Replace(what)
}

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

func (t Target) namespaced() bool { return strings.HasSuffix(t.Object, " -n $NS") }

func (o *Operator) deployment() (namespace, name string) {
	namespace, name, _ = strings.Cut(o.Programs[0].Deployment, "/")
	return namespace, name
}

const runs = "runs"

type situation struct {
	name string
	// deletes leads to the situation, and is a row of its own.
	deletes string
	// do are other commands.
	do      []string
	crashes bool
	stops   bool
	// short situations are also played with every change.
	short bool
	// of names its target, "" for all.
	of string
	// deletions are by their names in rows.
	deletions func(Target) map[string]string
}

func objects(t Target) map[string]string { return map[string]string{t.Name: t.Object} }

func all(t Target) map[string]string {
	deletions := objects(t)
	if t.namespaced() {
		deletions["namespace of "+t.Name] = "namespace $NS"
	}
	return deletions
}

func definition(t Target) map[string]string {
	if t.Definition == "" {
		return nil
	}
	return map[string]string{"definition of " + t.Name: "crd " + t.Definition}
}

func (o *Operator) situations() []situation {
	namespace, name := o.deployment()
	scaled := []string{"scale deployment " + name + " -n " + namespace + " --replicas=0"}
	// The API server keeps these two (k8s.io/apiserver, plugin/namespace/lifecycle).
	home := situation{name: "without its namespace", deletes: "namespace " + namespace, stops: true, deletions: objects}
	if namespace == "default" || namespace == "kube-system" {
		home.name, home.deletes = "without its Deployment", "deployment "+name+" -n "+namespace
	}
	list := []situation{
		{name: runs, short: true, deletions: all},
		{name: runs, deletions: definition},
		{name: "scaled to zero", short: true, do: scaled, stops: true, deletions: all},
		{name: "scaled to zero", do: scaled, stops: true, deletions: definition},
		{name: "crashes", crashes: true, stops: true, deletions: all},
		home,
		{name: "uninstalled", short: true, do: o.Uninstall, stops: true, deletions: all},
	}
	for _, right := range o.Rights {
		list = append(list, situation{name: "without its " + objectName(right), deletes: right, deletions: objects})
	}
	for _, t := range o.Targets {
		for _, need := range t.Needs {
			list = append(list, situation{name: "without " + objectName(need) + " that it needs", deletes: need, of: t.Name, deletions: objects})
		}
	}
	return list
}

// Two rights may have one type.
func objectName(object string) string {
	object, _, _ = strings.Cut(object, " -n ")
	return rowName(object)
}

func own(text, name string) string {
	bare := strings.ReplaceAll(name, "-", "")
	return strings.NewReplacer("$NS", name, "$KIND", strings.ToUpper(bare[:1])+bare[1:], "$kind", bare).Replace(text)
}
