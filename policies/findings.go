package policies

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/shell"
)

// Bounds of one policy's answer about one request. The API server cuts warnings at 256 characters; people do
// not read more than a screenful.
const (
	MaxFindings = 64
	MaxMessage  = 256 // characters
	MaxObjects  = 512
	MaxEvidence = 16
	MaxSteps    = 64
	maxText     = 4096 // characters of a piece of evidence, or of a remedy
)

// misformatted matches sprintf's output for mismatched verbs and arguments: %!s(MISSING), %!d(string=x),
// %!(EXTRA …), %!(NOVERB).
var misformatted = regexp.MustCompile(`%!.?\(`)

// ErrMalformed is returned for a member of a policy's sets that is no finding. It is left out; other findings
// are unaffected.
var ErrMalformed = errors.New("malformed")

// decode turns the sets of a policy into findings. A malformed member is an error, and does not affect
// others.
func decode(p Policy, sets any, b bounds) (found []Finding, omitted int, errs []error) {
	m, _ := sets.(map[string]any)
	for _, rule := range []string{"deny", "warn"} {
		members, _ := m[rule].([]any)
		for _, member := range members {
			if len(found) == MaxFindings {
				omitted++
				continue
			}
			f, err := decodeFinding(p, member, b)
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

func decodeFinding(p Policy, member any, b bounds) (Finding, error) {
	f := Finding{Policy: p.ID, Title: p.Title, Severity: p.Severity, Objects: []Object{}, Evidence: []string{}, Remedy: p.Remedy, Manifest: p.Manifest, Class: cmp.Or(p.Class, Broken), Symptom: p.Symptom, Custom: p.Custom}
	m, ok := member.(map[string]any)
	if !ok {
		return f, fmt.Errorf("want an object with msg, got %T", member)
	}
	for _, key := range keysOf(m) {
		value := m[key]
		var err error
		switch key {
		case "msg":
			f.Message, err = text(value, MaxMessage)
		case "kind":
			f.Kind, err = kind(value)
		case "remedy":
			f.Remedy, err = text(value, maxText)
		case "steps":
			err = list(value, MaxSteps, func(item any) error {
				s, err := step(item)
				f.Steps = append(f.Steps, s)
				return err
			})
		case "field":
			f.Field, err = text(value, maxText)
		case "cause":
			err = cause(value, &f.Cause)
		case "manifest":
			err = manifest(value, &f.Manifest)
		case "estimate_seconds":
			f.EstimateSeconds, err = seconds(value)
		case "objects":
			err = list(value, MaxObjects, func(item any) error {
				o, err := object(item)
				f.Objects = append(f.Objects, o)
				return err
			})
		case "evidence":
			err = list(value, MaxEvidence, func(item any) error {
				s, err := text(item, maxText)
				f.Evidence = append(f.Evidence, s)
				return err
			})
		default:
			err = errors.New("unknown key")
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case f.Message == "":
		return f, errors.New("msg is missing")
	case misformatted.MatchString(f.Message):
		return f, fmt.Errorf("msg %q: the verbs and arguments of sprintf differ", f.Message)
	}
	b.keep(&f)
	b.blame(&f)
	if _, own := m["remedy"]; !own && len(f.Steps) > 0 {
		f.Remedy = prose(f.Steps)
	}
	return f, nil
}

func kind(value any) (Kind, error) {
	s, err := text(value, maxText)
	if err == nil && !slices.Contains(findingKinds, s) {
		err = fmt.Errorf("%q: want one of %v, or no kind for what hangs%s", s, findingKinds, nearest.Hint(s, findingKinds))
	}
	return Kind(s), err
}

// prose returns steps as sentences.
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

func step(value any) (Step, error) {
	var s Step
	var kind, then string
	keys, _ := value.(map[string]any)
	action, typed := keys["action"]
	words, split := keys["command"].([]any)
	if typed || split {
		keys = maps.Clone(keys)
		delete(keys, "action")
		value = keys
	}
	if split {
		line, err := command(words)
		if err != nil {
			return s, fmt.Errorf("command: %w", err)
		}
		keys["command"] = line
	}
	m, err := fields(value, "{kind, do, then, command or action, hearsay}", map[string]*string{"kind": &kind, "do": &s.Do, "then": &then, "command": &s.Command, "hearsay": &s.Hearsay})
	if err != nil {
		return s, err
	}
	if s.Kind = StepKind(kind); !slices.Contains(StepKinds(), s.Kind) {
		return s, fmt.Errorf("kind %q: want one of %v", s.Kind, StepKinds())
	}
	if s.Do == "" {
		return s, errors.New("do is missing")
	}
	if then != "" {
		if promises[Promise(then)] == "" {
			return s, fmt.Errorf("then %q: want %s or %s", then, Again, Itself)
		}
		s = s.Promising(Promise(then))
	}
	switch {
	case typed && s.Command != "":
		return s, errors.New("command and action: want one of them")
	case typed:
		if s.Action, err = decodeAction(action); err != nil {
			return s, fmt.Errorf("action: %w", err)
		}
		if s.Action.Forces() && s.Action.Verb == VerbDelete && s.Kind != Force {
			return s, fmt.Errorf("kind %q: an action that forces is of kind force", s.Kind)
		}
		if s.Command = s.Action.Command(); !s.Action.sound() || utf8.RuneCountInString(s.Command) > maxText { // too long to read, or to copy whole
			s.Command, s.Action = "", nil
		}
	case s.Command != m["command"]:
		s.Command = "" // half of a command is worse than none
	}
	return s, nil
}

// command returns a line of words for a shell.
func command(words []any) (string, error) {
	line := make([]string, len(words))
	for i, word := range words {
		var known bool
		if line[i], known = word.(string); !known {
			return "", fmt.Errorf("want words, got %T", word)
		}
	}
	return shell.Join(line), nil
}

// cause reads the cause of a finding.
func cause(value any, into *Cause) error {
	m, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("want {title, object, finalizer, owner, node, refusal, declared, consequence, elapsed}, got %T", value)
	}
	for _, key := range keysOf(m) {
		var err error
		switch value := m[key]; key {
		case "title":
			into.Title, err = text(value, MaxMessage)
		case "object":
			into.Object = new(Object)
			*into.Object, err = object(value)
		case "finalizer":
			into.Finalizer, err = text(value, maxText)
		case "owner":
			into.Owner = new(Owner)
			_, err = fields(value, "{name, state}", map[string]*string{"name": &into.Owner.Name, "state": &into.Owner.State})
		case "node":
			into.Node, err = text(value, maxText)
		case "refusal":
			into.Refusal, err = text(value, maxText)
		case "declared":
			into.Declared, err = truth(value)
		case "consequence":
			into.Consequence, err = truth(value)
		case "elapsed":
			into.Elapsed, err = truth(value)
		default:
			err = errors.New("unknown key")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case into.Title == "":
	case into.Finalizer != "":
		into.Title = "finalizer " + into.Finalizer + ": " + into.Title
	case into.Node != "":
		into.Title = "node " + into.Node + " " + into.Title
	}
	into.Title, _ = text(into.Title, MaxMessage)
	return nil
}

// blamed are the resources whose objects are causes of their own.
var blamed = []string{
	"apiservices.apiregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicies.admissionregistration.k8s.io",
	"poddisruptionbudgets.policy", "csinodes.storage.k8s.io", "nodes",
}

// blame fills in the owner of a finalizer, and the object of a cause that has none: the first such object
// other than the target, unless that is a node, which is drained.
func (b bounds) blame(f *Finding) {
	if owner := f.Cause.Owner; owner != nil && owner.State == "" && len(f.Objects) > 0 {
		known := b.owner(f.Objects[0], f.Cause.Finalizer)
		owner.Name, _ = under(known, "owner").(string)
		owner.State, _ = under(known, "state").(string)
		f.Cause.Declared, _ = under(known, "declared").(bool)
	}
	if f.Cause.Object != nil || f.Cause.Finalizer != "" {
		return
	}
	at := slices.IndexFunc(f.Objects, func(o Object) bool {
		return slices.Contains(blamed, o.Resource) && (o.Resource == "nodes" || o.Resource != b.about.resource || o.Name != b.about.name || o.Namespace != b.about.namespace)
	})
	if at < 0 {
		return
	}
	f.Cause.Object = &f.Objects[at]
	if o := f.Objects[at]; o.Resource == "nodes" || o.Resource == "csinodes.storage.k8s.io" { // they have one name
		f.Cause.Node = o.Name
	}
}

// manifest reads how a finding differs for manifests.
func manifest(value any, into *Manifest) error {
	severity := string(into.Severity)
	if _, err := fields(value, "{severity, remedy}", map[string]*string{"severity": &severity, "remedy": &into.Remedy}); err != nil {
		return err
	}
	if into.Severity = Severity(severity); severity != "" && into.Severity != None && !slices.Contains(severities, into.Severity) {
		return fmt.Errorf("severity %q: want one of %v, or %s", severity, severities, None)
	}
	return nil
}

// fields stores the text values of a document's keys in variables.
func fields(value any, want string, into map[string]*string) (map[string]any, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want %s, got %T", want, value)
	}
	for _, key := range keysOf(m) {
		words, err := text(m[key], maxText)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		variable, known := into[key]
		if !known {
			return nil, fmt.Errorf("%s: unknown key", key)
		}
		*variable = words
	}
	return m, nil
}

// text returns a string of at most limit characters; a longer one ends in "…".
func text(value any, limit int) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("want a string, got %T", value)
	}
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s, nil
	}
	return string([]rune(s)[:limit-1]) + "…", nil
}

// keysOf returns the keys in order, without the growth of slices.Sorted: it is called for each part of a finding.
func keysOf(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func truth(value any) (bool, error) {
	b, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("want true or false, got %T", value)
	}
	return b, nil
}

func seconds(value any) (*int, error) {
	n, ok := value.(json.Number)
	if !ok {
		return nil, fmt.Errorf("want a number, got %T", value)
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > 1<<31 {
		return nil, fmt.Errorf("want seconds, got %s", n)
	}
	s := int(f)
	return &s, nil
}

func list(value any, limit int, each func(any) error) error {
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("want a list, got %T", value)
	}
	for _, item := range items[:min(limit, len(items))] {
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

func object(value any) (Object, error) {
	var o Object
	if _, err := fields(value, "{resource, namespace, name}", map[string]*string{"resource": &o.Resource, "namespace": &o.Namespace, "name": &o.Name}); err != nil {
		return o, err
	}
	if o.Resource == "" {
		return o, errors.New("resource is missing")
	}
	return o, nil
}
