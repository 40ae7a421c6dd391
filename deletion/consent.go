package deletion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Consents are the answers that a command line gives in advance.
type Consents struct {
	// Yes allows the classes wait and own.
	Yes     bool
	allowed []consent
}

// consent allows one class of steps, for one object if it is set.
type consent struct {
	class  check.Class
	object check.Name
}

// ParseConsents reads values of --allow: CLASS, CLASS=TYPE/NAME or CLASS=TYPE/NAMESPACE/NAME.
func ParseConsents(values []string) (c Consents, err error) {
	for _, value := range values {
		class, object, named := strings.Cut(value, "=")
		at := slices.IndexFunc(check.Classes, func(m check.Meaning) bool { return string(m.Class) == class })
		switch {
		case at < 0:
			return c, fmt.Errorf("--allow %s: there is no class %q: want risk, restore, strip, strip=TYPE/NAMESPACE/NAME, foreign=TYPE/NAMESPACE/NAME or force=TYPE/NAME", value, class)
		case mild(check.Class(class)):
			return c, fmt.Errorf("--allow %s: --yes answers for that", value)
		case named && (check.Class(class) == check.ClassRisk || check.Class(class) == check.ClassRestore):
			return c, fmt.Errorf("--allow %s: %s names no object", value, class)
		case !named && check.Classes[at].ByName:
			return c, fmt.Errorf("--allow %s: name the object, as in --allow %s=nodes/worker-5 or --allow %s=pods/shop/web-0", value, class, class)
		case !named:
			c.allowed = append(c.allowed, consent{class: check.Class(class)})
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
		c.allowed = append(c.allowed, consent{check.Class(class), name})
	}
	return c, nil
}

// mild reports whether --yes allows a class.
func mild(class check.Class) bool { return class == check.ClassOwn || class == check.ClassWait }

// has reports whether a flag allows anything of a class.
func (c Consents) has(class check.Class) bool {
	return slices.ContainsFunc(c.allowed, func(a consent) bool { return a.class == class })
}

// answer reports whether the flags answer a question with yes, for each object that it is about.
// same reports whether two names, whose types may be written differently, are of one object.
func (c Consents) answer(q Question, same func(flag, object check.Name) bool) bool {
	return len(q.Objects) > 0 && !slices.ContainsFunc(q.Objects, func(o Object) bool {
		if mild(o.touched.Class) {
			return !c.Yes
		}
		return !slices.ContainsFunc(c.allowed, func(a consent) bool {
			switch {
			case a.class != o.touched.Class:
				return false
			case a.object == check.Name{}:
				return !o.touched.Named
			}
			return same(a.object, o.touched.Name)
		})
	})
}

// Question is a step, or several that do the same, that needs consent.
type Question struct {
	Class check.Class `json:"class"`
	// Do describes the step, Why cites the finding that advises it, and Lost names its cost.
	Do        string             `json:"do"`
	Why       string             `json:"why,omitempty"`
	Certainty policies.Certainty `json:"certainty,omitempty"`
	Lost      string             `json:"lost"`
	Commands  []string           `json:"commands,omitempty"`
	Objects   []Object           `json:"objects,omitempty"`
	// Allow lists the flags that answer it.
	Allow []string `json:"allow"`

	strips []string // the finalizers, if the steps only remove some
}

// Object is an object that a question is about.
type Object struct {
	Object string `json:"object"`
	Whose  string `json:"whose"`

	touched check.Touched
}

// questionOf returns the question about steps that do the same, the zero Question for none.
func questionOf(deeds []check.Deed) Question {
	if len(deeds) == 0 {
		return Question{}
	}
	first := deeds[0]
	q := Question{Class: first.Class, Do: first.Do, Why: first.Why, Certainty: first.Certainty, Lost: check.MeaningOf(first.Class).Lost}
	var steps []check.Step
	for _, d := range deeds {
		steps = append(steps, d.Step)
		for _, o := range d.Objects {
			q.Objects = append(q.Objects, Object{o.String(), o.Whose, o})
			if flag := flagFor(o); !slices.Contains(q.Allow, flag) {
				q.Allow = append(q.Allow, flag)
			}
		}
		for _, finalizer := range d.Strips() {
			if d.Kind != policies.Force && !slices.Contains(q.strips, finalizer) {
				q.strips = append(q.strips, finalizer)
			}
		}
	}
	q.Commands = check.Commands(steps)
	return q
}

// flagFor returns the flag that allows a step for an object, quoted for a shell.
func flagFor(o check.Touched) string {
	switch {
	case mild(o.Class):
		return "--yes"
	case !o.Named:
		return "--allow " + string(o.Class)
	case o.Namespace != "":
		o.Type += "/" + o.Namespace
	}
	return "--allow " + shell.Quote(string(o.Class)+"="+o.Type+"/"+o.Name.Name)
}

// Prompt returns the question for the terminal, without the manual cleanup before the removal of a finalizer.
func (q Question) Prompt() *page.Page {
	do := q.Do
	if len(q.strips) > 0 {
		noun := "finalizer "
		if len(q.strips) > 1 {
			noun = "finalizers "
		}
		var objects []string
		for _, o := range q.Objects {
			objects = append(objects, o.Object)
		}
		do = "Remove " + noun + abridge(q.strips) + " from " + abridge(objects)
	}
	var p page.Page
	p.Blank()
	p.Line("%s?", do)
	p.Item("  risked: ", "%s", q.risk())
	q.commands(&p)
	return &p
}

// risk returns the cost of a yes, and the owners of the objects, in one line.
func (q Question) risk() string {
	if mild(q.Class) {
		return q.Lost
	}
	var objects []string
	for _, o := range q.Objects {
		objects = append(objects, o.Object+" ("+o.Whose+")")
	}
	return q.Lost + "; it touches " + abridge(objects)
}

// commands adds the commands that do the same, a line each.
func (q Question) commands(p *page.Page) {
	for _, command := range q.Commands {
		p.Command(2, command)
	}
}

// abridge joins the first few of several names.
func abridge(names []string) string { return page.List(names, 5) }
