package check

import (
	"bytes"
	"cmp"
	"regexp"
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
	// Certainty is that of the finding.
	Certainty policies.Certainty `json:"-"`
	// Advice tells why the step is for a person to carry out, whatever it does; "" where
	// termguard delete may.
	Advice string `json:"-"`
	// Cause is the one thing to blame, where that is an object of which several findings tell:
	// a webhook, an API.
	Cause string `json:"-"`
	// Mends are the causes that the step is a way out of, each with the certainty of its finding.
	Mends map[string]policies.Certainty `json:"-"`
	// Before is the command of the step that this one has to come before, as it was foreseen; ""
	// for the others.
	Before string `json:"-"`
	// Symptom tells that the finding only says what the API server says of a deletion
	// that hangs.
	Symptom bool `json:"-"`
	// Refusal tells that the finding says that the deletion does not begin.
	Refusal bool `json:"-"`
}

// plan lists every distinct step once: what mends before what removes, what forces
// last, and otherwise in the order of the findings, those that are only symptoms behind
// their causes. What mends several causes comes before what mends one, unless that refuses
// the deletion. Each list is about one object. What is only good to know asks for
// nothing while something else stands in the way.
func plan(lists ...[]policies.Finding) []Step {
	var findings []policies.Finding
	for _, list := range lists {
		findings = append(findings, causes(list)...)
	}
	if slices.ContainsFunc(findings, blocks) {
		findings = slices.DeleteFunc(findings, func(f policies.Finding) bool { return !blocks(f) })
	}
	hangs := slices.ContainsFunc(findings, func(f policies.Finding) bool { return f.Certainty == policies.Will && f.Kind == policies.KindHang })
	steps := []Step{}
	for _, kind := range policies.StepKinds() {
		for _, f := range findings {
			for _, s := range stepsOf(f) {
				if s.Kind != kind {
					continue
				}
				add := Step{Step: s, Why: f.Message, Certainty: f.Certainty, Mends: map[string]policies.Certainty{}, Advice: advice(f, s, hangs), Cause: culprit(f), Symptom: f.Symptom, Refusal: rank(f) == 0}
				cause := cmp.Or(add.Cause, add.Why)
				if !add.Symptom {
					add.Mends[cause] = f.Certainty
				}
				known := func(t Step) bool { return t.Command == s.Command && (act(t.Do) == act(s.Do) || s.Command != "") }
				if at := slices.IndexFunc(steps, known); at < 0 {
					steps = append(steps, add)
				} else {
					if !add.Symptom {
						steps[at].Mends[cause] = max(steps[at].Mends[cause], f.Certainty) // "will" is more than "may"
					}
					if steps[at].Advice != "" && add.Advice == "" {
						add.Mends = steps[at].Mends
						steps[at] = add
					}
				}
			}
		}
		if kind == policies.Mend { // what is refused begins no deletion
			begun := slices.IndexFunc(steps, func(s Step) bool { return !s.Refusal })
			slices.SortStableFunc(steps[max(begun, 0):], func(a, b Step) int { return cmp.Compare(len(b.Mends), len(a.Mends)) })
		}
	}
	if _, all := causesOf(steps); all > 1 {
		for i := range steps {
			if len(steps[i].Mends) == all {
				continue
			}
			steps[i].Do = promise.ReplaceAllString(steps[i].Do, "")
		}
	}
	return steps
}

// promise is what a step says of the whole deletion, which holds only where it is about
// all that holds it.
var promise = regexp.MustCompile(`(?:, then delete again|(?:, and the deletion|, and it|: what waits then|: what it holds then|: then the deletion) finishes by itself)$`)

// act is what a step does, without what comes of it.
func act(do string) string { return promise.ReplaceAllString(do, "") }

// culprits are the resources of which one object is the cause of whatever is said of it.
var culprits = regexp.MustCompile(`^(?:apiservices|(?:validating|mutating)webhookconfigurations)(?:\.|$)`)

// culprit is the object that a finding blames, "" where it blames none of those.
func culprit(f policies.Finding) string {
	at := slices.IndexFunc(f.Objects, func(o policies.Object) bool { return culprits.MatchString(o.Resource) })
	if at < 0 {
		return ""
	}
	return shown(f.Objects[at], "")
}

// byCause is a plan as it is told: the ways out of one cause stand together, the safest first,
// each behind what has to be done before it; what mends several stands alone.
func byCause(plan []Step) (told []Step) {
	var tell func(Step)
	tell = func(s Step) {
		for _, t := range plan {
			if t.Before != "" && t.Before == s.Command {
				tell(t)
			}
		}
		told = append(told, s)
	}
	for i, s := range plan {
		same := func(t Step) bool {
			return t.Before == "" && s.Why != "" && max(len(s.Mends), len(t.Mends)) < 2 && cmp.Or(t.Cause, t.Why) == cmp.Or(s.Cause, s.Why)
		}
		if s.Before != "" || slices.ContainsFunc(plan[:i], same) {
			continue
		}
		tell(s)
		for _, t := range plan[i+1:] {
			if same(t) {
				tell(t)
			}
		}
	}
	return told
}

// causesOf counts what holds a deletion, of what a plan is about: what certainly does, and
// that with what may. What the API server says of it is none.
func causesOf(plan []Step) (certain, all int) {
	causes := map[string]policies.Certainty{}
	for _, s := range plan {
		for cause, certainty := range s.Mends {
			causes[cause] = max(causes[cause], certainty)
		}
	}
	for _, certainty := range causes {
		if all++; certainty == policies.Will {
			certain++
		}
	}
	return certain, all
}

func blocks(f policies.Finding) bool { return f.Severity != policies.Info }

// Symptoms tells whether nothing stands in the way but what the conditions of the target
// say, which may be older than what was done about it.
func (r Report) Symptoms() bool {
	return len(r.Findings) > 0 && !slices.ContainsFunc(r.Findings, func(f policies.Finding) bool { return blocks(f) && !f.Symptom })
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
	case f.Symptom:
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
	known := slices.ContainsFunc(sorted, func(f policies.Finding) bool { return !f.Symptom && blocks(f) })
	for i, f := range sorted {
		if known && f.Symptom && len(f.Objects) > 0 && f.Objects[0].Resource == namespaces.Resource {
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

// deletionOf deletes an object.
func deletionOf(o policies.Object) *policies.Action {
	return &policies.Action{Verb: policies.VerbDelete, Objects: []string{shown(policies.Object{Resource: o.Resource, Name: o.Name}, "")}, Namespace: o.Namespace}
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

// Commands are those of steps that do the same, with one for all objects to which the same
// patch is applied: kubectl takes many of one namespace, and a loop goes through several
// namespaces.
func Commands(steps []Step) (commands []string) {
	var all []*patches
	for _, step := range steps {
		if step.Command == "" {
			continue
		}
		p := patchOf(step)
		at := -1
		if p.resource != "" {
			at = slices.IndexFunc(all, func(q *patches) bool {
				return q.resource == p.resource && q.Type == p.Type && bytes.Equal(q.Patch, p.Patch)
			})
		}
		if at < 0 {
			all = append(all, &p)
			continue
		}
		all[at].several = all[at].several || p.Namespace != all[at].Namespace
		all[at].Objects = append(slices.Clip(all[at].Objects), p.Objects...)
		all[at].places = append(all[at].places, p.places...)
		all[at].command = ""
	}
	for _, p := range all {
		commands = append(commands, p.line())
	}
	return commands
}

// patches are the same patch of several objects of a resource, or another command, which
// has none.
type patches struct {
	policies.Action
	resource string
	places   []string // NAMESPACE/NAME, or /NAME
	several  bool     // namespaces
	command  string   // of one step
}

func patchOf(step Step) patches {
	p := patches{command: step.Command}
	if step.Action == nil || step.Action.Verb != policies.VerbPatch {
		return p
	}
	p.Action = *step.Action
	for _, o := range objectsIn(step.Action) {
		p.places = append(p.places, o.Namespace+"/"+o.Name)
		if p.resource != "" && p.resource != o.Type {
			return patches{command: step.Command}
		}
		p.resource = o.Type
	}
	return p
}

func (p *patches) line() string {
	switch {
	case p.command != "":
		return p.command
	case p.several:
		return p.CommandOver(p.resource, p.places)
	}
	return p.Command()
}
