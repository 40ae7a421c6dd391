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

// What becomes of a finalizer whose owner does not find what it needs.
const (
	Hangs     = "hangs"     // the owner tries again for ever
	May       = "may"       // it depends on versions, settings or the moment, or is not known
	Completes = "completes" // the owner lets the finalizer go: it is no need, whatever the field is called
)

// Reference is how one object names another: by the value at Path, in the
// namespace at NamespacePath, where every condition of When holds.
//
// A path is that of a field: fields follow one another after dots, ["a.b/c"] is
// a key of a map that is no plain word, [type=Ready] the elements of a list of which a
// field has that value, and [*] every element of a list or every value of a map. NamespacePath and the conditions may use a [*] only in what
// they share with Path up to and including the [*], and then speak of the same
// element; if Path has none, a condition may, and speaks of all elements.
type Reference struct {
	// Of are the resources of the entry that it holds for, all if there is none:
	// plural.group, *.group for all of that API group and of those below it, or
	// plural.* for those of that plural.
	Of []string `json:"of,omitempty"`
	// Resource is plural.group: of a need what is named, of a referrer what names.
	// In an entry {group} stands for the API group of the finalized object;
	// NeedsOf and WaitsForOf fill it in.
	Resource string `json:"resource"`
	Path     string `json:"path,omitempty"`
	// Name is what is meant where nothing stands at Path. Of a need without Path
	// it is a thing of that name in the object's namespace which the owner uses
	// where there is one: then its going counts, and its absence says nothing.
	Name string `json:"name,omitempty"`
	// NamespacePath is where the namespace of what is named stands. Without it,
	// and where nothing stands there, that is the namespace of the object that
	// names it. It says nothing of resources without namespaces.
	NamespacePath string      `json:"namespacePath,omitempty"`
	When          []Condition `json:"when,omitempty"`
	// Source is the file or the thread that shows it.
	Source string `json:"source"`

	path, namespacePath []string
}

// Condition holds if a string, boolean or whole number at Path is one of In, or none is one of
// NotIn; exactly one of the two is given. What is not there is "".
type Condition struct {
	Path  string   `json:"path"`
	In    []string `json:"in,omitempty"`
	NotIn []string `json:"notIn,omitempty"`

	path []string
}

// Need is what the owner of a finalizer reads to clear it off an object. Path
// leads from that object.
type Need struct {
	Reference
	// Prefix is what precedes the name in the value at Path: others name nothing.
	Prefix string `json:"prefix,omitempty"`
	// Impersonates tells that the owner acts as the ServiceAccount that is named:
	// what binds roles to it in the object's namespace is needed as well.
	Impersonates bool `json:"impersonates,omitempty"`
	// Without is what happens if the thing is not there: Hangs, May or Completes.
	Without string `json:"without"`
	// Needs are what the owner reads next, from the thing that is named: their
	// paths lead from there, and their Of is empty.
	Needs []Need `json:"needs,omitempty"`
}

// Referrer is what the owner of a finalizer waits for, by design: as long as
// there are objects of Resource that name the object, the finalizer stays, and
// the owner does not delete them, unless Deletes says so. Path leads from the
// referrer. Without Path every object of Resource counts.
type Referrer struct {
	Reference
	// Deletes tells that the owner deletes those that refer itself: the finalizer stays
	// only as long as they cannot go.
	Deletes bool `json:"deletes,omitempty"`
	// SameNamespace tells that only referrers in the namespace of the object count.
	SameNamespace bool `json:"sameNamespace,omitempty"`
	// AnyNamespace tells that a referrer means the object of that name wherever it lies.
	AnyNamespace bool `json:"anyNamespace,omitempty"`
	// If are conditions on the object, without which the owner waits for nobody.
	If []Condition `json:"if,omitempty"`
	// Within is a path into the finalized object, to ranges of addresses in CIDR
	// notation: the value at Path is an address, and names the object if it lies
	// in one of these and in none of any other object of that kind.
	Within string `json:"within,omitempty"`

	within []string
}

// Named is an object that another names. An empty Namespace is that of the
// object that names it.
type Named struct{ Namespace, Name string }

// NeedsOf returns what the owner needs to clear the finalizer off an object of a
// resource (plural.group).
func (e *Entry) NeedsOf(resource string) []Need {
	return holding(e.Needs, resource, func(n *Need) *Reference { return &n.Reference })
}

// WaitsForOf returns the referrers that keep the finalizer on an object of a
// resource (plural.group).
func (e *Entry) WaitsForOf(resource string) []Referrer {
	return holding(e.WaitsFor, resource, func(r *Referrer) *Reference { return &r.Reference })
}

func holding[T any](all []T, resource string, reference func(*T) *Reference) []T {
	_, group, _ := strings.Cut(resource, ".")
	var found []T
	for i := range all {
		if of := reference(&all[i]).Of; len(of) > 0 && !slices.ContainsFunc(of, func(pattern string) bool { return covers(pattern, resource) }) {
			continue
		}
		one := all[i]
		r := reference(&one)
		r.Resource = strings.TrimSuffix(strings.ReplaceAll(r.Resource, ofGroup, group), ".")
		found = append(found, one)
	}
	return found
}

// ofGroup stands for the API group of the finalized object.
const ofGroup = "{group}"

// covers tells whether a resource is the one of a pattern, plural.group, *.group
// or plural.*.
func covers(pattern, resource string) bool {
	plural, group, _ := strings.Cut(resource, ".")
	if of, found := strings.CutPrefix(pattern, "*."); found {
		return group == of || strings.HasSuffix(group, "."+of)
	}
	if of, found := strings.CutSuffix(pattern, ".*"); found {
		return plural == of
	}
	return pattern == resource
}

// Names returns the objects that the owner needs for an object, each once, in
// the order of the object. A thing of a fixed name is among them, whether it is
// there or not.
func (n *Need) Names(object map[string]any) []Named {
	if n.Path == "" {
		if !n.holds(object, nil) {
			return nil
		}
		return []Named{{Name: n.Name}}
	}
	return n.named(object, func(value string) string {
		value, found := strings.CutPrefix(value, n.Prefix)
		if !found {
			return ""
		}
		return value
	})
}

// Names returns the objects that a referrer names, each once. Without Path it
// names none; see Counts.
func (r *Referrer) Names(referrer map[string]any) []Named {
	if r.Path == "" {
		return nil
	}
	return r.named(referrer, func(value string) string { return value })
}

// Counts tells whether the conditions hold for a referrer without Path, which
// then stands in the way whatever it names.
func (r *Referrer) Counts(referrer map[string]any) bool {
	return r.Path == "" && r.holds(referrer, nil)
}

// Applies tells whether the owner waits for referrers of this object.
func (r *Referrer) Applies(object map[string]any) bool { return hold(r.If, object, nil) }

// LongestName is that of an object: what is longer names none.
const LongestName = 253

// named returns what the object names at the path, where the conditions hold.
func (r *Reference) named(object map[string]any, name func(string) string) []Named {
	var found []Named
	seen := map[Named]bool{}
	each(object, r.path, nil, func(at any, elements []any) {
		value, _ := at.(string)
		if value == "" || len(value) > LongestName || !r.holds(object, elements) {
			return
		}
		one := Named{Namespace: text(from(object, r.namespacePath, elements)), Name: name(value)}
		if one.Name != "" && !seen[one] {
			seen[one] = true
			found = append(found, one)
		}
	})
	if r.Name != "" && text(object, r.path) == "" && r.holds(object, nil) {
		found = append(found, Named{Namespace: text(object, r.namespacePath), Name: r.Name})
	}
	return found
}

// holds tells whether every condition holds, for the elements that the [*] of
// the path stand for.
func (r *Reference) holds(object map[string]any, elements []any) bool {
	return hold(r.When, object, elements)
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

// every is the step of a path that stands for each element.
const every = "[*]"

// from returns where to follow a path from, and what is left of it: the element
// that the last [*] stands for of those that have one, or the object.
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

// each visits what stands at a path, with the elements that its [*] stand for.
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

// texts are the strings, booleans and whole numbers that stand at a path.
func texts(at any, path []string) []string {
	var found []string
	each(at, path, nil, func(value any, _ []any) {
		switch value := value.(type) {
		case string:
			found = append(found, value)
		case bool:
			found = append(found, strconv.FormatBool(value))
		case int64:
			found = append(found, strconv.FormatInt(value, 10))
		case float64: // as encoding/json reads any number
			found = append(found, strconv.FormatFloat(value, 'f', -1, 64))
		}
	})
	return found
}

// text is what stands at a path without [*], "" if there is nothing.
func text(at any, path []string) string { return strings.Join(texts(at, path), "") }

// step is one of a path: a field, a key in brackets, the elements that have a value, or [*].
var step = regexp.MustCompile(`^(?:\.?([A-Za-z_$][-A-Za-z0-9_$]*)|\["([^"\\]+)"\]|(\[[A-Za-z]+=[A-Za-z]+\])|\[\*\])`)

// parsePath reads a path into its steps. An empty one has none.
func parsePath(path string) ([]string, error) {
	var steps []string
	for rest := path; rest != ""; {
		found := step.FindStringSubmatch(rest)
		if found == nil || len(steps) == 0 == strings.HasPrefix(rest, ".") && found[1] != "" {
			return nil, fmt.Errorf("path %q: at %q: fields after dots, [\"keys\"] and [*] are needed", path, rest)
		}
		steps = append(steps, cmp.Or(found[1], found[2], found[3], every))
		rest = rest[len(found[0]):]
	}
	return steps, nil
}

// shares tells whether the [*] of a path are those of another, and stand for the
// same elements.
func shares(path, of []string) bool {
	last := -1
	for i, step := range path {
		if step == every {
			last = i
		}
	}
	return last < len(of) && slices.Equal(path[:last+1], of[:last+1])
}

// check reads the paths of a reference that an entry on these resources has.
func (r *Reference) check(on []string) error {
	var err error
	if !resourcePattern.MatchString(strings.Replace(r.Resource, "."+ofGroup, ".group", 1)) {
		return fmt.Errorf("resource %q is not plural.group", r.Resource)
	}
	if r.Source == "" {
		return errors.New("a source is needed")
	}
	for _, of := range r.Of {
		if !resourcePattern.MatchString(strings.TrimSuffix(strings.TrimPrefix(of, "*."), ".*")) {
			return fmt.Errorf("of: %q is none of plural.group, *.group and plural.*", of)
		}
		if !slices.Contains(on, "*") && !slices.ContainsFunc(on, func(resource string) bool { return covers(of, resource) }) {
			return fmt.Errorf("of: %q is none of the resources of the entry", of)
		}
	}
	if r.path, err = parsePath(r.Path); err != nil {
		return err
	}
	if r.namespacePath, err = parsePath(r.NamespacePath); err != nil {
		return fmt.Errorf("namespacePath: %w", err)
	}
	if r.Name != "" && slices.Contains(r.path, every) {
		return errors.New("name: what would be called that, beside a path with [*]")
	}
	if !shares(r.namespacePath, r.path) {
		return fmt.Errorf("namespacePath %q has a [*] that path %q has not", r.NamespacePath, r.Path)
	}
	for i := range r.When {
		if err := r.When[i].check(r.Path, r.path); err != nil {
			return fmt.Errorf("when: %w", err)
		}
	}
	return nil
}

// check parses the path of a condition on what stands at another path, "" if on the
// object.
func (c *Condition) check(path string, of []string) (err error) {
	if c.path, err = parsePath(c.Path); err != nil {
		return err
	}
	if slices.Contains(of, every) && !shares(c.path, of) {
		return fmt.Errorf("%q has a [*] that path %q has not", c.Path, path)
	}
	if c.Path == "" || len(c.In) == 0 == (len(c.NotIn) == 0) {
		return errors.New("a path and one of in and notIn are needed")
	}
	return nil
}

// CreatesFor tells whether the owner must create something to clear the finalizer
// off an object. Where what decides is not known, it may have to.
func (e *Entry) CreatesFor(object map[string]any) bool {
	return e.Creates != "" && mayHold(e.CreatesWhen, object)
}

// mayHold tells whether every condition on an object holds, or is not known, as that
// on the spec of an object of which only the metadata is.
func mayHold(conditions []Condition, object map[string]any) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		_, known := object[c.path[0]]
		return known && !hold([]Condition{c}, object, nil)
	})
}

// deepest is how many things an owner may read, each named by the one before.
const deepest = 3

func (n *Need) check(on []string, depth int) error {
	if err := n.Reference.check(on); err != nil {
		return err
	}
	switch {
	case n.Path == "" && (n.Name == "" || n.NamespacePath != ""):
		return errors.New("a path is needed, or a name and nothing else that a path goes with")
	case n.Path == "" && n.Without == Hangs:
		return errors.New("without: hangs: the absence of what has a fixed name says nothing")
	case n.Impersonates && n.Resource != "serviceaccounts":
		return fmt.Errorf("impersonates: nobody acts as one of %s", n.Resource)
	case !slices.Contains([]string{Hangs, May, Completes}, n.Without):
		return fmt.Errorf("without: %q is none of hangs, may and completes", n.Without)
	case depth == deepest && len(n.Needs) > 0:
		return fmt.Errorf("needs: more than %d one below the other", deepest)
	}
	for i := range n.Needs {
		if len(n.Needs[i].Of) > 0 || strings.Contains(n.Needs[i].Resource, ofGroup) {
			return errors.New("needs: of and {group} are for those of an entry")
		}
		if err := n.Needs[i].check(nil, depth+1); err != nil {
			return fmt.Errorf("needs %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *Referrer) check(on []string) error {
	if err := r.Reference.check(on); err != nil {
		return err
	}
	within, err := parsePath(r.Within)
	switch {
	case err != nil:
		return fmt.Errorf("within: %w", err)
	case r.Within != "" && r.Path == "":
		return errors.New("within: a path to the address is needed")
	case r.Name != "" && r.Path == "":
		return errors.New("name: a path is needed, beside which it is what is meant")
	case r.SameNamespace && r.NamespacePath != "":
		return errors.New("sameNamespace and namespacePath exclude each other")
	case r.AnyNamespace && (r.SameNamespace || r.NamespacePath != "" || r.Path == ""):
		return errors.New("anyNamespace goes with a path, and without sameNamespace and namespacePath")
	}
	for i := range r.If {
		if err := r.If[i].check("", nil); err != nil {
			return fmt.Errorf("if: %w", err)
		}
	}
	r.within = within
	return nil
}

// Ranges returns the ranges of addresses of the finalized object, of a referrer
// that has Within.
func (r *Referrer) Ranges(object map[string]any) []string {
	var found []string
	each(object, r.within, nil, func(at any, _ []any) {
		if value, isText := at.(string); isText {
			found = append(found, value)
		}
	})
	return found
}
