// Package scan evaluates the deletion of everything in a cluster, and groups the blockers by cause: what
// fixing one would unblock.
//
// The answers are from package check: nothing here judges a deletion.
package scan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/termguard/termguard/check"
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
	Terminating Kind = "terminating" // Terminating objects of any other kind
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Namespaces, Definitions, Nodes, Releases, Custom, Claims, Volumes, Terminating}
}

// Scan is the answer, apiVersion termguard.dev/v1, kind Scan.
type Scan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Of is the context of a kubeconfig, or a file.
	Of string `json:"of,omitempty"`
	// At is the time of the facts, RFC 3339.
	At string `json:"at"`
	// Interrupted says that not everything was read or evaluated, and how much was.
	Interrupted string `json:"interrupted,omitempty"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	Asked   []Count          `json:"asked"`
	// Causes are the blockers, the broken ones first, by the number of objects that they block.
	Causes []Cause `json:"causes"`
	// Mended is the result of fixing everything that is broken.
	Mended *Mended `json:"mended,omitempty"`
	// Terminating are the Terminating objects, the oldest first; they are among Items.
	Terminating []Ending `json:"terminating"`
	// Items are the objects whose deletion does not complete, and Terminating ones.
	Items []Item `json:"items"`
	// Unseen lists the facts and objects that could not be read, each with the reason.
	Unseen []string `json:"unseen"`
	// LeftOut lists the requested kinds that cannot be evaluated here.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Count is the number of objects of a kind, by verdict.
type Count struct {
	Kind      Kind `json:"kind"`
	Asked     int  `json:"asked"`
	Refused   int  `json:"refused"`
	Hangs     int  `json:"hangs"`
	AtRisk    int  `json:"atRisk"`
	Unknown   int  `json:"unknown"`
	Completes int  `json:"completes"`
}

// Item is the answer about one object.
type Item struct {
	Kind    Kind             `json:"kind"`
	Target  policies.Object  `json:"target"`
	Verdict policies.Verdict `json:"verdict"`
	// TerminatingSince is its deletionTimestamp, RFC 3339.
	TerminatingSince string `json:"terminatingSince,omitempty"`
	// EstimateSeconds is the longest and UsualSeconds the usual duration of the deletion, if known.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	UsualSeconds    *int `json:"usualSeconds,omitempty"`
	// HeldBy are the blockers.
	HeldBy []Hold `json:"heldBy"`
	// Parts of a release are its objects whose deletion does not complete.
	Parts []Part `json:"parts,omitempty"`
	// Unseen lists the facts that the answer depends on and that could not be read.
	Unseen []string `json:"unseen,omitempty"`
}

// Part is the answer about one object of a release, deleted by its uninstall.
type Part struct {
	Target  policies.Object  `json:"target"`
	Verdict policies.Verdict `json:"verdict"`
	HeldBy  []Hold           `json:"heldBy"`
}

// Hold is a cause that blocks one object.
type Hold struct {
	Cause     string             `json:"cause"` // its id
	Certainty policies.Certainty `json:"certainty"`
	Says      string             `json:"says"`
	// Objects are the blockers other than the object itself, the first few.
	Objects []policies.Object `json:"objects,omitempty"`
}

// Ending is an object that is Terminating.
type Ending struct {
	Target  policies.Object  `json:"target"`
	Since   string           `json:"since"` // RFC 3339
	Verdict policies.Verdict `json:"verdict"`
	// Why is its first blocker, or the client that it waits for.
	Why string `json:"why"`
}

// Options configure a scan. The zero value evaluates everything.
type Options struct {
	// Of names the cluster or file, for people.
	Of string
	// Only are the kinds to evaluate. Defaults to all.
	Only []Kind
	// Progress receives the number of evaluated questions.
	Progress func(done, of int)
	// Delete are the DeleteOptions; nil for kubectl delete's.
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
	// maxTerminating bounds the Terminating objects of other kinds, the oldest first.
	maxTerminating = 5000
	// drainedAtOnce is the number of nodes that are evaluated between two checks of ctx.
	drainedAtOnce = 20
	// maxBlockers bounds the blockers that are kept per object and cause.
	maxBlockers = 5
)

type query struct {
	candidate
	place *Place
}

// answer is that of check to a question.
type answer struct {
	query
	item     check.Item
	answered bool
	// parts are the objects of a release.
	parts []answer
}

// Run evaluates places. If ctx ends before the end, or a place was not read whole, it returns the answers
// known by then, and sets Interrupted.
func Run(ctx context.Context, engine check.Evaluator, places []*Place, options Options) *Scan {
	options.setDefaults()
	s := &Scan{APIVersion: "termguard.dev/v1", Kind: "Scan", Of: options.Of, Verdict: policies.Completes, Unseen: []string{}}
	var questions []query
	read := true
	for _, p := range places {
		read = read && !p.interrupted
		questions = append(questions, p.questions(options.Only)...)
		for _, unseen := range p.unseen {
			if !slices.Contains(s.Unseen, unseen) {
				s.Unseen = append(s.Unseen, unseen)
			}
		}
		for _, kind := range options.Only {
			if left := p.leftOut[kind]; left != "" && !slices.Contains(s.LeftOut, left) {
				s.LeftOut = append(s.LeftOut, left)
			}
		}
		if s.At == "" {
			s.At = p.now()
		}
	}
	slices.SortStableFunc(questions, func(a, b query) int {
		return cmp.Compare(slices.Index(Kinds(), a.kind), slices.Index(Kinds(), b.kind))
	})
	var done atomic.Int64
	progress := func(n int) { options.Progress(int(done.Add(int64(n))), len(questions)) }
	answers := askAll(ctx, engine, questions, options.Delete, progress)
	switch n := int(done.Load()); {
	case n < len(questions):
		s.Interrupted = fmt.Sprintf("%d of %d questions were answered: this is not all", n, len(questions))
	case !read:
		s.Interrupted = "not all of the cluster was read: this is not all"
	}
	s.tell(answers)
	if ctx.Err() == nil && read { // half a cluster does not show what a fix unblocks
		s.mend(ctx, engine, answers, options.Delete)
	}
	s.order()
	return s
}

// askAll evaluates questions in parallel, in few goroutines: the stack that policies need grows once in each.
// Nodes are evaluated in batches, each in one pass over the pods.
func askAll(ctx context.Context, engine check.Evaluator, questions []query, options map[string]any, progress func(int)) []answer {
	answers := make([]answer, len(questions))
	var batches [][]int
	for i, q := range questions {
		answers[i].query = q
		last := len(batches) - 1
		if q.kind == Nodes && last >= 0 && len(batches[last]) < drainedAtOnce && questions[batches[last][0]].kind == Nodes && questions[batches[last][0]].place == q.place {
			batches[last] = append(batches[last], i)
			continue
		}
		batches = append(batches, []int{i})
	}
	_ = check.Each(ctx, len(batches), func(ctx context.Context, b int) error {
		of := make([]*answer, len(batches[b]))
		for n, i := range batches[b] {
			of[n] = &answers[i]
		}
		if ask(ctx, engine, of, options) {
			progress(len(of))
		}
		return ctx.Err()
	})
	return answers
}

// ask evaluates one object, or several nodes. It reports whether there is an answer.
func ask(ctx context.Context, engine check.Evaluator, of []*answer, options map[string]any) bool {
	var q check.Question
	if of[0].kind == Releases {
		q = of[0].release.Question()
	} else {
		for _, a := range of {
			q.Targets = append(q.Targets, a.subject())
		}
	}
	if of[0].kind == Nodes {
		q.As = check.AsDrain
	} else {
		q.Options = options
	}
	found, err := check.Ask(ctx, engine, of[0].place.World, q)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false // the question is not at fault
	case len(of) > 1: // evaluate them one by one: an error must not affect the other nodes
		for i := range of {
			ask(ctx, engine, of[i:i+1], options)
		}
		return true
	}
	for i, a := range of {
		a.answered = true
		switch {
		case err != nil:
			a.item = check.Item{Target: a.subject().ID(), Verdict: policies.Unknown, Unseen: []string{err.Error()}}
		case a.kind == Releases:
			a.whole(found)
		default:
			a.item = found.Items[i]
		}
	}
	return true
}

// tell fills in the scan from answers, except the results of mend.
func (s *Scan) tell(answers []answer) {
	counts := map[Kind]*Count{}
	g := newGrouping()
	s.Items, s.Terminating = []Item{}, []Ending{}
	for i := range answers {
		a := &answers[i]
		if !a.answered {
			continue
		}
		if counts[a.kind] == nil {
			counts[a.kind] = &Count{Kind: a.kind}
		}
		counts[a.kind].add(a.item.Verdict)
		s.Verdict = policies.Worst(s.Verdict, a.item.Verdict)
		if a.item.Verdict == policies.Completes && a.item.TerminatingSince == "" {
			continue
		}
		item := Item{
			Kind: a.kind, Target: a.item.Target, Verdict: a.item.Verdict, TerminatingSince: a.item.TerminatingSince,
			EstimateSeconds: a.item.EstimateSeconds, UsualSeconds: a.item.UsualSeconds, Unseen: a.item.Unseen,
		}
		if a.kind == Releases {
			item.HeldBy, item.Parts = g.holdsPartsOf(a)
		} else {
			item.HeldBy = g.holds(a)
		}
		s.Items = append(s.Items, item)
		if item.TerminatingSince != "" {
			s.Terminating = append(s.Terminating, Ending{Target: item.Target, Since: item.TerminatingSince, Verdict: item.Verdict, Why: whyOf(item, a.item)})
		}
	}
	for _, kind := range Kinds() {
		if c := counts[kind]; c != nil {
			s.Asked = append(s.Asked, *c)
		}
	}
	s.Causes = g.causes(s.Items)
}

// whyOf returns the first blocker of a Terminating item, or the client that it waits for.
func whyOf(item Item, r check.Item) string {
	if len(item.HeldBy) > 0 {
		return item.HeldBy[0].Says
	}
	return r.Reason()
}

func (c *Count) add(v policies.Verdict) {
	c.Asked++
	switch v {
	case policies.Refused:
		c.Refused++
	case policies.Hangs:
		c.Hangs++
	case policies.AtRisk:
		c.AtRisk++
	case policies.Completes:
		c.Completes++
	default:
		c.Unknown++
	}
}

// Total returns the sum over all kinds.
func (s *Scan) Total() (total Count) {
	for _, c := range s.Asked {
		total.Asked += c.Asked
		total.Refused += c.Refused
		total.Hangs += c.Hangs
		total.AtRisk += c.AtRisk
		total.Unknown += c.Unknown
		total.Completes += c.Completes
	}
	return total
}

// Blocked writes the names of the objects whose deletion does not complete, as check does.
func (s *Scan) Blocked(w io.Writer) error {
	var blocked check.Answer
	for _, item := range s.Items {
		blocked.Items = append(blocked.Items, check.Item{Target: item.Target, Verdict: item.Verdict})
	}
	return blocked.Blocked(w)
}

// order sorts the most important first.
func (s *Scan) order() {
	slices.SortStableFunc(s.Terminating, func(a, b Ending) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), compareObjects(a.Target, b.Target))
	})
	slices.SortStableFunc(s.Items, func(a, b Item) int {
		return cmp.Or(b.Verdict.Compare(a.Verdict), cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)), compareObjects(a.Target, b.Target))
	})
	slices.Sort(s.Unseen)
}

func compareObjects(a, b policies.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
}

// since returns the time between at and now, 0 if one is malformed.
func since(at, now string) time.Duration {
	began, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0
	}
	end, err := time.Parse(time.RFC3339, now)
	if err != nil {
		return 0
	}
	return max(0, end.Sub(began))
}
