package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Obstacle is something that is known to keep a finalizer although its owner runs: a
// fault of some releases, or a setting of the object that no release gets past.
type Obstacle struct {
	ID string `json:"id"`
	// Of are the resources of the entry that it holds for, all if there is none, as
	// in Reference.
	Of []string `json:"of,omitempty"`
	// Image is what runs the software that has the fault, as in Workload; without it
	// that is the control plane of Kubernetes.
	Image string `json:"image,omitempty"`
	// Affected is a range of versions, as github.com/blang/semver/v4 reads it. Without
	// it every release is stopped, and When tells by what.
	Affected string `json:"affected,omitempty"`
	// When are conditions on the object without which it does not show. Where what
	// decides is not known, a fault may show, and a setting is not told.
	When []Condition `json:"when,omitempty"`
	// Lacks is the resource, as plural.group, of which Needs name a thing: it shows
	// only where that is not there, or goes with the object's namespace.
	Lacks string `json:"lacks,omitempty"`
	// WithNamespace tells that it shows only where the object's namespace goes.
	WithNamespace bool `json:"withNamespace,omitempty"`
	// Right is what these releases must be allowed, unlike others: it shows only where
	// RBAC does not say so.
	Right *Right `json:"right,omitempty"`
	// Symptom says in a few words what goes wrong, and Fix what to do.
	Symptom string `json:"symptom"`
	Mend    string `json:"mend"`
	// Source is the file or the thread that tells of it.
	Source string `json:"source"`

	affects semver.Range
}

// Right is one to do something with all objects of a resource, as plural.group.
type Right struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
}

// verbs are those of which the facts know who may.
var verbs = []string{"patch", "update"}

func (o *Obstacle) check(on []string) error {
	for _, of := range o.Of {
		if !slices.Contains(on, "*") && !slices.ContainsFunc(on, func(resource string) bool { return covers(of, resource) }) {
			return fmt.Errorf("of: %q is none of the resources of the entry", of)
		}
	}
	switch {
	case o.ID == "" || o.Symptom == "" || o.Mend == "" || o.Source == "":
		return errors.New("id, symptom, mend and source are needed")
	case o.Affected == "" && (o.Image != "" || len(o.When) == 0):
		return errors.New("affected is needed, or conditions (when) and no image")
	case strings.ContainsAny(o.Image, "/:@*"):
		return fmt.Errorf("image %q is not the last path element of a repository", o.Image)
	case o.Lacks != "" && !resourcePattern.MatchString(o.Lacks):
		return fmt.Errorf("lacks: %q is not plural.group", o.Lacks)
	case o.Right != nil && (o.Image == "" || !resourcePattern.MatchString(o.Right.Resource) || !slices.Contains(verbs, o.Right.Verb)):
		return fmt.Errorf("right: an image, a resource as plural.group and one of the verbs %s are needed", strings.Join(verbs, ", "))
	}
	for i := range o.When {
		if err := o.When[i].check("", nil); err != nil {
			return fmt.Errorf("when: %w", err)
		}
	}
	return nil
}

// ObstaclesOf are those that hold for objects of a resource (plural.group).
func (e *Entry) ObstaclesOf(resource string) []Obstacle {
	var found []Obstacle
	for _, o := range e.Obstacles {
		if len(o.Of) == 0 || slices.ContainsFunc(o.Of, func(of string) bool { return covers(of, resource) }) {
			found = append(found, o)
		}
	}
	return found
}

// Shows tells whether it may show with an object.
func (o *Obstacle) Shows(object map[string]any) bool {
	if o.affects == nil {
		return hold(o.When, object, nil)
	}
	return mayHold(o.When, object)
}

// In tells whether a version has it, given as a tag, or as a component reports it.
// What is no version is not affected.
func (o *Obstacle) In(version string) bool {
	v, err := parseVersion(version)
	return err == nil && o.affects != nil && o.affects(v)
}

// Affected are the images of which it matters which release runs, each with true. They
// are not to be changed.
func (c *Catalog) Affected() map[string]bool {
	if c == nil {
		return nil
	}
	c.affecting.Do(func() {
		c.affected = map[string]bool{}
		for _, e := range c.entries() {
			if e.Sure != nil {
				c.affected[e.Sure.Image] = true
			}
			for _, o := range e.Obstacles {
				if o.Image != "" {
					c.affected[o.Image] = true
				}
			}
		}
	})
	return c.affected
}

// Tag is that of an image reference, "" if it has none.
func Tag(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	_, tag, _ := strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], ":")
	return tag
}
