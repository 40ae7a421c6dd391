package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// MaxTerminating bounds the evaluated objects, the longest Terminating first.
const MaxTerminating = 500

// AllTerminating evaluates up to most Terminating objects in a namespace, itself included; all if it is "".
func (s Session) AllTerminating(ctx context.Context, namespace string, most int) (Answer, error) {
	endings := Endings{Most: most}
	s.Facts.Arrived = endings.Arrived
	world, err := live.Collect(ctx, s.Config, s.Facts, nil, namespace, s.Log)
	if err != nil {
		return Answer{}, fmt.Errorf("read the cluster: %w", Explain(err))
	}
	maps.DeleteFunc(endings.endings, func(_ types.UID, end ending) bool { return namespace != "" && home(end.ID()) != namespace })
	all, err := endings.ask(ctx, s, world, namespace)
	all.namespace = namespace
	return all, err
}

// TerminatingOf evaluates a Terminating object, and the ones deleted with it. The error is Gone if there is
// none, or none with uid, unless that is "".
func (s Session) TerminatingOf(ctx context.Context, name Name, uid string, most int) (Answer, Subject, error) {
	endings := Endings{Most: most}
	s.Facts.Arrived = endings.Arrived
	q := Question{Names: []Name{name}}
	world, err := s.Find(ctx, &q)
	switch {
	case err != nil:
		return Answer{}, Subject{}, err
	case len(q.Missing) > 0 && uid != "" && errors.As(q.Missing[0], new(noTypeError)): // its definition was deleted, too
		return Answer{}, Subject{}, missingError(q.Missing[0].Error())
	case len(q.Missing) > 0:
		return Answer{}, Subject{}, q.Missing[0]
	case uid != "" && q.Targets[0].UID() != uid:
		return Answer{}, q.Targets[0], missingError(fmt.Sprintf("%s was deleted, and recreated since", q.Targets[0]))
	}
	all, err := endings.Ask(ctx, s, world, q.Targets)
	return all, q.Targets[0], err
}

// Gone reports whether an error says that an object does not exist.
func Gone(err error) bool { return errors.As(err, new(missingError)) }

// Endings collects the Terminating objects that arrive while facts are read.
type Endings struct {
	// Most is like MaxTerminating.
	Most int

	mu      sync.Mutex
	endings map[types.UID]ending
}

type ending struct {
	Subject
	uid    types.UID
	since  metav1.Time
	owners []types.UID
	gone   bool // by now
}

// Arrived is for cluster.Options.
func (e *Endings) Arrived(res cluster.Resource, m metav1.Object) {
	if m.GetDeletionTimestamp() == nil {
		return
	}
	typ := Type{GroupVersionResource: res.GroupVersionResource, Namespaced: res.Namespaced}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.endings == nil {
		e.endings = map[types.UID]ending{}
	}
	end := ending{Subject: Subject{Type: typ, Namespace: m.GetNamespace(), Name: m.GetName()}, uid: m.GetUID(), since: *m.GetDeletionTimestamp()}
	for _, owner := range m.GetOwnerReferences() {
		end.owners = append(end.owners, owner.UID)
	}
	e.endings[end.uid] = end
}

// Ask also evaluates the objects deleted with subjects.
func (e *Endings) Ask(ctx context.Context, s Session, world *cluster.World, subjects []Subject) (Answer, error) {
	var next []types.UID
	for _, subject := range subjects {
		uid, typ := types.UID(subject.UID()), subject.Type
		next = append(next, uid)
		if _, arrived := e.endings[uid]; !arrived && subject.Terminating() { // its kind cannot be listed, or it was just deleted
			e.Arrived(cluster.Resource{GroupVersionResource: typ.GroupVersionResource, Namespaced: typ.Namespaced}, &unstructured.Unstructured{Object: subject.Object})
		}
	}
	owned, with := map[types.UID][]types.UID{}, map[types.UID]bool{}
	for uid, end := range e.endings {
		for _, owner := range end.owners {
			owned[owner] = append(owned[owner], uid)
		}
		if Contain(subjects, end.Namespace) || Define(subjects, end.Type.GroupResource()) {
			next = append(next, uid)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		if !with[next[0]] {
			with[next[0]] = true
			next = append(next, owned[next[0]]...)
		}
	}
	maps.DeleteFunc(e.endings, func(uid types.UID, _ ending) bool { return !with[uid] })
	namespace := ""
	if len(subjects) == 1 {
		namespace = home(subjects[0].ID())
	}
	return e.ask(ctx, s, world, namespace)
}

func (e *Endings) ask(ctx context.Context, s Session, world *cluster.World, namespace string) (Answer, error) {
	endings := slices.SortedFunc(maps.Values(e.endings), func(a, b ending) int {
		return cmp.Or(a.since.Compare(b.since.Time), strings.Compare(a.String(), b.String()))
	})
	omitted := max(0, len(endings)-e.Most)
	endings = endings[:len(endings)-omitted]
	client, err := Client(s.Config)
	if err != nil {
		return Answer{}, err
	}
	err = ReadEach(ctx, len(endings), func(ctx context.Context, i int) error {
		end := &endings[i]
		switch err := end.read(ctx, client); {
		case ctx.Err() != nil:
			return ctx.Err()
		case Gone(err):
			end.gone = true
		case err != nil: // must not affect the others
			end.Object = bare(end.Type, end.Namespace, end.Name)
			end.Unseen = append(end.Unseen, policies.Unseen{Reason: err.Error()})
		default:
			end.gone = end.UID() != "" && end.UID() != string(end.uid) // another of its name
		}
		end.Type.Kind, _ = end.Object["kind"].(string)
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	endings = slices.DeleteFunc(endings, func(end ending) bool { return end.gone })
	subjects := make([]Subject, len(endings))
	for i, end := range endings {
		subjects[i] = end.Subject
	}
	if err := tell(ctx, s.Config, world, namespace, subjects); err != nil {
		return Answer{}, err
	}
	unseen, err := s.Certificates(ctx, world, subjects)
	if err != nil {
		return Answer{}, err
	}
	all, err := Ask(ctx, s.Engine, world, Question{Targets: subjects, Options: s.Options})
	if err != nil {
		return Answer{}, err
	}
	all.Notes = asNotes(unseen)
	for i, end := range endings { // also of one that cannot be read
		all.Items[i].TerminatingSince = end.since.UTC().Format(time.RFC3339)
	}
	all.form, all.now, all.Omitted, all.Unseen = asList, world.Options().Now(), omitted, notListed(world, namespace)
	all.sum()
	return all, nil
}

// tell adds the Events and the status that check by name reads.
func tell(ctx context.Context, config *rest.Config, world *cluster.World, namespace string, subjects []Subject) error {
	if !slices.ContainsFunc(subjects, Subject.guarded) {
		return nil
	}
	if err := live.ReadWarnings(ctx, config, world, namespace, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	within, objects := map[string]bool{}, map[string]*unstructured.Unstructured{} // namespaces that are subjects, and objects by ID
	for _, s := range subjects {
		objects[s.String()] = &unstructured.Unstructured{Object: s.Object}
		if s.Type.GroupResource() == question.Namespaces {
			within[s.Name] = true
		}
	}
	for namespace := range within {
		world.TakeConditions(namespace, func(o cluster.Conditioned) *unstructured.Unstructured {
			return objects[policies.Object{Resource: o.GroupResource().String(), Namespace: namespace, Name: o.Name}.Ref()]
		})
	}
	for _, s := range subjects {
		if s.guarded() && !within[s.Namespace] {
			world.KeepWarnings(s.Type.GroupResource(), objects[s.String()])
		}
	}
	return nil
}

// notListed takes "" for all namespaces.
func notListed(world *cluster.World, namespace string) (unseen []policies.Unseen) {
	unseen = []policies.Unseen{}
	world.Read(func(f cluster.Facts) {
		for _, hidden := range f.Unseen() {
			here := namespace == "" || hidden.Resource == question.Namespaces.Resource ||
				hidden.Namespaced && hidden.Reason != "elsewhere" && (hidden.Namespace == "" || hidden.Namespace == namespace)
			if here {
				unseen = append(unseen, policies.Unseen{Resource: hidden.Resource, Reason: hidden.Reason})
			}
		}
	})
	return policies.SortUnseen(unseen)
}

func elsewhere(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace + "; other namespaces were not checked (all: termguard check --terminating -A)"
}

// list has a line per object, or for all of a kind and place with one reason.
func (a Answer) list(l limits) *page.Page {
	var p page.Page
	switch {
	case len(a.Items) == 0 && len(a.Unseen) > 0:
		p.Line("no Terminating objects among the types you can list%s", elsewhere(a.namespace))
	case len(a.Items) == 0:
		p.Line("no Terminating objects%s", elsewhere(a.namespace))
	}
	var rows [][]page.Cell
	unseen, user := slices.Clone(a.Unseen), ""
	alike := map[string]int{} // objects per row
	of := func(e Item) string {
		return strings.Join([]string{string(e.Verdict), e.Target.Resource, e.Target.Namespace, e.Blocker()}, "\x00")
	}
	for _, item := range a.Items {
		alike[of(item)]++
		unseen, user = append(unseen, item.Unseen...), cmp.Or(user, item.asker.Username)
	}
	for _, item := range a.Items {
		why, more := item.Blocker(), alike[of(item)]-1
		if l != whole && more > l.names+1 {
			why += fmt.Sprintf("; %d more like it (%s)", more, eachHint)
			alike[of(item)] = 0
		} else if l != whole && more < 0 {
			continue // it is part of the first
		}
		since := duration.HumanDuration(max(0, a.now.Sub(item.Since())))
		rows = append(rows, []page.Cell{{Text: since}, {Text: string(item.Verdict), Tone: ToneOf(item.Verdict)}, {Text: item.String()}, {Text: why}})
	}
	if len(rows) > 0 {
		p.Table([]string{"SINCE", "VERDICT", "OBJECT", "WHY"}, rows)
	}
	if a.Omitted > 0 {
		p.Line("%s, not checked", page.More(a.Omitted, ""))
	}
	for _, note := range a.Notes {
		p.Line("%s", note)
	}
	if len(a.Items) > 0 {
		p.Blank()
		as := "to see the blockers and steps: termguard check "
		if len(a.Items) > 1 {
			as += "OBJECT, as in termguard check "
		}
		p.Line("%s%s", as, typed(a.Items[0].Target))
	}
	addUnseen(&p, unique(unseen), user, l)
	return &p
}

func (r Item) String() string { return printable.Line(r.Target.Ref()) }

// Blocker returns the blocker, as check by name does, else the first finding, or the awaited owner.
func (r Item) Blocker() string {
	f := r.cause(policies.May, false)
	if r.Verdict == policies.Hangs {
		f = r.holds()
	}
	switch {
	case f.Message != "":
		return f.Message
	case len(r.Findings) > 0:
		return r.Findings[0].Message
	}
	return r.Reason()
}

// Usual returns the usual duration of such a deletion, 0 if unknown.
func (r Item) Usual() time.Duration {
	usual := 0
	if r.UsualSeconds != nil {
		usual = *r.UsualSeconds
	}
	for _, w := range r.WaitsFor {
		if w.Took != nil && w.Took.Objects >= enough {
			usual = max(usual, w.Took.UsualSeconds)
		}
	}
	return time.Duration(usual) * time.Second
}
