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

	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/printable"
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

// misformatted matches sprintf's output for wrong verbs or arguments, such as %!s(MISSING).
var misformatted = regexp.MustCompile(`%!.?\(`)

// ErrMalformed is for a member of a policy's sets that is no finding; others are unaffected.
var ErrMalformed = errors.New("malformed")

func decode(p Policy, sets any, about *subject) (findings []Finding, omitted int, errs []error) {
	m, _ := sets.(map[string]any)
	for _, rule := range []string{"deny", "warn"} {
		members, _ := m[rule].([]any)
		for _, member := range members {
			if len(findings) == MaxFindings {
				omitted++
				continue
			}
			f, err := decodeFinding(p, member, about)
			if err != nil {
				errs = append(errs, PolicyError{p.ID, p.Custom, fmt.Errorf("%w member of %s: %w", ErrMalformed, rule, err)})
				if len(errs) == MaxFindings {
					return findings, omitted, errs
				}
				continue
			}
			f.Certainty = Will
			if rule == "warn" {
				f.Certainty = May
			}
			findings = append(findings, f)
		}
	}
	return findings, omitted, errs
}

type member struct {
	Msg             string   `json:"msg"`
	Kind            Kind     `json:"kind"`
	Remedy          string   `json:"remedy"`
	Steps           []step   `json:"steps"`
	Field           string   `json:"field"`
	Cause           Cause    `json:"cause"`
	Manifest        Manifest `json:"manifest"`
	EstimateSeconds *float64 `json:"estimate_seconds"`
	Objects         []Object `json:"objects"`
	Evidence        []string `json:"evidence"`
}

// step has a line for a shell, or its words.
type step struct {
	Step
	Command any `json:"command"`
}

func strict(value, into any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return fmt.Errorf("%s: want %s, got %s", cmp.Or(mistyped.Field, "finding"), strings.TrimPrefix(mistyped.Type.String(), "policies."), mistyped.Value)
	}
	return errors.Join(append(unknown, err)...)
}

func decodeFinding(p Policy, value any, about *subject) (Finding, error) {
	f := Finding{Policy: p.ID, Title: p.Title, Severity: p.Severity, Class: cmp.Or(p.Class, Broken), Symptom: p.Symptom, Custom: p.Custom}
	m := member{Manifest: p.Manifest}
	keys, _ := value.(map[string]any)
	for key, limit := range map[string]int{"objects": MaxObjects, "evidence": MaxEvidence, "steps": MaxSteps} {
		if items, _ := keys[key].([]any); len(items) > limit {
			keys[key] = items[:limit]
		}
	}
	if err := strict(value, &m); err != nil {
		return f, err
	}
	switch {
	case m.Msg == "":
		return f, errors.New("msg is missing")
	case misformatted.MatchString(m.Msg):
		return f, fmt.Errorf("msg %q: the verbs and arguments of sprintf differ", m.Msg)
	case m.Kind != KindHang && !slices.Contains(findingKinds, string(m.Kind)):
		return f, fmt.Errorf("kind %q: want one of %v, or no kind for what hangs%s", m.Kind, findingKinds, nearest.Hint(string(m.Kind), findingKinds))
	case m.EstimateSeconds != nil && (*m.EstimateSeconds < 0 || *m.EstimateSeconds > 1<<31):
		return f, fmt.Errorf("estimate_seconds: want seconds, got %g", *m.EstimateSeconds)
	case m.Manifest.Severity != "" && m.Manifest.Severity != None && !slices.Contains(severities, m.Manifest.Severity):
		return f, fmt.Errorf("manifest: severity %q: want one of %v, or %s", m.Manifest.Severity, severities, None)
	}
	f.Kind, f.Manifest, f.Message, f.Field = m.Kind, m.Manifest, printable.Cut(m.Msg, MaxMessage), printable.Cut(m.Field, maxText)
	if m.EstimateSeconds != nil {
		f.EstimateSeconds = new(int(*m.EstimateSeconds))
	}
	f.Objects = append([]Object{}, m.Objects...)
	for i := range f.Objects {
		if err := f.Objects[i].check(); err != nil {
			return f, fmt.Errorf("objects: %w", err)
		}
	}
	f.Evidence = append([]string{}, m.Evidence...)
	for i, line := range f.Evidence {
		f.Evidence[i] = printable.Cut(line, maxText)
	}
	for _, s := range m.Steps {
		if err := s.complete(); err != nil {
			return f, fmt.Errorf("steps: %w", err)
		}
		f.Steps = append(f.Steps, s.Step)
	}
	if err := m.Cause.check(); err != nil {
		return f, fmt.Errorf("cause: %w", err)
	}
	f.Cause = m.Cause
	about.keep(&f)
	about.blame(&f)
	f.Remedy = cmp.Or(printable.Cut(m.Remedy, maxText), prose(f.Steps), p.Remedy)
	return f, nil
}

func (o *Object) check() error {
	o.Resource, o.Namespace, o.Name = printable.Cut(o.Resource, maxText), printable.Cut(o.Namespace, maxText), printable.Cut(o.Name, maxText)
	if o.Resource == "" {
		return errors.New("resource is missing")
	}
	return nil
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

func (s *step) complete() error {
	switch {
	case !slices.Contains(StepKinds(), s.Kind):
		return fmt.Errorf("kind %q: want one of %v", s.Kind, StepKinds())
	case s.Do == "":
		return errors.New("do is missing")
	case s.Then != "" && promises[s.Then] == "":
		return fmt.Errorf("then %q: want %s or %s", s.Then, DeleteAgain, FinishesItself)
	case s.Action != nil && s.Command != nil:
		return errors.New("command and action: want one of them")
	}
	s.Do, s.Hearsay = printable.Cut(s.Do, maxText), printable.Cut(s.Hearsay, maxText)
	if s.Then != "" {
		s.Step = s.WithPromise(s.Then)
	}
	line, err := commandLine(s.Command)
	if err != nil {
		return err
	}
	if s.Action != nil {
		if err := s.Action.valid(); err != nil {
			return fmt.Errorf("action: %w", err)
		}
		if s.Action.Forces() && s.Action.Verb == VerbDelete && s.Kind != Force {
			return fmt.Errorf("kind %q: an action that forces is of kind force", s.Kind)
		}
		line = s.Action.Command()
	}
	// Half a command is worse than none.
	if utf8.RuneCountInString(line) > maxText || s.Action != nil && !s.Action.sound() {
		line, s.Action = "", nil
	}
	s.Step.Command = line
	return nil
}

func commandLine(command any) (string, error) {
	switch c := command.(type) {
	case nil:
		return "", nil
	case string:
		return c, nil
	case []any:
		words := make([]string, len(c))
		for i, word := range c {
			var ok bool
			if words[i], ok = word.(string); !ok {
				return "", fmt.Errorf("command: want words, got %T", word)
			}
		}
		return shell.Join(words), nil
	}
	return "", fmt.Errorf("command: want a line or its words, got %T", command)
}

func (c *Cause) check() error {
	if c.Object != nil {
		if err := c.Object.check(); err != nil {
			return fmt.Errorf("object: %w", err)
		}
	}
	c.Finalizer, c.Node, c.Refusal = printable.Cut(c.Finalizer, maxText), printable.Cut(c.Node, maxText), printable.Cut(c.Refusal, maxText)
	if c.Owner != nil {
		c.Owner.Name, c.Owner.State = printable.Cut(c.Owner.Name, maxText), printable.Cut(c.Owner.State, maxText)
	}
	switch {
	case c.Title == "":
	case c.Finalizer != "":
		c.Title = "finalizer " + c.Finalizer + ": " + c.Title
	case c.Node != "":
		c.Title = "node " + c.Node + " " + c.Title
	}
	c.Title = printable.Cut(c.Title, MaxMessage)
	return nil
}

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
		verdict := s.owner(f.Objects[0], f.Cause.Finalizer)
		owner.Name, _ = under(verdict, "owner").(string)
		owner.State, _ = under(verdict, "state").(string)
		f.Cause.Declared, _ = under(verdict, "declared").(bool)
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
