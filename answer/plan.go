package answer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Delete is the kind of the last step.
const Delete policies.StepKind = "delete"

// Step is a step of a plan, and its finding.
type Step struct {
	policies.Step
	Why       string             `json:"why"`
	Certainty policies.Certainty `json:"-"`
	// Advice says why the step is manual; "" if termguard delete may execute it.
	Advice string `json:"-"`
	// Cause is the object that several findings blame, such as a webhook.
	Cause string `json:"-"`
	// Mends are the causes that the step fixes, with their certainty.
	Mends map[string]policies.Certainty `json:"-"`
	// Before is the command that this step has to precede, or "".
	Before string `json:"-"`
	// Refusal says that the deletion does not begin.
	Refusal bool `json:"-"`
}

// plan lists each step once: repairs before removals, force last, otherwise in the order of the findings. A step
// for several causes precedes one for a single cause, unless that refuses the deletion. Each list is about one
// object; information adds steps only if nothing blocks.
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
	at := map[[2]string]int{}
	for _, kind := range policies.StepKinds() {
		for _, f := range findings {
			for _, s := range stepsOf(f) {
				if s.Kind != kind {
					continue
				}
				add := Step{Step: s, Why: f.Message, Certainty: f.Certainty, Mends: map[string]policies.Certainty{}, Advice: advice(f, s, hangs), Cause: culprit(f), Refusal: rank(f) == 0}
				if !f.Symptom {
					add.Mends[cmp.Or(add.Cause, add.Why)] = f.Certainty
				}
				i, ok := at[key(s)]
				if !ok {
					at[key(s)] = len(steps)
					steps = append(steps, add)
					continue
				}
				for cause, certainty := range add.Mends {
					steps[i].Mends[cause] = max(steps[i].Mends[cause], certainty) // "will" is more than "may"
				}
				if steps[i].Advice != "" && add.Advice == "" {
					add.Mends = steps[i].Mends
					steps[i] = add
				}
			}
		}
		if kind == policies.Mend { // a refused request begins no deletion
			begun := slices.IndexFunc(steps, func(s Step) bool { return !s.Refusal })
			slices.SortStableFunc(steps[max(begun, 0):], func(a, b Step) int { return cmp.Compare(len(b.Mends), len(a.Mends)) })
			for i, s := range steps {
				at[key(s.Step)] = i
			}
		}
	}
	if _, all := causesOf(steps); all > 1 {
		for i := range steps {
			if len(steps[i].Mends) != all {
				steps[i].Do, steps[i].Then = steps[i].WithoutPromise(), ""
			}
		}
	}
	return steps
}

func key(s policies.Step) [2]string {
	if s.Command != "" {
		return [2]string{s.Command}
	}
	return [2]string{"", s.WithoutPromise()}
}

// culprit is "" for a node, which may have several faults.
func culprit(f policies.Finding) string {
	if f.Cause.Object == nil || f.Cause.Node != "" {
		return ""
	}
	return f.Cause.Object.Ref()
}

// byCause puts each step behind its prerequisites; steps for several causes stand alone.
func byCause(plan []Step) (grouped []Step) {
	var causes []string
	steps := map[string][]Step{}
	begin := 0 // of the next step's prerequisites
	for i, s := range plan {
		if s.Before != "" && i < len(plan)-1 {
			continue
		}
		cause := cmp.Or(s.Cause, s.Why)
		if s.Why == "" || len(s.Mends) > 1 {
			cause = strconv.Itoa(i)
		}
		if steps[cause] == nil {
			causes = append(causes, cause)
		}
		steps[cause] = append(steps[cause], plan[begin:i+1]...)
		begin = i + 1
	}
	for _, cause := range causes {
		grouped = append(grouped, steps[cause]...)
	}
	return grouped
}

// causesOf counts causes, without symptoms.
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

// advice returns why a step is manual, or "". hangs says that the deletion certainly hangs, for any cause.
func advice(f policies.Finding, s policies.Step, hangs bool) string {
	switch {
	case f.Custom:
		return "policy " + f.Policy + " is not one of termguard's own"
	case f.Certainty != policies.Will && len(s.RemovedFinalizers()) > 0:
		return "an unknown or unseen controller may still remove the finalizer"
	case f.Certainty != policies.Will && hangs:
		return "the deletion hangs, but it is not certain that this is why"
	case f.Certainty != policies.Will:
		return "it is not certain that the deletion hangs"
	case !blocks(f):
		return "nothing waits for it"
	}
	return ""
}

func blocks(f policies.Finding) bool { return f.Severity != policies.Info }

// Symptoms reports whether the only blockers are conditions of the target, which may be out of date.
func (r Item) Symptoms() bool {
	return len(r.Findings) > 0 && !slices.ContainsFunc(r.Findings, func(f policies.Finding) bool { return blocks(f) && !f.Symptom })
}

// Symptoms reports whether that is true of all items with the worst verdict.
func (a Answer) Symptoms() bool {
	return !slices.ContainsFunc(a.Items, func(r Item) bool { return r.Verdict == a.Verdict && !r.Symptoms() })
}

func rank(f policies.Finding) int {
	switch {
	case f.Kind != policies.KindHang && f.Certainty == policies.Will:
		return 0
	case f.Symptom:
		return 2
	}
	return 1
}

// causes puts refusals first, symptoms last, and drops a symptom's advice about a namespace if a cause is known,
// unless it has a command.
func causes(findings []policies.Finding) []policies.Finding {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b policies.Finding) int {
		return cmp.Compare(rank(a), rank(b))
	})
	hasCause := slices.ContainsFunc(sorted, func(f policies.Finding) bool { return !f.Symptom && blocks(f) })
	for i, f := range sorted {
		if hasCause && f.Symptom && len(f.Objects) > 0 && f.Objects[0].Resource == question.Namespaces.Resource {
			sorted[i].Remedy = ""
			sorted[i].Steps = slices.DeleteFunc(slices.Clone(f.Steps), func(s policies.Step) bool { return s.Command == "" })
		}
	}
	return sorted
}

func stepsOf(f policies.Finding) []policies.Step {
	if len(f.Steps) > 0 || f.Remedy == "" {
		return f.Steps
	}
	return []policies.Step{{Kind: policies.Mend, Do: f.Remedy}}
}

func finish(plan []Step, do, command string) []Step {
	if len(plan) == 0 || slices.ContainsFunc(plan, func(s Step) bool { return strings.HasPrefix(s.Command, command) }) {
		return plan
	}
	return append(plan, Step{Step: policies.Step{Kind: Delete, Do: do, Command: command}})
}

// Groups merges consecutive steps that do the same in several commands.
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

// Commands returns one command for all objects of a patch: kubectl takes many of one namespace, and a loop
// handles several.
func Commands(steps []Step) (commands []string) {
	var groups [][]Step
	at := map[[3]string]int{}
	for _, step := range steps {
		if step.Command == "" {
			continue
		}
		patch, is := patchOf(step)
		if i, ok := at[patch]; is && ok {
			groups[i] = append(groups[i], step)
			continue
		}
		if is {
			at[patch] = len(groups)
		}
		groups = append(groups, []Step{step})
	}
	for _, group := range groups {
		commands = append(commands, commandOf(group))
	}
	return commands
}

func patchOf(step Step) (patch [3]string, is bool) {
	objects := step.Action.Targets()
	if len(objects) == 0 || step.Action.Verb != policies.VerbPatch || slices.ContainsFunc(objects, func(o policies.Object) bool { return o.Resource != objects[0].Resource }) {
		return patch, false
	}
	return [3]string{objects[0].Resource, step.Action.Type, string(step.Action.Patch)}, true
}

func commandOf(steps []Step) string {
	if len(steps) == 1 {
		return steps[0].Command
	}
	all, several := *steps[0].Action, false // namespaces
	all.Objects = nil
	var places []string // NAMESPACE/NAME, or /NAME
	for _, step := range steps {
		several = several || step.Action.Namespace != all.Namespace
		all.Objects = append(all.Objects, step.Action.Objects...)
		for _, o := range step.Action.Targets() {
			places = append(places, o.Namespace+"/"+o.Name)
		}
	}
	if several {
		return all.CommandFor(all.Targets()[0].Resource, places)
	}
	return all.Command()
}

const maxForeseen = 50

// Foresee evaluates the plan's deletions and removals of finalizers, and puts steps against their blockers
// before them.
func (a *Answer) Foresee(ctx context.Context, engine Evaluator, world *cluster.World) error {
	own := "" // the command that deletes the only target
	if a.form == asOne {
		own = policies.Deletion(a.Items[0].Target).Command()
	}
	var asker authenticationv1.UserInfo
	for _, item := range a.Items {
		asker = item.asker
	}
	before, left := map[string][]Step{}, maxForeseen // by the command that they precede
	for queue := slices.Clone(a.Plan); len(queue) > 0 && left > 0; queue = queue[1:] {
		step := queue[0]
		if _, exists := before[step.Command]; exists || !deletes(step.Step) && len(step.RemovedFinalizers()) == 0 {
			continue
		}
		before[step.Command] = nil
		for _, o := range step.Action.Targets() {
			if left == 0 {
				break
			}
			left--
			steps, err := blockers(ctx, engine, world, o, step.RemovedFinalizers(), asker)
			if err != nil {
				return err
			}
			for _, s := range steps {
				if own := slices.IndexFunc(a.Plan, func(t Step) bool { return s.Cause != "" && t.Cause == s.Cause && t.Kind == s.Kind }); own >= 0 {
					s = a.Plan[own] // its steps are in the plan already
				}
				if s.Command != "" && s.Command == own {
					continue
				}
				s.Advice = cmp.Or(step.Advice, s.Advice)
				before[step.Command] = append(before[step.Command], s)
				queue = append(queue, s)
			}
		}
	}
	a.Plan = weave(a.Plan, before)
	return nil
}

func deletes(s policies.Step) bool {
	return s.Action != nil && s.Action.Verb == policies.VerbDelete && !s.Action.Force
}

// blockers returns certain blockers, as repairs and deletions.
func blockers(ctx context.Context, engine Evaluator, world *cluster.World, o policies.Object, strips []string, asker authenticationv1.UserInfo) (steps []Step, err error) {
	var s Subject
	exists := false
	world.Read(func(f cluster.Facts) { s, exists = Described(f, o.Resource, o.Namespace, o.Name) })
	if !exists { // nothing waits for it
		return nil, nil
	}
	request := s.Deletion(nil)
	if len(strips) > 0 {
		metadata := maps.Clone(child(s.Object, "metadata")) // facts hold numbers that DeepCopy refuses
		finalizers, _ := metadata["finalizers"].([]any)
		metadata["finalizers"] = slices.DeleteFunc(slices.Clone(finalizers), func(f any) bool {
			text, _ := f.(string)
			return slices.Contains(strips, text)
		})
		after := maps.Clone(s.Object)
		after["metadata"] = metadata
		s.User = asker
		request = s.target().Edit(after)
	}
	item, err := evaluate(ctx, engine, world, nil, s, request)
	if err != nil {
		return nil, err
	}
	for _, f := range causes(item.Findings) {
		if f.Certainty != policies.Will || !blocks(f) || len(strips) > 0 && f.Kind != policies.KindRefused {
			continue
		}
		for _, step := range stepsOf(f) {
			if step.Kind != policies.Mend && step.Command != "" && !deletes(step) {
				continue // it gives something up instead of waiting
			}
			if step.Action != nil && slices.ContainsFunc(step.Action.Objects, policies.IsVolume) {
				continue // an object outside the targets, whatever its step deletes
			}
			step.Do = "For " + item.Target.Ref() + ": " + lowered(step.WithoutPromise())
			steps = append(steps, Step{Step: step, Why: f.Message, Advice: advice(f, step, true), Cause: culprit(f)})
		}
	}
	return steps, nil
}

func weave(plan []Step, before map[string][]Step) []Step {
	woven, placed := []Step{}, map[string]bool{}
	var place func(Step)
	place = func(step Step) {
		key := cmp.Or(step.Command, step.Do)
		if placed[key] {
			return
		}
		placed[key] = true
		for _, s := range before[step.Command] {
			if own := slices.IndexFunc(plan, func(t Step) bool { return t.Command != "" && t.Command == s.Command }); own >= 0 {
				s = plan[own]
			}
			s.Before = step.Command
			place(s)
		}
		woven = append(woven, step)
	}
	for _, step := range plan {
		place(step)
	}
	return woven
}
