package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Obstacle keeps a finalizer although its owner runs: a bug of some releases, or a setting of the object.
type Obstacle struct {
	ID string `json:"id"`
	// Of is as in Reference.
	Of []string `json:"of,omitempty"`
	// Image is the software with the bug, as in Workload; without it, the control plane of Kubernetes.
	Image string `json:"image,omitempty"`
	// Affected is a range of versions, as github.com/blang/semver/v4 reads it; without it, every release is.
	Affected string `json:"affected,omitempty"`
	// When is of the object. If a field is unknown, a bug may occur, and a setting is not reported.
	When []Condition `json:"when,omitempty"`
	// Lacks is a resource in Needs: it occurs only if the needed object is missing, or deleted with the
	// namespace.
	Lacks string `json:"lacks,omitempty"`
	// WithNamespace says that it occurs only in the deletion of the object's namespace.
	WithNamespace bool `json:"withNamespace,omitempty"`
	// Right is needed by these releases alone: it occurs only without it.
	Right   *Right `json:"right,omitempty"`
	Symptom string `json:"symptom"`
	Mend    string `json:"mend"`
	Source  string `json:"source"`

	affects semver.Range
}

// Right is a verb on all objects of a resource.
type Right struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
}

var verbs = []string{"patch", "update"}

func (o *Obstacle) check(on []string) (err error) {
	if o.Affected != "" {
		if o.affects, err = semver.ParseRange(o.Affected); err != nil {
			return fmt.Errorf("affected %q: %w", o.Affected, err)
		}
	}
	return cmp.Or(
		checkAll("of", o.Of, func(of *string) error {
			return require(coversSome(*of, on), "%q is none of the resources of the entry", *of)
		}),
		require(o.ID != "" && o.Symptom != "" && o.Mend != "" && o.Source != "", "id, symptom, mend and source are needed"),
		require(o.Affected != "" || o.Image == "" && len(o.When) > 0, "affected is needed, or conditions (when) and no image"),
		require(!strings.ContainsAny(o.Image, "/:@*"), "image %q is not the last path element of a repository", o.Image),
		require(o.Lacks == "" || resourcePattern.MatchString(o.Lacks), "lacks: %q is not plural.group", o.Lacks),
		require(o.Right == nil || o.Image != "" && resourcePattern.MatchString(o.Right.Resource) && slices.Contains(verbs, o.Right.Verb),
			"right: an image, a resource as plural.group and one of the verbs %s are needed", strings.Join(verbs, ", ")),
		checkConditions("when", o.When),
	)
}

func (e *Entry) ObstaclesOf(resource string) []Obstacle {
	return slices.DeleteFunc(slices.Clone(e.Obstacles), func(o Obstacle) bool { return !concerns(o.Of, resource) })
}

// Shows reports whether it may occur with an object.
func (o *Obstacle) Shows(object map[string]any) bool {
	if o.affects == nil {
		return hold(o.When, object, nil)
	}
	return mayHold(o.When, object)
}

// In reports whether a version, a tag or as a component reports it, has it; false for other texts.
func (o *Obstacle) In(version string) bool {
	v, err := parseVersion(version)
	return err == nil && o.affects != nil && o.affects(v)
}

// Affected returns the images whose release matters. It must not be changed.
func (c *Catalog) Affected() map[string]bool { return c.indexed().affected }

// Tag returns the tag of an image reference, or "".
func Tag(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	_, tag, _ := strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], ":")
	return tag
}
