package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Values of DELETE.
const (
	// Stuck is a hanging kubectl delete.
	Stuck = "stuck"
	// Fresh is termguard delete from the start.
	Fresh = "fresh"
)

// Exit codes: objects are left, failed, or a step needs confirmation.
const some, failed, open, mostAnswers = 1, 2, 3, 5

type Deleted struct {
	Took  time.Duration
	Steps []string
	Gone  int
}

// deletable needs a plan that only gives something up or forces: both take a certain hang.
func (s Scenario) deletable() bool {
	certain := !slices.ContainsFunc(s.Expect, func(verdict string) bool { return verdict != Hangs })
	return certain && (s.Plan == Runs || s.Plan == Force) && len(s.Cure) == 0 && s.HoursLater == 0
}

func (g *Guarded) playDelete(ctx context.Context, o *Outcome, how string) error {
	s := o.Scenario
	if err := g.start(ctx, s.Live, Answered); err != nil {
		return err
	}
	if how == Stuck {
		if err := g.ask(ctx, o, false); err != nil {
			return err
		}
		gone, err := g.gone(ctx, s)
		if err != nil {
			return err
		}
		if gone {
			o.Real = Completes
			o.Wrong = append(o.Wrong, "kubectl delete alone completes")
			return nil
		}
	}
	o.Real = Hangs
	wrong, err := g.deleteAll(ctx, o)
	o.Wrong = append(o.Wrong, wrong...)
	return err
}

// deleteAll answers only forced steps. Something left is an error, and something deleted that no step names.
func (g *Guarded) deleteAll(ctx context.Context, o *Outcome) (wrong []string, err error) {
	s := o.Scenario
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	before, err := g.things(ctx)
	if err != nil {
		return nil, err
	}
	args := append([]string{"delete", "--kubeconfig", g.Kubeconfig(), "--yes", "--allow=restore", "--allow=strip", "--timeout=4m", "-o", "json"}, s.objects()...)
	began := time.Now()
	var out bytes.Buffer
	for answers := 0; ; answers++ {
		var report struct{ Questions []struct{ Allow []string } }
		cmd := exec.CommandContext(ctx, binary, args...)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &out
		err := cmd.Run()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			break
		}
		if cmd.ProcessState.ExitCode() != open || answers == mostAnswers {
			wrong = append(wrong, fmt.Sprintf("termguard %s: %v: %s", strings.Join(args, " "), err, &out))
			break
		}
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			return nil, fmt.Errorf("read what termguard delete asks: %w", err)
		}
		for _, q := range report.Questions { // as a script would, after a person has looked at it
			args = append(args, Words(strings.Join(q.Allow, " "))...)
		}
	}
	o.Deleted = &Deleted{Took: time.Since(began)}
	if gone, err := g.Gone(ctx, s, time.Second); err != nil {
		return nil, err
	} else if !gone {
		wrong = append(wrong, "termguard delete leaves what it was to delete")
	}
	after, err := g.things(ctx)
	if err != nil {
		return nil, err
	}
	var named []string
	for line := range strings.Lines(out.String()) {
		if command, ok := strings.CutPrefix(line, "  $ "); ok { // deeper than in the plan
			o.Deleted.Steps = append(o.Deleted.Steps, strings.TrimSpace(command))
		}
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			named = append(named, objectsOf(command)...)
		}
		for _, says := range []string{"done: ", "deletion requested: ", "deleted: "} {
			if name, ok := strings.CutPrefix(line, says); ok {
				named = append(named, strings.Split(name, ", ")...)
			}
		}
	}
	of, err := s.own(before)
	if err != nil {
		return nil, err
	}
	gone, lost := unnamed(of, after, named)
	o.Deleted.Gone = gone
	for _, what := range lost {
		wrong = append(wrong, "termguard delete named no step about it: "+what+"\n"+out.String())
	}
	return wrong, nil
}

func objectsOf(command string) (names []string) {
	words := Words(command)
	within := ""
	if at := slices.Index(words, "-n"); at >= 0 && at+1 < len(words) {
		within = " -n " + words[at+1]
	}
	for _, word := range words {
		if strings.Contains(word, "/") && !strings.HasPrefix(word, "-") {
			names = append(names, word+within)
		}
	}
	return names
}

func (s Scenario) objects() []string {
	if s.Delete != "" {
		// kubectl requires --force with a grace period of 0; termguard asks about it instead.
		return slices.DeleteFunc(strings.Fields(s.Delete), func(arg string) bool { return arg == "--force" })
	}
	return s.target()
}

type thing struct {
	resource   schema.GroupResource
	kind       schema.GroupKind
	namespace  string
	name       string
	finalizers []string
	owners     []types.UID
	leaving    bool // it is Terminating
}

// String is termguard's form.
func (t thing) String() string {
	text := t.resource.String() + "/" + t.name
	if t.namespace != "" {
		text += " -n " + t.namespace
	}
	return text
}

func (g *Guarded) things(ctx context.Context) (map[types.UID]thing, error) {
	objects, err := g.objects(ctx)
	if err != nil {
		return nil, err
	}
	all := map[types.UID]thing{}
	for uid, o := range objects {
		one := thing{
			resource: schema.ParseGroupResource(o.GetAnnotations()[resourceKey]), kind: o.GroupVersionKind().GroupKind(),
			namespace: o.GetNamespace(), name: o.GetName(), finalizers: o.GetFinalizers(), leaving: o.GetDeletionTimestamp() != nil,
		}
		for _, owner := range o.GetOwnerReferences() {
			one.owners = append(one.owners, owner.UID)
		}
		all[uid] = one
	}
	return all, nil
}

// made returns GROUP-KIND/NAMESPACE/NAME, and namespaces.
func (s Scenario) made() (names, within map[string]bool, err error) {
	names, within = map[string]bool{}, map[string]bool{}
	for _, document := range strings.Split(s.Objects+"\n---\n"+s.Later, "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, nil, err
		}
		names[object.GroupVersionKind().GroupKind().String()+"/"+object.Namespace+"/"+object.Name] = true
		if object.Kind == "Namespace" {
			within[object.Name] = true
		}
	}
	return names, within, nil
}

// own leaves out scenarios played beside it.
func (s Scenario) own(all map[types.UID]thing) (map[types.UID]thing, error) {
	names, within, err := s.made()
	if err != nil {
		return nil, err
	}
	of := map[types.UID]thing{}
	for uid, t := range all {
		if within[t.namespace] || names[t.kind.String()+"/"+t.namespace+"/"+t.name] {
			of[uid] = t
		}
	}
	return of, nil
}

// unnamed counts deleted things, and lists the lost ones: deleted or without a finalizer, but not named, in a
// named namespace, of a named definition, dependent on a named object, or Terminating before.
func unnamed(of, after map[types.UID]thing, named []string) (gone int, lost []string) {
	left := map[types.UID]bool{}
	leaving := map[string]bool{} // namespaces
	for _, t := range of {
		leaving[t.name] = leaving[t.name] || t.leaving && t.kind.Kind == "Namespace"
	}
	explained := func(t thing) bool {
		in := "namespaces/" + t.namespace
		instance := "customresourcedefinitions.apiextensions.k8s.io/" + t.resource.String()
		return slices.Contains(named, t.String()) || slices.Contains(named, in) || slices.Contains(named, instance)
	}
	for uid := range of {
		if _, there := after[uid]; !there {
			gone++
			left[uid] = true
		}
	}
	for again := true; again; { // owners of owners
		again = false
		for uid := range left {
			t := of[uid]
			owned := slices.ContainsFunc(t.owners, func(owner types.UID) bool {
				_, mine := of[owner]
				_, there := after[owner]
				return mine && !there && !left[owner]
			})
			if explained(t) || owned || t.leaving || leaving[t.namespace] {
				delete(left, uid)
				again = true
			}
		}
	}
	for uid := range left {
		lost = append(lost, of[uid].String()+" is gone")
	}
	for uid, t := range of {
		now, there := after[uid]
		if !there || explained(t) {
			continue
		}
		for _, finalizer := range t.finalizers {
			if !slices.Contains(now.finalizers, finalizer) {
				lost = append(lost, fmt.Sprintf("%s has lost the finalizer %s", t, finalizer))
			}
		}
	}
	slices.Sort(lost)
	return gone, lost
}

func Deletions(out io.Writer, outcomes []Outcome) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Scenario.Name, b.Scenario.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tTOOK\tSTEPS\tGONE\t")
	finished := 0
	for _, o := range outcomes {
		remark := ""
		switch {
		case o.Err != nil:
			remark = "could not be played"
		case len(o.Wrong) > 0:
			remark = "wrong"
		default:
			finished++
		}
		if o.Deleted == nil {
			o.Deleted = &Deleted{}
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", o.Scenario.Name, o.Deleted.Took.Round(100*time.Millisecond), len(o.Deleted.Steps), o.Deleted.Gone, remark)
	}
	table.Flush()
	fmt.Fprintf(out, "\n%d of %d finished by termguard delete, and nothing else is gone\n", finished, len(outcomes))
}

func deleting() (string, error) {
	how := os.Getenv("DELETE")
	if how != "" && !slices.Contains([]string{Stuck, Fresh, Beside}, how) {
		return "", fmt.Errorf("DELETE is %q: want %s, %s or %s", how, Stuck, Fresh, Beside)
	}
	return how, nil
}
