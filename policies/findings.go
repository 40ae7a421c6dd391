package policies

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/shell"
)

// Bounds of a policy's answer. The API server cuts warnings at 256 characters; people read a screenful.
const (
	MaxFindings = 64
	MaxMessage  = 256 // characters
	MaxObjects  = 512
	MaxEvidence = 16
	MaxSteps    = 64
	maxText     = 4096 // characters of evidence, or of a remedy
)

// misformatted matches sprintf's output for wrong verbs or arguments: %!s(MISSING), %!d(string=x), %!(EXTRA
// …), %!(NOVERB).
var misformatted = regexp.MustCompile(`%!.?\(`)

// ErrMalformed is for a member of a policy's sets that is no finding; others are unaffected.
var ErrMalformed = errors.New("malformed")

func decode(p Policy, sets any, about *subject) (found []Finding, omitted int, errs []error) {
	m, _ := sets.(map[string]any)
	for _, rule := range []string{"deny", "warn"} {
		members, _ := m[rule].([]any)
		for _, member := range members {
			if len(found) == MaxFindings {
				omitted++
				continue
			}
			f, err := decodeFinding(p, member, about)
			if err != nil {
				errs = append(errs, PolicyError{p.ID, p.Custom, fmt.Errorf("%w member of %s: %w", ErrMalformed, rule, err)})
				if len(errs) == MaxFindings {
					return found, omitted, errs
				}
				continue
			}
			f.Certainty = Will
			if rule == "warn" {
				f.Certainty = May
			}
			found = append(found, f)
		}
	}
	return found, omitted, errs
}

func decodeFinding(p Policy, member any, about *subject) (Finding, error) {
	f := Finding{Policy: p.ID, Title: p.Title, Severity: p.Severity, Objects: []Object{}, Evidence: []string{}, Manifest: p.Manifest, Class: cmp.Or(p.Class, Broken), Symptom: p.Symptom, Custom: p.Custom}
	hasRemedy := false
	err := members(member, "an object with msg", func(key string, value any) error {
		switch key {
		case "msg":
			return text(&f.Message, value, MaxMessage)
		case "kind":
			return kind(&f.Kind, value)
		case "remedy":
			hasRemedy = true
			return text(&f.Remedy, value, maxText)
		case "steps":
			return list(&f.Steps, value, MaxSteps, step)
		case "field":
			return text(&f.Field, value, maxText)
		case "cause":
			return cause(&f.Cause, value)
		case "manifest":
			return manifest(&f.Manifest, value)
		case "estimate_seconds":
			return seconds(&f.EstimateSeconds, value)
		case "objects":
			return list(&f.Objects, value, MaxObjects, object)
		case "evidence":
			return list(&f.Evidence, value, MaxEvidence, func(s *string, value any) error { return text(s, value, maxText) })
		}
		return errUnknownKey
	})
	switch {
	case err != nil:
		return f, err
	case f.Message == "":
		return f, errors.New("msg is missing")
	case misformatted.MatchString(f.Message):
		return f, fmt.Errorf("msg %q: the verbs and arguments of sprintf differ", f.Message)
	}
	about.keep(&f)
	about.blame(&f)
	switch {
	case hasRemedy:
	case len(f.Steps) > 0:
		f.Remedy = prose(f.Steps)
	default:
		f.Remedy = p.Remedy
	}
	return f, nil
}

func kind(into *Kind, value any) error {
	err := text(into, value, maxText)
	if s := string(*into); err == nil && !slices.Contains(findingKinds, s) {
		err = fmt.Errorf("%q: want one of %v, or no kind for what hangs%s", s, findingKinds, nearest.Hint(s, findingKinds))
	}
	return err
}

func prose(steps []Step) string {
	var sentences []string
	for _, s := range steps {
		sentence := strings.TrimSuffix(s.Do, ".")
		if s.Command != "" {
			sentence += ": " + s.Command
		}
		sentences = append(sentences, sentence+".")
	}
	return strings.Join(sentences, " ")
}

func step(s *Step, value any) error {
	var then Promise
	err := members(value, "{kind, do, then, command or action, hearsay}", func(key string, value any) (err error) {
		switch key {
		case "kind":
			return text(&s.Kind, value, maxText)
		case "do":
			return text(&s.Do, value, maxText)
		case "then":
			return text(&then, value, maxText)
		case "command":
			return command(&s.Command, value)
		case "action":
			s.Action, err = decodeAction(value)
			return err
		case "hearsay":
			return text(&s.Hearsay, value, maxText)
		}
		return errUnknownKey
	})
	switch {
	case err != nil:
		return err
	case !slices.Contains(StepKinds(), s.Kind):
		return fmt.Errorf("kind %q: want one of %v", s.Kind, StepKinds())
	case s.Do == "":
		return errors.New("do is missing")
	case then != "" && promises[then] == "":
		return fmt.Errorf("then %q: want %s or %s", then, Again, Itself)
	case s.Action != nil && s.Command != "":
		return errors.New("command and action: want one of them")
	}
	if then != "" {
		*s = s.Promising(then)
	}
	if s.Action == nil {
		return nil
	}
	if s.Action.Forces() && s.Action.Verb == VerbDelete && s.Kind != Force {
		return fmt.Errorf("kind %q: an action that forces is of kind force", s.Kind)
	}
	if s.Command = s.Action.Command(); !s.Action.sound() || utf8.RuneCountInString(s.Command) > maxText { // too long to read, or to copy whole
		s.Command, s.Action = "", nil
	}
	return nil
}

// command reads a line for a shell, or its words. A long line is left out: half a command is worse than none.
func command(into *string, value any) error {
	if words, split := value.([]any); split {
		line := make([]string, len(words))
		for i, word := range words {
			var ok bool
			if line[i], ok = word.(string); !ok {
				return fmt.Errorf("want words, got %T", word)
			}
		}
		value = shell.Join(line)
	}
	if err := text(into, value, maxText); err != nil {
		return err
	}
	if *into != value {
		*into = ""
	}
	return nil
}

func cause(c *Cause, value any) error {
	err := members(value, "{title, object, finalizer, owner, node, refusal, declared, consequence, elapsed}", func(key string, value any) error {
		switch key {
		case "title":
			return text(&c.Title, value, MaxMessage)
		case "object":
			c.Object = new(Object)
			return object(c.Object, value)
		case "finalizer":
			return text(&c.Finalizer, value, maxText)
		case "owner":
			c.Owner = new(Owner)
			return fields(value, "{name, state}", map[string]*string{"name": &c.Owner.Name, "state": &c.Owner.State})
		case "node":
			return text(&c.Node, value, maxText)
		case "refusal":
			return text(&c.Refusal, value, maxText)
		case "declared":
			return truth(&c.Declared, value)
		case "consequence":
			return truth(&c.Consequence, value)
		case "elapsed":
			return truth(&c.Elapsed, value)
		}
		return errUnknownKey
	})
	if err != nil {
		return err
	}
	switch {
	case c.Title == "":
	case c.Finalizer != "":
		c.Title = "finalizer " + c.Finalizer + ": " + c.Title
	case c.Node != "":
		c.Title = "node " + c.Node + " " + c.Title
	}
	return text(&c.Title, c.Title, MaxMessage)
}

// blamed are resources whose objects are causes.
var blamed = []string{
	"apiservices.apiregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicies.admissionregistration.k8s.io",
	"poddisruptionbudgets.policy", "csinodes.storage.k8s.io", "nodes",
}

// blame fills in a finalizer's owner, and a cause's object: the first blamed one except the target, unless
// that is a node, which is drained.
func (s *subject) blame(f *Finding) {
	if owner := f.Cause.Owner; owner != nil && owner.State == "" && len(f.Objects) > 0 {
		known := s.owner(f.Objects[0], f.Cause.Finalizer)
		owner.Name, _ = under(known, "owner").(string)
		owner.State, _ = under(known, "state").(string)
		f.Cause.Declared, _ = under(known, "declared").(bool)
	}
	if f.Cause.Object != nil || f.Cause.Finalizer != "" {
		return
	}
	at := slices.IndexFunc(f.Objects, func(o Object) bool {
		return slices.Contains(blamed, o.Resource) && (o.Resource == "nodes" || o.Resource != s.resource || o.Name != s.name || o.Namespace != s.namespace)
	})
	if at < 0 {
		return
	}
	f.Cause.Object = &f.Objects[at]
	if o := f.Objects[at]; o.Resource == "nodes" || o.Resource == "csinodes.storage.k8s.io" { // they have one name
		f.Cause.Node = o.Name
	}
}

func manifest(m *Manifest, value any) error {
	severity := string(m.Severity)
	if err := fields(value, "{severity, remedy}", map[string]*string{"severity": &severity, "remedy": &m.Remedy}); err != nil {
		return err
	}
	if m.Severity = Severity(severity); severity != "" && m.Severity != None && !slices.Contains(severities, m.Severity) {
		return fmt.Errorf("severity %q: want one of %v, or %s", severity, severities, None)
	}
	return nil
}

func object(o *Object, value any) error {
	if err := fields(value, "{resource, namespace, name}", map[string]*string{"resource": &o.Resource, "namespace": &o.Namespace, "name": &o.Name}); err != nil {
		return err
	}
	if o.Resource == "" {
		return errors.New("resource is missing")
	}
	return nil
}

var errUnknownKey = errors.New("unknown key")

// members calls read for each member, in order of keys. want describes the document.
func members(value any, want string, read func(key string, value any) error) error {
	m, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("want %s, got %T", want, value)
	}
	keys := make([]string, 0, len(m)) // slices.Sorted would grow it
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := read(key, m[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func fields(value any, want string, into map[string]*string) error {
	return members(value, want, func(key string, value any) error {
		variable, known := into[key]
		if !known {
			return errUnknownKey
		}
		return text(variable, value, maxText)
	})
}

// text cuts a string at limit characters, with "…".
func text[T ~string](into *T, value any, limit int) error {
	s, ok := value.(string)
	if !ok {
		return fmt.Errorf("want a string, got %T", value)
	}
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit-1]) + "…"
	}
	*into = T(s)
	return nil
}

func truth(into *bool, value any) error {
	var ok bool
	if *into, ok = value.(bool); !ok {
		return fmt.Errorf("want true or false, got %T", value)
	}
	return nil
}

func seconds(into **int, value any) error {
	n, ok := value.(json.Number)
	if !ok {
		return fmt.Errorf("want a number, got %T", value)
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > 1<<31 {
		return fmt.Errorf("want seconds, got %s", n)
	}
	*into = new(int(f))
	return nil
}

func list[T any](into *[]T, value any, limit int, read func(*T, any) error) error {
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("want a list, got %T", value)
	}
	items = items[:min(limit, len(items))]
	*into = slices.Grow(*into, len(items))[:len(items)]
	for i, item := range items {
		if err := read(&(*into)[i], item); err != nil {
			return err
		}
	}
	return nil
}
