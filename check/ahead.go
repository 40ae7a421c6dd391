package check

import (
	"cmp"
	"context"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// maxForeseen bounds the objects, deleted by the steps of one plan, that are evaluated.
const maxForeseen = 50

// Foresee evaluates the deletion of each object that the plan deletes, and the removal of finalizers by the
// same user: a step that hangs or is refused is no solution. The blockers of such an object become steps
// before it.
func (a *Answer) Foresee(ctx context.Context, engine Evaluator, world *cluster.World) error {
	own := "" // the command that deletes the only target
	if a.form == asOne {
		own = deletionOf(a.Items[0].Target).Command()
	}
	var asker authenticationv1.UserInfo
	for _, item := range a.Items {
		asker = item.asker
	}
	before, left := map[string][]Step{}, maxForeseen // by the command that they have to precede
	for queue := slices.Clone(a.Plan); len(queue) > 0 && left > 0; queue = queue[1:] {
		step := queue[0]
		if _, known := before[step.Command]; known || !deletes(step.Step) && len(step.Strips()) == 0 {
			continue
		}
		before[step.Command] = nil
		for _, name := range objectsIn(step.Action) {
			if left == 0 {
				break
			}
			left--
			found, err := blockers(ctx, engine, world, name, step.Strips(), asker)
			if err != nil {
				return err
			}
			for _, s := range found {
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

// deletes reports whether a step is a deletion that waits until its object is deleted.
func deletes(s policies.Step) bool {
	return s.Action != nil && s.Action.Verb == policies.VerbDelete && !s.Action.Force
}

// blockers returns the certain blockers of an object's deletion, or of the removal of its finalizers, as
// steps: repairs, and deletions that have to come first.
func blockers(ctx context.Context, engine Evaluator, world *cluster.World, name Name, strips []string, asker authenticationv1.UserInfo) (steps []Step, err error) {
	var s Subject
	exists := false
	world.Read(func(f cluster.Facts) { s, exists = Described(f, name.Type, name.Namespace, name.Name) })
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
			step.Do = "For " + item.Target.Ref() + ": " + lowered(step.Alone())
			steps = append(steps, Step{Step: step, Why: f.Message, Advice: advice(f, step, true), Cause: culprit(f)})
		}
	}
	return steps, nil
}

// weave inserts the steps that have to precede others.
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
