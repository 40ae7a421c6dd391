package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/policies"
)

// errQuestion ends a deletion that waits for an answer that nobody was there to give.
var errQuestion = errors.New("a question is open")

// consents are what the flags allow.
type consents struct {
	classes []check.Class
	objects []consent // of the classes that name them
}

// consent allows what is done to one object.
type consent struct {
	class  check.Class
	object check.Name
}

// readConsents reads values of --allow: CLASS, or CLASS=TYPE/NAME, or
// CLASS=TYPE/NAMESPACE/NAME.
func readConsents(values []string) (c consents, err error) {
	for _, value := range values {
		class, object, named := strings.Cut(value, "=")
		at := slices.IndexFunc(check.Classes, func(m check.Meaning) bool { return string(m.Class) == class })
		switch {
		case at < 0:
			return c, fmt.Errorf("--allow %s: there is no class %q: want risk, restore, strip, strip=TYPE/NAMESPACE/NAME, foreign=TYPE/NAMESPACE/NAME or force=TYPE/NAME", value, class)
		case at <= slices.IndexFunc(check.Classes, func(m check.Meaning) bool { return m.Class == check.ClassOwn }):
			return c, fmt.Errorf("--allow %s: --yes answers for that", value)
		case named && (check.Class(class) == check.ClassRisk || check.Class(class) == check.ClassRestore):
			return c, fmt.Errorf("--allow %s: %s names no object", value, class)
		case !named && check.Classes[at].ByName:
			return c, fmt.Errorf("--allow %s: name the object, as in --allow %s=nodes/worker-5 or --allow %s=pods/shop/web-0", value, class, class)
		case !named:
			c.classes = append(c.classes, check.Class(class))
			continue
		}
		parts := strings.Split(object, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			return c, fmt.Errorf("--allow %s: want TYPE/NAME, or TYPE/NAMESPACE/NAME of what is in a namespace", value)
		}
		name := check.Name{Type: parts[0], Name: parts[len(parts)-1]}
		if len(parts) == 3 {
			name.Namespace = parts[1]
		}
		c.objects = append(c.objects, consent{check.Class(class), name})
	}
	return c, nil
}

// has tells whether a flag allows something of a class.
func (c consents) has(class check.Class) bool {
	return slices.Contains(c.classes, class) || slices.ContainsFunc(c.objects, func(o consent) bool { return o.class == class })
}

// question is what has to be answered before steps are carried out.
type question struct {
	Class check.Class `json:"class"`
	// Do is what would be done, Why the finding that asks for it, and Lost what it costs.
	Do        string             `json:"do"`
	Why       string             `json:"why,omitempty"`
	Certainty policies.Certainty `json:"certainty,omitempty"`
	Lost      string             `json:"lost"`
	Commands  []string           `json:"commands,omitempty"`
	Objects   []asked            `json:"objects,omitempty"`
	// Allow are the flags that answer it.
	Allow []string `json:"allow"`

	touched []check.Touched
	strips  []string // the finalizers, where it is only about these
}

// asked is an object in question, and whose it is.
type asked struct {
	Object string `json:"object"`
	Whose  string `json:"whose"`
}

// questionOf is the question about steps that do the same.
func questionOf(due []check.Deed) question {
	if len(due) == 0 {
		return question{}
	}
	q := question{Class: due[0].Class, Do: due[0].Do, Why: due[0].Why, Certainty: due[0].Certainty}
	q.Lost = check.MeaningOf(q.Class).Lost
	var steps []check.Step
	for _, d := range due {
		steps = append(steps, d.Step)
		for _, o := range d.Objects {
			q.Objects = append(q.Objects, asked{o.String(), o.Whose})
			q.touched = append(q.touched, o)
			if flag := flagFor(o); !slices.Contains(q.Allow, flag) {
				q.Allow = append(q.Allow, flag)
			}
		}
	}
	q.Commands = check.Commands(steps)
	for _, s := range steps {
		for _, finalizer := range s.Strips() {
			if s.Kind != policies.Force && !slices.Contains(q.strips, finalizer) {
				q.strips = append(q.strips, finalizer)
			}
		}
	}
	return q
}

// flagFor is the flag that allows what is done to an object, as a shell takes it.
func flagFor(o check.Touched) string {
	switch {
	case o.Class == check.ClassOwn || o.Class == check.ClassWait:
		return "--yes"
	case o.Named:
		return "--allow " + shell.Quote(string(o.Class)+"="+path(o.Name))
	}
	return "--allow " + string(o.Class)
}

// path is an object as --allow names it.
func path(n check.Name) string {
	if n.Namespace == "" {
		return n.Type + "/" + n.Name
	}
	return n.Type + "/" + n.Namespace + "/" + n.Name
}

// allowed tells whether a question is answered with yes, by a flag or by whoever types;
// answered tells that it was asked. A question that gets no answer stays open.
func (d *deleting) allowed(ctx context.Context, q question) (yes, answered bool, err error) {
	if d.flagged(q) {
		return true, false, nil
	}
	if d.answers == nil {
		d.open = append(d.open, q)
		return false, false, nil
	}
	flush(d.answers)
	d.say("\n%s?\n  risked: %s\n%s", printable.Line(q.ask()), printable.Line(q.risk()), q.commands())
	d.say("[y/N] ")
	typed := make(chan string, 1) // closed where the input ends
	go func() {
		defer close(typed)
		if line, err := bufio.NewReader(d.answers).ReadString('\n'); err == nil {
			typed <- line
		}
	}()
	select {
	case <-ctx.Done():
		d.say("\n")
		return false, true, ctx.Err()
	case line, more := <-typed:
		if !more {
			d.say("\n")
			return false, true, errors.New("the input ended without an answer: nothing more was done (scripts answer by --yes and --allow)")
		}
		switch answer := strings.ToLower(strings.TrimSpace(line)); answer {
		case "y", "yes":
			return true, true, nil
		case "", "n", "no":
		default:
			d.say("  %s is neither yes nor no: taken as no\n", printable.Line(strconv.Quote(answer)))
		}
		return false, true, nil
	}
}

// risk is what a yes costs, and whose objects it touches, in one line.
func (q question) risk() string {
	if q.Class == check.ClassOwn || q.Class == check.ClassWait {
		return q.Lost
	}
	var objects []string
	for _, o := range q.Objects {
		objects = append(objects, o.Object+" ("+o.Whose+")")
	}
	return q.Lost + "; it touches " + firstOf(objects)
}

// commands are what would be done, a line each.
func (q question) commands() string {
	var lines strings.Builder
	for _, command := range q.Commands {
		lines.WriteString("  $ " + printable.Line(command) + "\n")
	}
	return lines.String()
}

// ask is the question as it stands in front of the answer. What a step that removes a finalizer
// wants done before is no part of it: that is the person's.
func (q question) ask() string {
	if len(q.strips) == 0 {
		return q.Do
	}
	var objects []string
	for _, o := range q.Objects {
		objects = append(objects, o.Object)
	}
	noun := "finalizer "
	if len(q.strips) > 1 {
		noun = "finalizers "
	}
	return "Remove " + noun + firstOf(q.strips) + " from " + firstOf(objects)
}

// flagged tells whether the flags answer a question: for each object.
func (d *deleting) flagged(q question) bool {
	return len(q.touched) > 0 && !slices.ContainsFunc(q.touched, func(o check.Touched) bool {
		switch {
		case o.Class == check.ClassOwn || o.Class == check.ClassWait:
			return !d.yes
		case !o.Named && slices.Contains(d.consents.classes, o.Class):
			return false
		}
		return !slices.ContainsFunc(d.consents.objects, func(c consent) bool { return c.class == o.Class && d.isObject(c.object, o.Name) })
	})
}

// isObject tells whether a flag means an object, by whatever name its type has.
func (d *deleting) isObject(flag, object check.Name) bool {
	a, errA := d.hands.Types.Find(flag.Type)
	b, errB := d.hands.Types.Find(object.Type)
	return errA == nil && errB == nil && a.GroupResource() == b.GroupResource() &&
		flag.Name == object.Name && flag.Namespace == object.Namespace
}

// write writes what was done and left as JSON, apiVersion termguard.dev/v1, kind Deletion.
func (d *deleting) write(out io.Writer) error {
	left := []string{}
	for _, s := range d.left {
		left = append(left, s.String())
	}
	yoursLeft := append([]yours{}, d.skipped...)
	if len(left) > 0 {
		yoursLeft = d.yours()
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Verdict    policies.Verdict `json:"verdict,omitempty"`
		Why        string           `json:"why,omitempty"`
		Done       []string         `json:"done"`
		Left       []string         `json:"left"`
		Questions  []question       `json:"questions"`
		Yours      []yours          `json:"yours"`
	}{"termguard.dev/v1", "Deletion", d.last.verdict, d.last.why, append([]string{}, d.done...), left, append([]question{}, d.open...), yoursLeft})
}
