package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/termguard/termguard/policies"
)

// Delete is the kind of the last step: what was asked about is deleted.
const Delete policies.StepKind = "delete"

// Step is one thing to do, and the finding that asks for it.
type Step struct {
	policies.Step
	Why string `json:"why"`
}

// plan lists every distinct step once: what mends before what removes, what forces
// last, and otherwise in the order of the findings, those that are only symptoms behind
// their causes. Each list is about one object. What is only good to know asks for
// nothing while something else stands in the way.
func plan(lists ...[]policies.Finding) []Step {
	var findings []policies.Finding
	for _, list := range lists {
		findings = append(findings, causes(list)...)
	}
	if slices.ContainsFunc(findings, blocks) {
		findings = slices.DeleteFunc(findings, func(f policies.Finding) bool { return !blocks(f) })
	}
	steps := []Step{}
	for _, kind := range policies.StepKinds() {
		for _, f := range findings {
			for _, s := range stepsOf(f) {
				known := func(t Step) bool { return t.Command == s.Command && (t.Do == s.Do || s.Command != "") }
				if s.Kind == kind && !slices.ContainsFunc(steps, known) {
					steps = append(steps, Step{Step: s, Why: f.Message})
				}
			}
		}
	}
	return steps
}

func blocks(f policies.Finding) bool { return f.Severity != policies.Info }

// symptom is the policy that tells what the API server says of a deletion that hangs
// already: where another says why, that is the cause.
const symptom = "already-terminating"

// Symptoms tells whether nothing stands in the way but what the conditions of the target
// say, which may be older than what was done about it.
func (r Report) Symptoms() bool {
	return len(r.Findings) > 0 && !slices.ContainsFunc(r.Findings, func(f policies.Finding) bool { return blocks(f) && f.Policy != symptom })
}

// Symptoms tells that of those whose verdict is the worst.
func (s Set) Symptoms() bool {
	return !slices.ContainsFunc(s.Items, func(r Report) bool { return r.Verdict == s.Verdict && !r.Symptoms() })
}

// rank is smaller for what comes first: a request that is refused begins no deletion.
func rank(f policies.Finding) int {
	switch {
	case f.Kind != policies.KindHang && f.Certainty == policies.Will:
		return 0
	case f.Policy == symptom:
		return 2
	}
	return 1
}

// causes are the findings about one object: what refuses the request first, symptoms last. Where a cause is known, what a
// symptom advises of a namespace says no more, unless it is a command.
func causes(findings []policies.Finding) []policies.Finding {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b policies.Finding) int {
		return cmp.Compare(rank(a), rank(b))
	})
	known := slices.ContainsFunc(sorted, func(f policies.Finding) bool { return f.Policy != symptom && blocks(f) })
	for i, f := range sorted {
		if known && f.Policy == symptom && len(f.Objects) > 0 && f.Objects[0].Resource == namespaces.Resource {
			sorted[i].Remedy = ""
			sorted[i].Steps = slices.DeleteFunc(slices.Clone(f.Steps), func(s policies.Step) bool { return s.Command == "" })
		}
	}
	return sorted
}

// stepsOf are the steps of a finding; its remedy is one, where it has no others.
func stepsOf(f policies.Finding) []policies.Step {
	if len(f.Steps) > 0 || f.Remedy == "" {
		return f.Steps
	}
	return []policies.Step{{Kind: policies.Mend, Do: f.Remedy}}
}

// finish ends a plan with the deletion itself, unless a step before does the same.
func finish(plan []Step, do, command string) []Step {
	if len(plan) == 0 || slices.ContainsFunc(plan, func(s Step) bool { return strings.HasPrefix(s.Command, command) }) {
		return plan
	}
	return append(plan, Step{Step: policies.Step{Kind: Delete, Do: do, Command: command}})
}

// deleting is the command that deletes an object.
func deleting(o policies.Object) string {
	command := "kubectl delete " + quote(shown(policies.Object{Resource: o.Resource, Name: o.Name}, ""))
	if o.Namespace != "" {
		command += " -n " + quote(o.Namespace)
	}
	return command
}

// Groups are steps as people count them: those that do the same in several commands, one
// behind the other, are one.
func Groups(plan []Step) (groups [][]Step) {
	for _, step := range plan {
		last := len(groups) - 1
		if last >= 0 && groups[last][0].Do == step.Do && groups[last][0].Kind == step.Kind {
			groups[last] = append(groups[last], step)
			continue
		}
		groups = append(groups, []Step{step})
	}
	return groups
}

// patches are commands that are the same patch of several objects.
type patches struct {
	resource, options string
	objects           []string // NAMESPACE/NAME, or /NAME
	commands          []string
}

// Commands are those of steps that do the same, with one for all objects to which the same
// patch is applied: kubectl takes many of one namespace, and a loop goes through several
// namespaces.
func Commands(steps []Step) (commands []string) {
	var all []*patches
	for _, step := range steps {
		if step.Command == "" {
			continue
		}
		p := patchOf(step.Command)
		at := -1
		if p.resource != "" {
			at = slices.IndexFunc(all, func(q *patches) bool { return q.resource == p.resource && q.options == p.options })
		}
		if at < 0 {
			all = append(all, &p)
			continue
		}
		all[at].objects = append(all[at].objects, p.objects...)
		all[at].commands = append(all[at].commands, p.commands...)
	}
	for _, p := range all {
		commands = append(commands, p.command())
	}
	return commands
}

// patchOf reads "kubectl patch RESOURCE/NAME... [-n NAMESPACE] OPTION...".
func patchOf(command string) patches {
	other := patches{commands: []string{command}}
	words, simple := words(command)
	if !simple || len(words) < 4 || words[0] != "kubectl" || words[1] != "patch" {
		return other
	}
	p := patches{commands: other.commands}
	rest := words[2:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		resource, name, slash := strings.Cut(rest[0], "/")
		if !slash || p.resource != "" && p.resource != resource {
			return other
		}
		p.resource = resource
		p.objects = append(p.objects, name)
		rest = rest[1:]
	}
	namespace := ""
	if len(rest) > 1 && rest[0] == "-n" {
		namespace, rest = rest[1], rest[2:]
	}
	for i, name := range p.objects {
		p.objects[i] = namespace + "/" + name
	}
	for i, word := range rest {
		rest[i] = quote(word)
	}
	p.options = strings.Join(rest, " ")
	return p
}

func (p patches) command() string {
	if len(p.commands) == 1 {
		return p.commands[0]
	}
	var names, places []string
	namespace, several := "", false
	for i, object := range p.objects {
		within, name, _ := strings.Cut(object, "/")
		several = several || i > 0 && within != namespace
		namespace = within
		names, places = append(names, quote(p.resource+"/"+name)), append(places, quote(object))
	}
	if several {
		return "for at in " + strings.Join(places, " ") + `; do kubectl patch ` + p.resource + `/"${at#*/}" -n "${at%%/*}" ` + p.options + "; done"
	}
	command := "kubectl patch " + strings.Join(names, " ")
	if namespace != "" {
		command += " -n " + quote(namespace)
	}
	return command + " " + p.options
}
