package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Effects of a missing object on a finalizer.
const (
	Hangs     = "hangs"     // the owner retries for ever
	May       = "may"       // it depends on versions, settings or timing, or is unknown
	Completes = "completes" // the owner removes the finalizer: it is no need, whatever the field is called
)

// Reference is how one object names another: by the value at Path, in the namespace at NamespacePath, if all
// of When hold.
//
// In a path, dots separate fields, ["a.b/c"] is a key that is no plain word, [type=Ready] the list elements
// with that field value, and [*] every element of a list or value of a map. NamespacePath and conditions may
// use a [*] only in a prefix shared with Path, including the [*], and then mean the same element; if Path has
// none, a condition may, and means all elements.
type Reference struct {
	// Of are the resources of the entry that have it, all if empty: plural.group, *.group with the groups below
	// it, or plural.* for all groups.
	Of []string `json:"of,omitempty"`
	// Resource is plural.group: a need's named resource, a referrer's own. {group} is replaced by the finalized
	// object's API group.
	Resource string `json:"resource"`
	Path     string `json:"path,omitempty"`
	// Name is the default if Path has no value. For a need without Path it is an optional object of that name
	// in the object's namespace: its deletion counts, its absence does not.
	Name string `json:"name,omitempty"`
	// NamespacePath leads to the named object's namespace, by default the naming object's; it is ignored for
	// cluster-scoped resources.
	NamespacePath string `json:"namespacePath,omitempty"`
	// Prefix precedes the name in the value at Path: other values name nothing.
	Prefix string      `json:"prefix,omitempty"`
	When   []Condition `json:"when,omitempty"`
	Source string      `json:"source"`

	path, namespacePath []string
}

// Condition holds if a string, boolean or whole number at Path, "" if missing, is one of In, or none is one
// of NotIn.
type Condition struct {
	Path  string   `json:"path"`
	In    []string `json:"in,omitempty"`
	NotIn []string `json:"notIn,omitempty"`

	path []string
}

// Need is an object that an owner reads to clear a finalizer. Path leads from the finalized object.
type Need struct {
	Reference
	// Impersonates says that the owner acts as the named ServiceAccount: its role bindings in the object's
	// namespace are needed as well.
	Impersonates bool `json:"impersonates,omitempty"`
	// Without is Hangs, May or Completes.
	Without string `json:"without"`
	// Needs are read next: paths lead from the named object, and Of is empty.
	Needs []Need `json:"needs,omitempty"`
}

// Referrer is awaited by an owner, by design: the finalizer stays while objects of Resource name the object.
// Path leads from the referrer; without it every object of Resource counts.
type Referrer struct {
	Reference
	// Deletes says that the owner deletes them: the finalizer stays only while they cannot be deleted.
	Deletes bool `json:"deletes,omitempty"`
	// SameNamespace says that only referrers in the object's namespace count.
	SameNamespace bool `json:"sameNamespace,omitempty"`
	// AnyNamespace says that a referrer names an object of any namespace.
	AnyNamespace bool `json:"anyNamespace,omitempty"`
	// If are conditions on the object.
	If []Condition `json:"if,omitempty"`
	// Within is a path into the finalized object, to address ranges in CIDR notation: the address at Path names
	// the object if it is in its ranges and in no other object's.
	Within string `json:"within,omitempty"`

	within []string
}

// Named is an object that another names. An empty Namespace is the naming object's.
type Named struct{ Namespace, Name string }

func (e *Entry) NeedsOf(resource string) []Need {
	return holding(e.Needs, resource, func(n *Need) *Reference { return &n.Reference })
}

func (e *Entry) WaitsForOf(resource string) []Referrer {
	return holding(e.WaitsFor, resource, func(r *Referrer) *Reference { return &r.Reference })
}

func holding[T any](all []T, resource string, reference func(*T) *Reference) []T {
	_, group, _ := strings.Cut(resource, ".")
	var result []T
	for i := range all {
		if !concerns(reference(&all[i]).Of, resource) {
			continue
		}
		one := all[i]
		r := reference(&one)
		r.Resource = strings.TrimSuffix(strings.ReplaceAll(r.Resource, ofGroup, group), ".")
		result = append(result, one)
	}
	return result
}

const ofGroup = "{group}"

func concerns(of []string, resource string) bool {
	return len(of) == 0 || slices.ContainsFunc(of, func(pattern string) bool { return covers(pattern, resource) })
}

func covers(pattern, resource string) bool {
	plural, group, _ := strings.Cut(resource, ".")
	if of, ok := strings.CutPrefix(pattern, "*."); ok {
		return group == of || strings.HasSuffix(group, "."+of)
	}
	if of, ok := strings.CutSuffix(pattern, ".*"); ok {
		return plural == of
	}
	return pattern == resource
}

func coversSome(pattern string, on []string) bool {
	return slices.ContainsFunc(on, func(resource string) bool { return resource == "*" || covers(pattern, resource) })
}

// Counts reports whether a referrer without Path blocks, whatever it names.
func (r *Referrer) Counts(referrer map[string]any) bool {
	return r.Path == "" && hold(r.When, referrer, nil)
}

// Applies reports whether the owner waits for referrers of this object.
func (r *Referrer) Applies(object map[string]any) bool { return hold(r.If, object, nil) }

const LongestName = 253

// Names returns the objects that an object names, each once, in order; one of a fixed name even if missing.
func (r *Reference) Names(object map[string]any) (objects []Named) {
	seen := map[Named]bool{}
	each(object, r.path, nil, func(at any, elements []any) {
		value, _ := at.(string)
		name, is := strings.CutPrefix(value, r.Prefix)
		if !is || name == "" || len(value) > LongestName || !hold(r.When, object, elements) {
			return
		}
		one := Named{Namespace: text(from(object, r.namespacePath, elements)), Name: name}
		if !seen[one] {
			seen[one] = true
			objects = append(objects, one)
		}
	})
	if r.Name != "" && text(object, r.path) == "" && hold(r.When, object, nil) {
		objects = append(objects, Named{Namespace: text(object, r.namespacePath), Name: r.Name})
	}
	return objects
}

func hold(conditions []Condition, object map[string]any, elements []any) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		values := texts(from(object, c.path, elements))
		if len(values) == 0 {
			values = []string{""}
		}
		among := func(names []string) bool {
			return slices.ContainsFunc(values, func(value string) bool { return slices.Contains(names, value) })
		}
		return len(c.In) > 0 && !among(c.In) || among(c.NotIn)
	})
}

const every = "[*]"

// from returns the start of a path, the element of its last known [*] or the object, and the remaining steps.
func from(object map[string]any, path []string, elements []any) (any, []string) {
	var at any = object
	rest := path
	for i, step := range path {
		if step == every && len(elements) > 0 {
			at, elements, rest = elements[0], elements[1:], path[i+1:]
		}
	}
	return at, rest
}

// each visits the values at a path, with the elements of its [*].
func each(at any, path []string, elements []any, visit func(any, []any)) {
	if len(path) == 0 {
		visit(at, elements)
		return
	}
	step, rest := path[0], path[1:]
	fields, isMap := at.(map[string]any)
	switch {
	case step != every && isMap:
		each(fields[step], rest, elements, visit)
	case step == every && isMap:
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			each(fields[key], rest, append(slices.Clip(elements), fields[key]), visit)
		}
	case step == every:
		list, _ := at.([]any)
		for _, element := range list {
			each(element, rest, append(slices.Clip(elements), element), visit)
		}
	default:
		list, _ := at.([]any)
		key, value, _ := strings.Cut(strings.Trim(step, "[]"), "=")
		for _, element := range list {
			if fields, _ := element.(map[string]any); fields[key] == value {
				each(element, rest, elements, visit)
			}
		}
	}
}

func texts(at any, path []string) []string {
	var values []string
	each(at, path, nil, func(value any, _ []any) {
		switch value := value.(type) {
		case string:
			values = append(values, value)
		case bool:
			values = append(values, strconv.FormatBool(value))
		case int64:
			values = append(values, strconv.FormatInt(value, 10))
		case float64: // as encoding/json reads any number
			values = append(values, strconv.FormatFloat(value, 'f', -1, 64))
		}
	})
	return values
}

func text(at any, path []string) string { return strings.Join(texts(at, path), "") }

var step = regexp.MustCompile(`^(?:\.?([A-Za-z_$][-A-Za-z0-9_$]*)|\["([^"\\]+)"\]|(\[[A-Za-z]+=[A-Za-z]+\])|\[\*\])`)

func parsePath(path string) ([]string, error) {
	var steps []string
	for rest := path; rest != ""; {
		match := step.FindStringSubmatch(rest)
		if match == nil || len(steps) == 0 == strings.HasPrefix(rest, ".") && match[1] != "" {
			return nil, fmt.Errorf("path %q: at %q: fields after dots, [\"keys\"] and [*] are needed", path, rest)
		}
		steps = append(steps, cmp.Or(match[1], match[2], match[3], every))
		rest = rest[len(match[0]):]
	}
	return steps, nil
}

// shares reports whether the [*] of a path are also in another, for the same elements.
func shares(path, of []string) bool {
	last := -1
	for i, step := range path {
		if step == every {
			last = i
		}
	}
	return last < len(of) && slices.Equal(path[:last+1], of[:last+1])
}

func (r *Reference) check(on []string) error {
	var err, inNamespace error
	r.path, err = parsePath(r.Path)
	r.namespacePath, inNamespace = parsePath(r.NamespacePath)
	return cmp.Or(
		require(resourcePattern.MatchString(strings.Replace(r.Resource, "."+ofGroup, ".group", 1)), "resource %q is not plural.group", r.Resource),
		require(r.Source != "", "a source is needed"),
		checkAll("of", r.Of, func(of *string) error {
			return cmp.Or(
				require(resourcePattern.MatchString(strings.TrimSuffix(strings.TrimPrefix(*of, "*."), ".*")), "%q is none of plural.group, *.group and plural.*", *of),
				require(coversSome(*of, on), "%q is none of the resources of the entry", *of),
			)
		}),
		err,
		require(inNamespace == nil, "namespacePath: %w", inNamespace),
		require(r.Name == "" || !slices.Contains(r.path, every), "name: a path with [*] has no single object of that name"),
		require(shares(r.namespacePath, r.path), "namespacePath %q has a [*] that path %q has not", r.NamespacePath, r.Path),
		checkAll("when", r.When, func(c *Condition) error { return c.check(r.Path, r.path) }),
	)
}

// check takes the path that the condition's values belong to, "" for the object.
func (c *Condition) check(path string, of []string) (err error) {
	c.path, err = parsePath(c.Path)
	return cmp.Or(
		err,
		require(!slices.Contains(of, every) || shares(c.path, of), "%q has a [*] that path %q has not", c.Path, path),
		require(c.Path != "" && len(c.In) == 0 != (len(c.NotIn) == 0), "a path and one of in and notIn are needed"),
	)
}

// CreatesFor reports whether the owner must create something for an object, or may have to.
func (e *Entry) CreatesFor(object map[string]any) bool {
	return e.Creates != "" && mayHold(e.CreatesWhen, object)
}

// mayHold reports whether all conditions hold or are unknown, such as on the spec if only metadata is known.
func mayHold(conditions []Condition, object map[string]any) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		_, ok := object[c.path[0]]
		return ok && !hold([]Condition{c}, object, nil)
	})
}

// deepest bounds Needs in Needs.
const deepest = 3

func (n *Need) check(on []string, depth int) error {
	if err := n.Reference.check(on); err != nil {
		return err
	}
	if err := cmp.Or(
		require(n.Path != "" || n.Name != "" && n.NamespacePath == "", "a path is needed, or a name without the keys of a path"),
		require(n.Path != "" || n.Without != Hangs, "without: hangs: the absence of an object of a fixed name proves nothing"),
		require(!n.Impersonates || n.Resource == "serviceaccounts", "impersonates: no owner acts as one of %s", n.Resource),
		require(slices.Contains([]string{Hangs, May, Completes}, n.Without), "without: %q is none of hangs, may and completes", n.Without),
		require(depth < deepest || len(n.Needs) == 0, "needs: more than %d one below the other", deepest),
	); err != nil {
		return err
	}
	return checkAll("needs", n.Needs, func(below *Need) error {
		if len(below.Of) > 0 || strings.Contains(below.Resource, ofGroup) {
			return errors.New("of and {group} are for those of an entry")
		}
		return below.check(nil, depth+1)
	})
}

func (r *Referrer) check(on []string) error {
	if err := r.Reference.check(on); err != nil {
		return err
	}
	var err error
	r.within, err = parsePath(r.Within)
	return cmp.Or(
		require(err == nil, "within: %w", err),
		require(r.Within == "" || r.Path != "", "within: a path to the address is needed"),
		require(r.Name == "" || r.Path != "", "name: a path is needed, of which it is the default"),
		require(!r.SameNamespace || r.NamespacePath == "", "sameNamespace and namespacePath exclude each other"),
		require(!r.AnyNamespace || !r.SameNamespace && r.NamespacePath == "" && r.Path != "", "anyNamespace needs a path, and excludes sameNamespace and namespacePath"),
		checkConditions("if", r.If),
	)
}

// Ranges returns the finalized object's address ranges, by Within.
func (r *Referrer) Ranges(object map[string]any) []string {
	var ranges []string
	each(object, r.within, nil, func(at any, _ []any) {
		if value, isText := at.(string); isText {
			ranges = append(ranges, value)
		}
	})
	return ranges
}
