package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// MaxTerminating bounds the objects that are evaluated, the longest Terminating first.
const MaxTerminating = 500

// Terminating is the answer about all Terminating objects, apiVersion termguard.dev/v1, kind
// CheckTerminating.
type Terminating struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	// Items are the objects, the longest Terminating first.
	Items []Ending `json:"items"`
	// Omitted counts objects that were not evaluated.
	Omitted int `json:"omitted,omitempty"`
	// Unseen lists the types that could not be listed, each with the reason: their objects may be
	// Terminating, too.
	Unseen []string `json:"unseen"`

	now       time.Time
	namespace string // the evaluated namespace; "" for all
}

// Ending is the answer about a Terminating object.
type Ending struct {
	// Since is its deletionTimestamp: when it would have been deleted without finalizers.
	Since metav1.Time `json:"since"`
	Report
}

// AllTerminating evaluates the Terminating objects in a namespace, and the namespace itself, or all if
// namespace is "". most bounds them.
func AllTerminating(ctx context.Context, config *rest.Config, engine Evaluator, facts cluster.Options, namespace string, most int, options map[string]any, log *slog.Logger) (Terminating, error) {
	endings := Endings{Most: most}
	facts.Arrived = endings.Arrived
	world, err := live.Collect(ctx, config, facts, nil, namespace, log)
	if err != nil {
		return Terminating{}, fmt.Errorf("read the cluster: %w", explain(err))
	}
	endings.keep(func(s Subject) bool {
		return namespace == "" || s.Namespace == namespace || s.Type.GroupResource() == namespaces && s.Name == namespace
	})
	all, err := endings.ask(ctx, config, engine, world, namespace, options)
	all.namespace = namespace
	return all, err
}

// TerminatingOf evaluates a Terminating object, and the Terminating objects that are deleted with it. The
// error is one of Gone if there is no such object, or another UID than uid, unless that is "".
func TerminatingOf(ctx context.Context, config *rest.Config, engine Evaluator, facts cluster.Options, name Name, uid string, most int, options map[string]any, log *slog.Logger) (Terminating, Subject, error) {
	endings := Endings{Most: most}
	facts.Arrived = endings.Arrived
	s, world, err := FromCluster(ctx, config, facts, name, log)
	switch {
	case err == nil && uid != "" && s.UID() != uid:
		return Terminating{}, s, missingError(fmt.Sprintf("%s has gone: the one that is there now was made since", s))
	case uid != "" && errors.As(err, new(noTypeError)): // its definition was deleted, too
		return Terminating{}, s, missingError(err.Error())
	case err != nil:
		return Terminating{}, s, err
	}
	all, err := endings.Ask(ctx, config, engine, world, []Subject{s}, options)
	return all, s, err
}

// Gone reports whether an error says that an object does not exist.
func Gone(err error) bool { return errors.As(err, new(missingError)) }

// Endings collects the Terminating objects that arrive while facts are read.
type Endings struct {
	// Most bounds the objects that are evaluated, the longest Terminating first.
	Most int

	mu    sync.Mutex
	found map[types.UID]ending
}

type ending struct {
	Subject
	since  metav1.Time
	owners []types.UID
}

// Arrived is for cluster.Options.
func (e *Endings) Arrived(res cluster.Resource, m metav1.Object) {
	if m.GetDeletionTimestamp() == nil {
		return
	}
	typ := Type{GroupVersionResource: res.GroupVersionResource, Namespaced: res.Namespaced}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = map[types.UID]ending{}
	}
	end := ending{Subject: Subject{Type: typ, Namespace: m.GetNamespace(), Name: m.GetName()}, since: *m.GetDeletionTimestamp()}
	for _, owner := range m.GetOwnerReferences() {
		end.owners = append(end.owners, owner.UID)
	}
	e.found[m.GetUID()] = end
}

func (e *Endings) keep(wanted func(Subject) bool) {
	maps.DeleteFunc(e.found, func(_ types.UID, end ending) bool { return !wanted(end.Subject) })
}

// Ask evaluates the subjects and the objects deleted with them: the content of a namespace, the objects of a
// definition, and dependents.
func (e *Endings) Ask(ctx context.Context, config *rest.Config, engine Evaluator, world *cluster.World, subjects []Subject, options map[string]any) (Terminating, error) {
	within, of := map[string]bool{}, map[string]bool{}
	var next []types.UID
	for _, s := range subjects {
		uid := types.UID(s.UID())
		next = append(next, uid)
		if _, arrived := e.found[uid]; !arrived && s.Terminating() { // its kind cannot be listed, or it was just deleted
			e.Arrived(cluster.Resource{GroupVersionResource: s.Type.GroupVersionResource, Namespaced: s.Type.Namespaced}, &unstructured.Unstructured{Object: s.Object})
		}
		switch s.Type.GroupResource() {
		case namespaces:
			within[s.Name] = true
		case definitions:
			of[s.Name] = true
		}
	}
	owned, with := map[types.UID][]types.UID{}, map[types.UID]bool{}
	for uid, end := range e.found {
		for _, owner := range end.owners {
			owned[owner] = append(owned[owner], uid)
		}
		if within[end.Namespace] || of[end.Type.GroupResource().String()] {
			next = append(next, uid)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		if !with[next[0]] {
			with[next[0]] = true
			next = append(next, owned[next[0]]...)
		}
	}
	maps.DeleteFunc(e.found, func(uid types.UID, _ ending) bool { return !with[uid] })
	namespace := ""
	if len(subjects) == 1 && subjects[0].Type.Namespaced {
		namespace = subjects[0].Namespace
	} else if len(within) == 1 && len(subjects) == 1 {
		namespace = subjects[0].Name
	}
	return e.ask(ctx, config, engine, world, namespace, options)
}

// ask evaluates all of them; types that could not be listed in namespace are unseen.
func (e *Endings) ask(ctx context.Context, config *rest.Config, engine Evaluator, world *cluster.World, namespace string, options map[string]any) (Terminating, error) {
	uids := slices.SortedFunc(maps.Keys(e.found), func(a, b types.UID) int {
		return cmp.Or(e.found[a].since.Compare(e.found[b].since.Time), strings.Compare(e.found[a].String(), e.found[b].String()))
	})
	all := Terminating{APIVersion: "termguard.dev/v1", Kind: "CheckTerminating", Verdict: policies.Completes, Items: []Ending{}, now: time.Now()}
	if all.Omitted = max(0, len(uids)-e.Most); all.Omitted > 0 {
		uids = uids[:e.Most]
	}
	client, err := objectsOf(config)
	if err != nil {
		return Terminating{}, err
	}
	subjects := make([]Subject, len(uids))
	gone := make([]bool, len(uids))
	var reading errgroup.Group
	reading.SetLimit(reads)
	for i, uid := range uids {
		subjects[i] = e.found[uid].Subject
		reading.Go(func() error {
			s := &subjects[i]
			err := s.read(ctx, client)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				gone[i] = s.UID() != "" && s.UID() != string(uid) // another of its name
			case Gone(err):
				gone[i] = true
			default: // an unreadable object must not affect the others
				s.Object = bare(s.Type, s.Namespace, s.Name)
				s.Unseen = append(s.Unseen, err.Error())
			}
			s.Type.Kind, _ = s.Object["kind"].(string)
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return Terminating{}, err
	}
	var there []Subject
	for i, uid := range uids {
		if !gone[i] {
			there = append(there, subjects[i])
			all.Items = append(all.Items, Ending{Since: e.found[uid].since})
		}
	}
	if err := tell(ctx, config, world, namespace, there); err != nil {
		return Terminating{}, err
	}
	reports, err := each(ctx, there, func(ctx context.Context, s Subject) (Report, error) {
		return Ask(ctx, engine, world, s, options)
	})
	if err != nil {
		return Terminating{}, err
	}
	for i, report := range reports {
		all.Items[i].Report = report
		all.Verdict = policies.Worst(all.Verdict, report.Verdict)
	}
	all.Unseen = notListed(world, namespace)
	if len(all.Unseen) > 0 {
		all.Verdict = policies.Worst(all.Verdict, policies.Unknown)
	}
	return all, nil
}

// tell adds the facts that check by name reads about objects: Events, and the status of objects in their
// namespaces.
func tell(ctx context.Context, config *rest.Config, world *cluster.World, namespace string, subjects []Subject) error {
	if !slices.ContainsFunc(subjects, Subject.guarded) {
		return nil
	}
	if err := world.ReadWarnings(ctx, config, namespace, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	within := map[string]map[string]*unstructured.Unstructured{}
	for _, s := range subjects {
		if s.Type.GroupResource() == namespaces {
			within[s.Name] = map[string]*unstructured.Unstructured{}
		}
	}
	for _, s := range subjects {
		if objects := within[s.Namespace]; objects != nil {
			objects[s.Type.GroupResource().String()+"/"+s.Name] = &unstructured.Unstructured{Object: s.Object}
		}
	}
	for name, objects := range within {
		world.TakeConditions(name, func(resource, name string) *unstructured.Unstructured { return objects[resource+"/"+name] })
	}
	for _, s := range subjects {
		if s.guarded() && within[s.Namespace] == nil {
			world.KeepWarnings(s.Type.GroupResource(), s.Namespace, s.Name, s.UID())
		}
	}
	return nil
}

// notListed returns the resources that could not be listed in a namespace, or anywhere if that is "".
func notListed(world *cluster.World, namespace string) (unseen []string) {
	unseen = []string{}
	world.Read(func(f cluster.Facts) {
		for _, hidden := range f.Unseen() {
			here := namespace == "" || hidden.Resource == namespaces.Resource ||
				hidden.Namespaced && hidden.Reason != "elsewhere" && (hidden.Namespace == "" || hidden.Namespace == namespace)
			if here {
				unseen = append(unseen, hidden.Resource+": "+hidden.Reason)
			}
		}
	})
	slices.Sort(unseen)
	return slices.Compact(unseen)
}

// elsewhere says that only one namespace was read, for users who expect another.
func elsewhere(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace + "; no other was looked at (all: termguard check --terminating -A)"
}

// endingHead is the first column's heading of the table, with padding.
const endingHead = "SINCE  "

// Text writes a line per object, and one for all of a kind and place with the same reason.
func (t Terminating) Text(w io.Writer) error { return t.text(w, folded) }

// Full is Text with a line per object.
func (t Terminating) Full(w io.Writer) error { return t.text(w, whole) }

func (t Terminating) text(w io.Writer, l limits) error {
	var out strings.Builder
	switch {
	case len(t.Items) == 0 && len(t.Unseen) > 0:
		out.WriteString("nothing that could be listed is being deleted" + elsewhere(t.namespace) + "\n")
	case len(t.Items) == 0:
		out.WriteString("nothing is being deleted" + elsewhere(t.namespace) + "\n")
	}
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	unseen, user := slices.Clone(t.Unseen), ""
	if len(t.Items) > 0 {
		fmt.Fprintln(table, strings.TrimSpace(endingHead)+"\tVERDICT\tOBJECT\tWHY")
	}
	alike := map[string]int{} // how many there are of a row
	of := func(e Ending) string {
		return strings.Join([]string{string(e.Verdict), e.Target.Resource, e.Target.Namespace, e.Why()}, "\x00")
	}
	for _, item := range t.Items {
		alike[of(item)]++
		unseen, user = withNew(unseen, item.Unseen), cmp.Or(user, item.asker.Username)
	}
	for _, item := range t.Items {
		why, more := item.Why(), alike[of(item)]-1
		if l != whole && more > l.names+1 {
			why += fmt.Sprintf("; %d more like it (%s)", more, eachHint)
			alike[of(item)] = 0
		} else if l != whole && more < 0 {
			continue // it is part of the first
		}
		since := duration.HumanDuration(max(0, t.now.Sub(item.Since.Time)))
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", since, item.Verdict, item, printable.Line(why))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if t.Omitted > 0 {
		fmt.Fprintf(&out, "and %d more, which were not asked about\n", t.Omitted)
	}
	if len(t.Items) > 0 {
		out.WriteString("\nto see what ends it: termguard check ")
		if len(t.Items) > 1 {
			out.WriteString("OBJECT, as in termguard check ")
		}
		fmt.Fprintln(&out, typed(t.Items[0].Target))
	}
	writeUnseen(&out, unseen, user, l)
	_, err := io.WriteString(w, out.String())
	return err
}

// String returns the object in one line.
func (e Ending) String() string { return printable.Line(shown(e.Target, "")) }

// Why returns the blocker, as check by name does, else the first finding, or the owner that the deletion
// waits for.
func (e Ending) Why() string {
	f := e.cause(policies.May, false)
	if e.Verdict == policies.Hangs {
		f = e.holds()
	}
	switch {
	case f.Message != "":
		return f.Message
	case len(e.Findings) > 0:
		return e.Findings[0].Message
	}
	return e.Reason()
}

// Usual returns the usual duration of such a deletion, 0 if unknown.
func (e Ending) Usual() time.Duration {
	usual := 0
	if e.UsualSeconds != nil {
		usual = *e.UsualSeconds
	}
	for _, w := range e.WaitsFor {
		if w.Took != nil && w.Took.Objects >= enough {
			usual = max(usual, w.Took.UsualSeconds)
		}
	}
	return time.Duration(usual) * time.Second
}

// Wide is Full, which has a line per object.
func (t Terminating) Wide(w io.Writer) error { return t.Full(w) }

// Blocked writes the names of the objects whose deletion does not complete.
func (t Terminating) Blocked(w io.Writer) error { return blocked(w, t.reports()) }

func (t Terminating) reports() (items []Report) {
	for _, item := range t.Items {
		items = append(items, item.Report)
	}
	return items
}

// DOT draws the trees of all of them, as for a Set.
func (t Terminating) DOT(w io.Writer) error { return newSet(t.reports(), nil).DOT(w) }
