// Package scan evaluates the deletion of everything in a cluster by package answer, and groups the blockers by
// cause.
package scan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Kind is a kind of object that a scan evaluates.
type Kind string

// The kinds, in the order of evaluation and output.
const (
	Namespaces  Kind = "namespaces"
	Definitions Kind = "definitions"
	Nodes       Kind = "nodes"    // as a drain
	Releases    Kind = "releases" // as helm uninstall
	Custom      Kind = "custom"
	Claims      Kind = "claims"
	Volumes     Kind = "volumes"
	Terminating Kind = "terminating" // of any other kind
)

func Kinds() []Kind {
	return []Kind{Namespaces, Definitions, Nodes, Releases, Custom, Claims, Volumes, Terminating}
}

// Scan is the answer about a cluster, with an item for each object that is Terminating or whose deletion does
// not complete. Of is the context of a kubeconfig, or a file; Unseen lists unreadable objects, too.
type Scan struct {
	answer.Answer
	// At is the time of the facts, RFC 3339.
	At string `json:"at"`
	// Interrupted says that not all was read or evaluated, and how much was.
	Interrupted string  `json:"interrupted,omitempty"`
	Counts      []Count `json:"asked"`
	// Causes are sorted: broken ones first, by the number of objects that they block.
	Causes []Cause `json:"causes"`
	// Mended is the result of fixing everything broken.
	Mended *Mended `json:"mended,omitempty"`
	// LeftOut lists requested kinds that cannot be evaluated here.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Count is the number of objects of a kind, by verdict.
type Count struct {
	Kind      Kind `json:"kind"`
	Objects   int  `json:"asked"`
	Refused   int  `json:"refused"`
	Hangs     int  `json:"hangs"`
	AtRisk    int  `json:"atRisk"`
	Unknown   int  `json:"unknown"`
	Completes int  `json:"completes"`
}

// The zero value of Options evaluates everything.
type Options struct {
	Of string
	// Only defaults to all kinds.
	Only []Kind
	// LeftOut is as in Scan.
	LeftOut []string
	// Progress receives the number of evaluated questions.
	Progress func(done, of int)
	// Delete are DeleteOptions; nil for kubectl delete's.
	Delete map[string]any
}

func (o *Options) setDefaults() {
	if o.Only == nil {
		o.Only = Kinds()
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Delete == nil {
		o.Delete = question.Background()
	}
}

const (
	// maxTerminating bounds Terminating objects of other kinds, the oldest first.
	maxTerminating = 5000
	// maxAtOnce objects, or maxDrained nodes with their pods, are in memory at once.
	maxAtOnce, maxDrained = 200, 20
	// maxBlockers bounds the blockers per object and cause.
	maxBlockers = 5
)

type reply struct {
	candidate
	item     answer.Item
	answered bool
}

// Run evaluates places. If ctx ends, or a place was not read whole, it sets Interrupted.
func Run(ctx context.Context, engine answer.Evaluator, places []*Place, options Options) *Scan {
	options.setDefaults()
	s := &Scan{Answer: answer.NewAnswer(answer.AsDelete)}
	s.Of, s.LeftOut = options.Of, options.LeftOut
	var questions []candidate
	read := true
	for _, p := range places {
		read = read && !p.interrupted
		for _, c := range p.subjects {
			if slices.Contains(options.Only, c.kind) {
				c.place = p
				questions = append(questions, c)
			}
		}
		for _, unseen := range p.unseen {
			s.Unseen = append(s.Unseen, policies.Unseen{Reason: unseen})
		}
		if s.At == "" {
			p.World.Read(func(f cluster.Facts) { s.At = f.Now().Format(time.RFC3339) })
		}
	}
	slices.SortStableFunc(questions, func(a, b candidate) int {
		return cmp.Compare(slices.Index(Kinds(), a.kind), slices.Index(Kinds(), b.kind))
	})
	var done atomic.Int64
	progress := func(n int) { options.Progress(int(done.Add(int64(n))), len(questions)) }
	answers := askAll(ctx, engine, questions, options.Delete, progress)
	switch n := int(done.Load()); {
	case n < len(questions):
		s.Interrupted = fmt.Sprintf("%d of %d checked", n, len(questions))
	case !read:
		s.Interrupted = "not all of the cluster was read"
	}
	held := s.tell(answers)
	if ctx.Err() == nil && read { // half a cluster does not show what a fix unblocks
		s.mend(ctx, engine, answers, held, options.Delete)
	}
	slices.SortStableFunc(s.Items, func(a, b answer.Item) int {
		return cmp.Or(b.Verdict.Compare(a.Verdict), cmp.Compare(slices.Index(Kinds(), Kind(a.Kind)), slices.Index(Kinds(), Kind(b.Kind))), compareObjects(a.Target, b.Target))
	})
	s.Unseen = policies.SortUnseen(s.Unseen)
	return s
}

// askAll ends with ctx.
func askAll(ctx context.Context, engine answer.Evaluator, questions []candidate, options map[string]any, progress func(int)) []reply {
	answers := make([]reply, len(questions))
	for i, q := range questions {
		answers[i].candidate = q
	}
	for left, n := answers, 0; len(left) > 0; left = left[n:] {
		first, most := left[0], maxAtOnce
		if first.kind == Nodes {
			most = maxDrained
		}
		for n = 1; n < min(len(left), most) && left[n].place == first.place && (left[n].kind == Nodes) == (first.kind == Nodes); {
			n++
		}
		if !ask(ctx, engine, left[:n], options) {
			break
		}
		progress(n)
	}
	return answers
}

// ask evaluates objects of one place, or nodes, and reports whether there are answers.
func ask(ctx context.Context, engine answer.Evaluator, of []reply, options map[string]any) bool {
	q := answer.Question{Options: options}
	if of[0].kind == Nodes {
		q = answer.Question{As: answer.AsDrain}
	}
	for _, a := range of {
		q.Targets = append(q.Targets, a.subject())
	}
	all, err := answer.Ask(ctx, engine, of[0].place.World, q)
	switch {
	case err != nil && ctx.Err() != nil:
		return false // the question is not at fault
	case err != nil && len(of) > 1: // one by one: an error must not affect the others
		for i := range of {
			if !ask(ctx, engine, of[i:i+1], options) {
				return false
			}
		}
		return true
	case err != nil:
		all.Items = []answer.Item{{Target: q.Targets[0].ID(), Verdict: policies.Unknown, Unseen: []policies.Unseen{{Reason: err.Error()}}}}
	}
	for i := range of {
		of[i].item, of[i].answered = all.Items[i], true
	}
	return true
}

// tell fills in the scan, except what mend does, and returns the answers by cause.
func (s *Scan) tell(answers []reply) map[string][]int {
	counts, byCause := map[Kind]*Count{}, map[string][]int{}
	g := grouping{}
	s.Items = []answer.Item{}
	for i := range answers {
		a := &answers[i]
		if !a.answered {
			continue
		}
		if counts[a.kind] == nil {
			counts[a.kind] = &Count{Kind: a.kind}
		}
		counts[a.kind].Objects++
		*counts[a.kind].of(a.item.Verdict)++
		s.Verdict = policies.Worst(s.Verdict, a.item.Verdict)
		if a.item.Verdict == policies.Completes && a.item.TerminatingSince == "" {
			continue
		}
		by, parts := g.holds(a)
		s.Items = append(s.Items, held(a.item, a.kind, by, parts))
		for _, h := range by {
			byCause[h.Cause] = append(byCause[h.Cause], i)
		}
	}
	for _, kind := range Kinds() {
		if c := counts[kind]; c != nil {
			s.Counts = append(s.Counts, *c)
		}
	}
	s.Causes = g.causes(s.Items)
	return byCause
}

// held returns an item with causes in place of its findings, which are too many in a cluster.
func held(item answer.Item, kind Kind, by []answer.Hold, parts []answer.Item) answer.Item {
	item.Kind, item.HeldBy, item.Parts = string(kind), by, parts
	if len(by) > 0 {
		item.Findings, item.WaitsFor = nil, nil
	}
	return item
}

func why(item answer.Item) string {
	if len(item.HeldBy) > 0 {
		return item.HeldBy[0].Says
	}
	return item.Reason()
}

// Terminating returns the Terminating items, the oldest first.
func (s *Scan) Terminating() (items []answer.Item) {
	for _, item := range s.Items {
		if item.TerminatingSince != "" {
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(a, b answer.Item) int {
		return cmp.Or(cmp.Compare(a.TerminatingSince, b.TerminatingSince), compareObjects(a.Target, b.Target))
	})
	return items
}

// verdicts are all verdicts, the worst first.
var verdicts = []policies.Verdict{policies.Refused, policies.Hangs, policies.AtRisk, policies.Unknown, policies.Completes}

func (c *Count) of(v policies.Verdict) *int {
	return map[policies.Verdict]*int{
		policies.Refused: &c.Refused, policies.Hangs: &c.Hangs, policies.AtRisk: &c.AtRisk, policies.Unknown: &c.Unknown, policies.Completes: &c.Completes,
	}[v]
}

func (s *Scan) Total() (total Count) {
	for _, c := range s.Counts {
		total.Objects += c.Objects
		for _, v := range verdicts {
			*total.of(v) += *c.of(v)
		}
	}
	return total
}

func compareObjects(a, b policies.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
}

func (s *Scan) age(item answer.Item) time.Duration {
	now, _ := time.Parse(time.RFC3339, s.At) // as Run writes it
	return max(0, now.Sub(item.Since()))
}
