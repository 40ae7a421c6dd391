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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// maxTerminating bounds the objects that are asked about, those first that have been
// Terminating for longest.
const maxTerminating = 500

// Terminating is the answer about everything that is being deleted, apiVersion
// termguard.dev/v1, kind CheckTerminating.
type Terminating struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	// Items are the objects, those first that have been Terminating for longest.
	Items []Ending `json:"items"`
	// Omitted counts objects that were not asked about.
	Omitted int `json:"omitted,omitempty"`
	// Unseen is what could not be listed, each with the reason: something of it may be
	// Terminating, too.
	Unseen []string `json:"unseen"`

	now time.Time
}

// Ending is the answer about one of them.
type Ending struct {
	// Since is its deletionTimestamp: when it should have been gone, if it has
	// no finalizers.
	Since metav1.Time `json:"since"`
	Report
}

// AllTerminating asks about all objects in a namespace that are being deleted, and
// about the namespace itself; where namespace is "", about all there are.
func AllTerminating(ctx context.Context, config *rest.Config, engine Evaluator, facts cluster.Options, namespace string, options map[string]any, log *slog.Logger) (Terminating, error) {
	var (
		mu    sync.Mutex
		found = map[types.UID]Subject{}
		since = map[types.UID]metav1.Time{}
	)
	facts.Arrived = func(res cluster.Resource, m metav1.Object) {
		if m.GetDeletionTimestamp() == nil || namespace != "" && m.GetNamespace() != namespace && (res.String() != "namespaces" || m.GetName() != namespace) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		typ := Type{GroupVersionResource: res.GroupVersionResource, Namespaced: res.Namespaced}
		found[m.GetUID()] = Subject{Type: typ, Namespace: m.GetNamespace(), Name: m.GetName()}
		since[m.GetUID()] = *m.GetDeletionTimestamp()
	}
	world, err := cluster.Collect(ctx, config, facts, namespace, log)
	if err != nil {
		return Terminating{}, fmt.Errorf("read the cluster: %w", explain(err))
	}
	uids := slices.SortedFunc(maps.Keys(found), func(a, b types.UID) int {
		return cmp.Or(since[a].Compare(since[b].Time), strings.Compare(found[a].String(), found[b].String()))
	})
	all := Terminating{APIVersion: "termguard.dev/v1", Kind: "CheckTerminating", Verdict: policies.Completes, Items: []Ending{}, now: time.Now()}
	if all.Omitted = len(uids) - maxTerminating; all.Omitted > 0 {
		uids = uids[:maxTerminating]
	} else {
		all.Omitted = 0
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
		subjects[i] = found[uid]
		reading.Go(func() error {
			var not missingError
			err := subjects[i].read(ctx, client)
			if gone[i] = errors.As(err, &not); gone[i] {
				return nil
			}
			subjects[i].Type.Kind, _ = subjects[i].Object["kind"].(string)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return Terminating{}, err
	}
	var there []Subject
	for i, uid := range uids {
		if !gone[i] {
			there = append(there, subjects[i])
			all.Items = append(all.Items, Ending{Since: since[uid]})
		}
	}
	reports, err := each(ctx, there, func(ctx context.Context, s Subject) (Report, error) {
		return Ask(ctx, engine, world, s, options)
	})
	if err != nil {
		return Terminating{}, err
	}
	for i, report := range reports {
		all.Items[i].Report = report
		if worse(report.Verdict, all.Verdict) {
			all.Verdict = report.Verdict
		}
	}
	all.Unseen = notListed(world, namespace)
	if len(all.Unseen) > 0 && worse(policies.Unknown, all.Verdict) {
		all.Verdict = policies.Unknown
	}
	return all, nil
}

// notListed are the resources that could not be listed in a namespace, or, where that is
// "", anywhere.
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

// Text writes a line for each object.
func (t Terminating) Text(w io.Writer) error {
	var out strings.Builder
	switch {
	case len(t.Items) == 0 && len(t.Unseen) > 0:
		out.WriteString("nothing that could be listed is being deleted\n")
	case len(t.Items) == 0:
		out.WriteString("nothing is being deleted\n")
	}
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	unseen, user := slices.Clone(t.Unseen), ""
	for i, item := range t.Items {
		if i == 0 {
			fmt.Fprintln(table, "SINCE\tVERDICT\tOBJECT\tWHY")
		}
		since := duration.HumanDuration(max(0, t.now.Sub(item.Since.Time)))
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", since, item.Verdict, printable.Line(shown(item.Target, "")), printable.Line(item.why()))
		unseen, user = withNew(unseen, item.Unseen), cmp.Or(user, item.user)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if t.Omitted > 0 {
		fmt.Fprintf(&out, "and %d more, which were not asked about\n", t.Omitted)
	}
	if len(t.Items) > 0 {
		fmt.Fprintf(&out, "\nto see what ends it: termguard check %s\n", printable.Line(shown(t.Items[0].Target, "")))
	}
	writeUnseen(&out, unseen, user)
	_, err := io.WriteString(w, out.String())
	return err
}

// why is the first thing that was found, or what the deletion waits for.
func (e Ending) why() string {
	if len(e.Findings) > 0 {
		return e.Findings[0].Message
	}
	_, meaning, _ := strings.Cut(e.meaning(), " ")
	return meaning
}

// Wide is Text, which has a line for each.
func (t Terminating) Wide(w io.Writer) error { return t.Text(w) }

// Blocked writes the names of the objects whose deletion does not complete.
func (t Terminating) Blocked(w io.Writer) error { return blocked(w, t.reports()) }

func (t Terminating) reports() (items []Report) {
	for _, item := range t.Items {
		items = append(items, item.Report)
	}
	return items
}

// DOT draws the trees of all of them, as that of a Set.
func (t Terminating) DOT(w io.Writer) error { return newSet(t.reports(), nil).DOT(w) }
