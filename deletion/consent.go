package deletion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Consents are answers given on the command line.
type Consents struct {
	// Yes allows the classes wait and own.
	Yes     bool
	allowed []consent
}

// consent allows a class of steps, for one object if set.
type consent struct {
	class  Class
	object policies.Object
}

// ParseConsents reads values of --allow: CLASS, CLASS=TYPE/NAME or CLASS=TYPE/NAMESPACE/NAME.
func ParseConsents(values []string) (c Consents, err error) {
	for _, value := range values {
		class, object, named := strings.Cut(value, "=")
		at := slices.IndexFunc(Classes, func(m Meaning) bool { return string(m.Class) == class })
		switch {
		case at < 0:
			return c, fmt.Errorf("--allow %s: unknown permission %q: want risk, restore, strip, strip=TYPE/NAMESPACE/NAME, foreign=TYPE/NAMESPACE/NAME or force=TYPE/NAME", value, class)
		case mild(Class(class)):
			return c, fmt.Errorf("--allow %s: --yes allows that", value)
		case named && (Class(class) == ClassRisk || Class(class) == ClassRestore):
			return c, fmt.Errorf("--allow %s: %s names no object", value, class)
		case !named && Classes[at].ByName:
			return c, fmt.Errorf("--allow %s: name the object, as in --allow %s=nodes/worker-5 or --allow %s=pods/shop/web-0", value, class, class)
		case !named:
			c.allowed = append(c.allowed, consent{class: Class(class)})
			continue
		}
		parts := strings.Split(object, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			return c, fmt.Errorf("--allow %s: want TYPE/NAME, or TYPE/NAMESPACE/NAME of what is in a namespace", value)
		}
		name := policies.Object{Resource: parts[0], Name: parts[len(parts)-1]}
		if len(parts) == 3 {
			name.Namespace = parts[1]
		}
		c.allowed = append(c.allowed, consent{Class(class), name})
	}
	return c, nil
}

func mild(class Class) bool { return class == ClassOwn || class == ClassWait }

func (c Consents) has(class Class) bool {
	return slices.ContainsFunc(c.allowed, func(a consent) bool { return a.class == class })
}

// cover reports whether the flags allow each object of a question; same knows the aliases of types.
func (c Consents) cover(q Question, same func(flag, object policies.Object) bool) bool {
	return len(q.Objects) > 0 && !slices.ContainsFunc(q.Objects, func(o operand) bool {
		if mild(o.class) {
			return !c.Yes
		}
		return !slices.ContainsFunc(c.allowed, func(a consent) bool {
			switch {
			case a.class != o.class:
				return false
			case a.object == policies.Object{}:
				return !o.named
			}
			return same(a.object, o.name)
		})
	})
}

// Question is about steps that do the same and need consent.
type Question struct {
	Class Class `json:"class"`
	// Do describes the step, Why cites the finding, and Lost names the cost.
	Do        string             `json:"do"`
	Why       string             `json:"why,omitempty"`
	Certainty policies.Certainty `json:"certainty,omitempty"`
	Lost      string             `json:"lost"`
	Commands  []string           `json:"commands,omitempty"`
	Objects   []operand          `json:"objects,omitempty"`
	// Allow lists the flags that answer it.
	Allow []string `json:"allow"`

	strips []string // the finalizers, if steps only remove some
}

func questionOf(operations []operation) Question {
	if len(operations) == 0 {
		return Question{}
	}
	first := operations[0]
	q := Question{Class: first.class, Do: first.Do, Why: first.Why, Certainty: first.Certainty, Lost: meaningOf(first.class).Lost}
	var steps []answer.Step
	for _, d := range operations {
		steps = append(steps, d.Step)
		q.Objects = append(q.Objects, d.objects...)
		for _, o := range d.objects {
			if flag := o.flag(); !slices.Contains(q.Allow, flag) {
				q.Allow = append(q.Allow, flag)
			}
		}
		for _, finalizer := range d.RemovedFinalizers() {
			if d.Kind != policies.Force && !slices.Contains(q.strips, finalizer) {
				q.strips = append(q.strips, finalizer)
			}
		}
	}
	q.Commands = answer.Commands(steps)
	return q
}

func (o operand) flag() string {
	switch {
	case mild(o.class):
		return "--yes"
	case !o.named:
		return "--allow " + string(o.class)
	case o.name.Namespace != "":
		o.name.Resource += "/" + o.name.Namespace
	}
	return "--allow " + shell.Quote(string(o.class)+"="+o.name.Resource+"/"+o.name.Name)
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

func (q Question) commands(p *page.Page) {
	for _, command := range q.Commands {
		p.Command(2, command)
	}
}

func abridge(names []string) string { return page.List(names, 5) }
