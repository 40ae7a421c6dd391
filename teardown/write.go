package teardown

import (
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

const (
	// atOnce bounds the objects of one command, so that it stays one that a shell takes.
	atOnce = 50
	// patience is how long a command waits at least, in seconds: an operator may have to
	// take down a cloud's resources.
	patience = 300
	// shownThings is of how many things of one kind in one namespace a text names.
	shownThings = 5
	// shownCauses bounds the causes that a text tells.
	shownCauses = 10
)

// deletion is one command of a wave.
type deletion struct {
	resource, namespace string
	objects             []string // RESOURCE/NAME
	timeout             int      // seconds
	// serves is the definition, or APIService, that is torn down, too, and without which
	// there is no such kind; "" for none.
	serves string
	line   string // another command
}

// command deletes, and waits until all is gone, or does not.
func (d deletion) command(waits bool) string {
	if d.line != "" {
		return d.line
	}
	words := append([]string{"kubectl", "delete"}, d.objects...)
	if d.namespace != "" {
		words = append(words, "-n", d.namespace)
	}
	words = append(words, "--ignore-not-found")
	if !waits {
		return shell.Join(append(words, "--wait=false"))
	}
	return shell.Join(append(words, "--wait", fmt.Sprintf("--timeout=%ds", d.timeout)))
}

// deletions are the commands of a wave: one for each kind in each namespace.
func (m *maker) deletions(w Wave) (all []deletion) {
	timeout := max(patience, 2*w.EstimateSeconds)
	aggregated := map[string]string{} // by the group that is served
	for _, n := range m.nodes {
		if n.rank == apiservices {
			_, group, _ := strings.Cut(n.id.Name, ".")
			aggregated[group] = n.id.Resource + "/" + n.id.Name
		}
	}
	for _, t := range w.Things {
		last := len(all) - 1
		if last < 0 || all[last].resource != t.Resource || all[last].namespace != t.Namespace || len(all[last].objects) == atOnce {
			all = append(all, deletion{resource: t.Resource, namespace: t.Namespace, timeout: timeout, serves: m.serving(t.Object, aggregated)})
			last++
		}
		all[last].objects = append(all[last].objects, t.Resource+"/"+t.Name)
	}
	return all
}

// serving is what serves the kind of an object, and is torn down, too.
func (m *maker) serving(o policies.Object, aggregated map[string]string) string {
	definition := policies.Object{Resource: resourceDefinition, Name: o.Resource}
	if _, torn := m.at[definition]; torn {
		return definition.Resource + "/" + definition.Name
	}
	_, group, _ := strings.Cut(o.Resource, ".")
	return aggregated[group]
}

// takes tells how long something takes, in words.
func takes(usual, longest, untimed int) string {
	var parts []string
	switch {
	case longest > 0 && usual < longest:
		parts = append(parts, fmt.Sprintf("usually %s, at most %s", seconds(usual), seconds(longest)))
	case longest > 0:
		parts = append(parts, "about "+seconds(longest))
	}
	if untimed > 0 {
		parts = append(parts, fmt.Sprintf("nobody can tell of %d", untimed))
	}
	if len(parts) == 0 {
		return "at once"
	}
	return strings.Join(parts, "; ")
}

// seconds is so many seconds in words.
func seconds(n int) string {
	switch {
	case n < 120:
		return fmt.Sprintf("%d s", n)
	case n < 7200:
		return fmt.Sprintf("%d min", (n+59)/60)
	}
	return fmt.Sprintf("%d h", (n+3599)/3600)
}

func (p *Plan) things() (n int) {
	for _, w := range p.Waves {
		n += len(w.Things)
	}
	return n
}

// ready tells whether nothing stands in the way.
func (p *Plan) ready() bool { return p.Verdict == policies.Completes && len(p.Left) == 0 }

// Headline is the first line: what is torn down, and whether that finishes.
func (p *Plan) Headline() string {
	of := ""
	if p.Of != "" {
		of = p.Of + ": "
	}
	n, waves := p.things(), len(p.Waves)
	text := fmt.Sprintf("%s%d %s in %d %s", of, n, plural(n, "object", "objects"), waves, plural(waves, "wave", "waves"))
	if n > 0 {
		text += ", " + takes(p.UsualSeconds, p.EstimateSeconds, p.Untimed)
	}
	switch {
	case len(p.Circles) > 0:
		return text + "; there is no order of all: some wait for each other"
	case p.Verdict == policies.Completes:
		return text + "; nothing stands in the way"
	}
	word := map[policies.Verdict]string{policies.Refused: "is refused", policies.Hangs: "hangs", policies.AtRisk: "may hang", policies.Unknown: "nobody can tell whether it finishes"}[p.Verdict]
	if p.Verdict == policies.Unknown {
		return text + "; " + word
	}
	return text + "; as things stand, it " + word
}

func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// Text writes the plan for people: what has to be seen to first, then the waves. Whole names
// every thing.
func (p *Plan) Text(w io.Writer, whole bool) error {
	var out strings.Builder
	line := func(format string, args ...any) { out.WriteString(printable.Line(fmt.Sprintf(format, args...)) + "\n") }
	line("%s", p.Headline())
	for _, circle := range p.Circles {
		line("circle: %s", circle)
	}
	for i, c := range p.First {
		if i == 0 {
			out.WriteString("\n")
			line("before the first wave:")
		}
		if i == shownCauses && !whole {
			line("  and %d more (-o full)", len(p.First)-i)
			break
		}
		holds := "holds"
		if c.Certainty != policies.Will {
			holds = "may hold"
		}
		line("  %s: %s %s", c.Title, holds, strings.Join(c.Names, ", ")+more(c.Holds-len(c.Names)))
		for _, step := range c.Steps {
			line("    %s%s", p.also(step), step.Do)
			if step.Command != "" {
				line("      $ %s", step.Command)
			}
			if !whole {
				break
			}
		}
	}
	for i, wave := range p.Waves {
		out.WriteString("\n")
		line("%d. %d %s, %s", i+1, len(wave.Things), wave.Rank.noun(len(wave.Things)), takes(wave.UsualSeconds, wave.EstimateSeconds, wave.Untimed))
		wave.text(line, whole)
	}
	if len(p.Left) > 0 {
		out.WriteString("\n")
		line("in no order:")
		Wave{Things: p.Left}.text(line, whole)
	}
	if len(p.Unseen) > 0 {
		out.WriteString("\n")
		line("not seen:")
		for _, unseen := range p.Unseen {
			line("  %s", unseen)
		}
	}
	if len(p.Notes) > 0 {
		out.WriteString("\n")
		for _, note := range p.Notes {
			line("note: %s", note)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// also marks a step that deletes what nobody named.
func (p *Plan) also(step policies.Step) string {
	if len(deletedBy(step)) > 0 {
		return "also needed: "
	}
	return ""
}

// text names the things of a wave, of each kind in a namespace the first few.
func (w Wave) text(line func(string, ...any), whole bool) {
	for from := 0; from < len(w.Things); {
		to := from
		for to < len(w.Things) && w.Things[to].Resource == w.Things[from].Resource && w.Things[to].Namespace == w.Things[from].Namespace {
			to++
		}
		for i, t := range w.Things[from:to] {
			if i == shownThings && !whole {
				line("   and %d more %s (-o full)", to-from-i, t.Resource)
				break
			}
			why := ""
			if len(t.Before) > 0 {
				why = fmt.Sprintf(", before %s: %s", scan.Shown(t.Before[0].Object), t.Before[0].Why)
			}
			line("   %s%s", scan.Shown(t.Object), why)
		}
		from = to
	}
}

// Script writes the plan for a POSIX shell. It stops at the first failure, and may be run
// again. Where something stands in the way, it does nothing unless it is called with
// --anyway.
func (p *Plan) Script(w io.Writer) error {
	var out strings.Builder
	comment := func(format string, args ...any) {
		out.WriteString("# " + printable.Line(fmt.Sprintf(format, args...)) + "\n")
	}
	say := func(format string, args ...any) {
		out.WriteString("echo " + shell.Quote(printable.Line(fmt.Sprintf(format, args...))) + " >&2\n")
	}
	out.WriteString("#!/bin/sh\n")
	comment("%s", p.Headline())
	comment("Written by termguard plan. It ends at the first command that fails; what is gone already is no failure.")
	out.WriteString("set -eu\n")
	var flags []string
	if p.kubeconfig != "" {
		flags = append(flags, "--kubeconfig", p.kubeconfig)
	}
	if p.context != "" {
		flags = append(flags, "--context", p.context)
	}
	if len(flags) > 0 {
		fmt.Fprintf(&out, "kubectl() { command kubectl %s \"$@\"; }\n", shell.Join(flags))
	}
	if p.guard != "" {
		comment("The plan is for one cluster.")
		out.WriteString("uid=$(kubectl get namespace kube-system -o 'jsonpath={.metadata.uid}')\n")
		fmt.Fprintf(&out, "if [ \"$uid\" != %s ]; then echo 'this is another cluster than the plan was made for: nothing was done' >&2; exit 1; fi\n", shell.Quote(p.guard))
	}
	comment("there OBJECT tells whether the cluster has it: a kind is gone with its definition.")
	out.WriteString("there() { found=$(kubectl get \"$1\" --ignore-not-found -o name) || exit 1; [ -n \"$found\" ]; }\n")
	if !p.ready() {
		out.WriteString("if [ \"${1:-}\" != --anyway ]; then\n")
		say("nothing was done: see to this first, then make the plan again (or call this script with --anyway)")
		for _, circle := range p.Circles {
			say("circle: %s", circle)
		}
		for i, c := range p.First {
			if i == shownCauses {
				say("and %d more", len(p.First)-i)
				break
			}
			say("%s: %s", c.Title, strings.Join(c.Names, ", ")+more(c.Holds-len(c.Names)))
			if len(c.Steps) > 0 {
				say("  %s", strings.TrimSpace(c.Steps[0].Do+"  "+c.Steps[0].Command))
			}
		}
		for _, unseen := range p.Unseen {
			say("not seen: %s", unseen)
		}
		out.WriteString("exit 1\nfi\n")
	}
	for i, wave := range p.Waves {
		fmt.Fprintln(&out)
		comment("%d. %d %s, %s", i+1, len(wave.Things), wave.Rank.noun(len(wave.Things)), takes(wave.UsualSeconds, wave.EstimateSeconds, wave.Untimed))
		say("%d of %d: %d %s", i+1, len(p.Waves), len(wave.Things), wave.Rank.noun(len(wave.Things)))
		run := func(d deletion, waits bool) {
			if d.serves != "" {
				fmt.Fprintf(&out, "if there %s; then %s; fi\n", shell.Quote(d.serves), d.command(waits))
				return
			}
			out.WriteString(d.command(waits) + "\n")
		}
		if len(wave.deletions) > 1 { // all are asked for before any is waited for
			for _, d := range wave.deletions {
				run(d, false)
			}
		}
		for _, d := range wave.deletions {
			run(d, true)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// ArgoCD writes patches, as kustomize takes them, that put the things into sync waves: Argo
// CD deletes the highest first, and each when those above are gone.
func (p *Plan) ArgoCD(w io.Writer) error {
	for i, wave := range p.Waves {
		for _, t := range wave.Things {
			metadata := map[string]any{"name": t.Name, "annotations": map[string]any{"argocd.argoproj.io/sync-wave": fmt.Sprint(len(p.Waves) - 1 - i)}}
			if t.Namespace != "" {
				metadata["namespace"] = t.Namespace
			}
			text, err := yaml.Marshal(map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": metadata})
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
				return err
			}
		}
	}
	return nil
}
