package answer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// deletesVolumes matches advice to delete a volume or a claim, in any wording.
var deletesVolumes = regexp.MustCompile(`(?i)\bdelete[^.:;]*\b(persistentvolumes|persistentvolumeclaims)\b`)

// TestBounds checks the target of each fixture: no step of the plan or of a finding names a volume
// or a claim that is not deleted anyway, and none removes a finalizer whose owner works.
func TestBounds(t *testing.T) {
	race.Skip(t)
	engine := newEngine(t)
	strips, deletions := 0, 0
	for d := range samples(t) {
		report, err := ask(t.Context(), engine, d.world, d.subject, nil)
		if err == nil {
			err = report.all.Foresee(t.Context(), engine, d.world)
		}
		if err != nil {
			t.Fatal(err)
		}
		var all []policies.Step
		for _, f := range report.Findings {
			all = append(all, f.Steps...)
		}
		for _, s := range report.all.Plan {
			if s.Kind != Delete {
				all = append(all, s.Step)
			}
		}
		goes := func(o policies.Object) bool {
			return o.Resource == d.subject.Type.GroupResource().String() && o.Name == d.subject.Name ||
				d.subject.Type.GroupResource() == question.Namespaces && o.Namespace == d.subject.Name
		}
		for _, s := range all {
			if deletesVolumes.MatchString(s.Do) && d.subject.Type.GroupResource() != question.Namespaces && !strings.HasPrefix(d.subject.Type.Resource, "persistentvolume") {
				t.Errorf("%s: a step deletes a volume: %s", d.file, s.Do)
			}
			if s.Action == nil {
				continue
			}
			deletions++
			for _, o := range s.Action.Targets() {
				if strings.HasPrefix(o.Resource, "persistentvolume") && !goes(o) {
					t.Errorf("%s: a step names a volume that is not deleted anyway: %s", d.file, s.Command)
				}
				for _, finalizer := range s.RemovedFinalizers() {
					strips++
					if working(d, o, finalizer) {
						t.Errorf("%s: a step removes %s, whose owner works: %s", d.file, finalizer, s.Command)
					}
				}
			}
		}
	}
	if strips < 50 || deletions < 100 {
		t.Errorf("too few samples: %d finalizers removed, %d steps", strips, deletions)
	}
}

// beforeDeletion matches advice about a deletion that has not begun.
var beforeDeletion = regexp.MustCompile(`(?i)then delete($| again|;)|delete again|delete when|before the deletion`)

// TestTerminating checks each fixture as if its object were Terminating: nothing refuses the
// deletion any more, and no advice is about a deletion to come.
func TestTerminating(t *testing.T) {
	rule := `# METADATA
# title: A rule
# description: A rule of one's own
# related_resources:
#   - ref: https://example.com
# custom:
#   id: a-rule
#   severity: high
#   triggers: [delete]
#   remedy: Ask the team
#   limits: none
package termguard.a_rule

deny contains {"kind": "forbidden", "msg": "not today", "objects": []}
`
	set, err := policies.Load(policies.Embedded(), fstest.MapFS{"a_rule/a_rule.rego": {Data: []byte(rule)}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for d := range samples(t) {
		object := (&unstructured.Unstructured{Object: d.subject.Object}).DeepCopy()
		if object.GetDeletionTimestamp() == nil {
			now := metav1.NewTime(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC))
			object.SetDeletionTimestamp(&now)
		}
		d.subject.Object = object.Object
		report, err := ask(t.Context(), engine, d.world, d.subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict == policies.Refused {
			t.Errorf("%s: refused, although already Terminating: %s", d.file, report.Why())
		}
		for _, s := range report.all.Plan {
			if beforeDeletion.MatchString(s.Do) || s.Kind == Delete {
				t.Errorf("%s: advice about a deletion to come, although already Terminating: %s", d.file, s.Do)
			}
		}
	}
}

// working reports whether the owner of a finalizer runs and lacks nothing.
func working(d sample, o policies.Object, finalizer string) (works bool) {
	at := func(v cluster.Verdict) bool { return v.State == cluster.Alive }
	if o.Name == d.subject.Name && o.Resource == d.subject.Type.GroupResource().String() {
		d.world.Ask(d.subject.Deletion(nil), func(m cluster.Moment) {
			for name, v := range m.Ownership().All() {
				works = works || name == finalizer && at(v)
			}
			if input, _ := m.Ownership()[finalizer].(map[string]any); input["missing"] != nil || input["unallowed"] != nil {
				works = false
			}
		})
		return works
	}
	d.world.Read(func(f cluster.Facts) {
		for _, h := range f.Held(o.Namespace, o.Resource) {
			works = works || h.Finalizer == finalizer && slices.Contains(h.Names, o.Name) && at(h.Owner)
		}
	})
	return works
}
