package scan

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Survey asks about what is in facts that others keep current and read meanwhile: bit by bit,
// with a rest before each question. Nodes are not asked about: a drain looks through all pods.
type Survey struct {
	World *cluster.World
	// Engine is what to ask now.
	Engine func() check.Evaluator
	// Rest is called before each look at the facts. An error ends the round.
	Rest func(context.Context) error
}

// By is what a figure of a tally is about: labels from closed sets.
type By struct {
	// Policy is the id of one, or Nothing or Unexplained.
	Policy string
	Kind   Kind
}

const (
	// Nothing is found that holds an object.
	Nothing = "none"
	// Unexplained is what takes longer than it takes at most, and no policy knows why.
	Unexplained = "unexplained"
)

// Tally is what one round of a survey finds.
type Tally struct {
	// Undeletable counts the objects whose deletion a policy is certain to hang.
	Undeletable map[By]int
	// Terminating is for how long the oldest of the objects that are being deleted has been.
	Terminating map[By]time.Duration
	// Held counts what Undeletable counts, by where it is.
	Held map[Held]int
	// Policies are those of Held.
	Policies map[string]About
}

// Held is what a count of a tally is about. It names namespaces and definitions, and nothing
// that is in a namespace.
type Held struct {
	By
	Resource string
	// Namespace is that of the objects, "" for what is in none.
	Namespace string
	// Name is that of a namespace or a definition, "" for all else.
	Name string
}

// About is what is true of each finding of a policy.
type About struct {
	Title    string
	Severity policies.Severity
}

// held takes in n objects.
func (t *Tally) held(policy string, kind Kind, resource, namespace, name string, n int) {
	by := By{policy, kind}
	t.Undeletable[by] += n
	t.Held[Held{by, resource, namespace, name}] += n
}

// maxInNamespace bounds the questions about what is in one namespace: who fills one delays
// what is told of others by no more than that.
const maxInNamespace = 50

// Round asks about everything once.
func (s *Survey) Round(ctx context.Context) (Tally, error) {
	t := Tally{Undeletable: map[By]int{}, Terminating: map[By]time.Duration{}, Held: map[Held]int{}, Policies: map[string]About{}}
	var names, defined, holding []string
	if err := s.look(ctx, func(f cluster.Facts) {
		names, defined, holding = f.Names(string(Namespaces), ""), f.Names(definitions, ""), f.Holding()
	}); err != nil {
		return t, err
	}
	for kind, all := range map[Kind][]string{Namespaces: names, Definitions: defined} {
		resource := map[Kind]string{Namespaces: string(Namespaces), Definitions: definitions}[kind]
		for _, name := range all {
			if immortal(kind, name) {
				continue
			}
			found, err := s.ask(ctx, &t, kind, resource, "", name)
			if err != nil {
				return t, err
			}
			for _, policy := range found {
				t.held(policy, kind, resource, "", name, 1)
			}
		}
	}
	within := slices.Concat(names, holding)
	slices.Sort(within)
	for _, namespace := range slices.Compact(within) {
		var groups []group
		if err := s.look(ctx, func(f cluster.Facts) { groups = groupsIn(f, namespace) }); err != nil {
			return t, err
		}
		for _, g := range groups {
			if err := s.askGroup(ctx, &t, namespace, g); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// group are objects of a resource in one namespace that carry the same finalizer: those that
// the facts name are asked about. What holds all of these holds the others.
type group struct {
	kind     Kind
	resource string
	names    []string
	others   int
	// going are objects that are asked about only for how long they have been Terminating.
	going bool
}

// groupsIn are those of a namespace.
func groupsIn(f cluster.Facts, namespace string) (groups []group) {
	type object struct{ resource, name string }
	known := map[object]bool{}
	add := func(g group, names ...string) {
		for _, name := range names {
			if o := (object{g.resource, name}); !known[o] && len(known) < maxInNamespace {
				known[o] = true
				g.names = append(g.names, name)
			}
		}
		if len(g.names) > 0 {
			groups = append(groups, g)
		}
	}
	for held := range f.Held(namespace, "") {
		kind, wanted := kindOf(held.Resource, schema.ParseGroupResource(held.Resource).Group, true)
		if kind == Namespaces || kind == Definitions || kind == Nodes {
			continue // those are on record
		}
		if wanted {
			add(group{kind: kind, resource: held.Resource, others: held.Count - len(held.Names)}, held.Names...)
		} else {
			kind = Terminating
		}
		oldest := ""
		for name, since := range held.Terminating {
			if oldest == "" || since+name < held.Terminating[oldest]+oldest {
				oldest = name
			}
		}
		if oldest != "" {
			add(group{kind: kind, resource: held.Resource, going: true}, oldest)
		}
	}
	for pod := range f.Pods(namespace) {
		if pod.Terminating {
			add(group{kind: Terminating, resource: "pods", going: true}, pod.Name)
		}
	}
	return groups
}

func (s *Survey) askGroup(ctx context.Context, t *Tally, namespace string, g group) error {
	held := map[string]int{}
	for _, name := range g.names {
		found, err := s.ask(ctx, t, g.kind, g.resource, namespace, name)
		if err != nil {
			return err
		}
		for _, policy := range found {
			held[policy]++
		}
	}
	for policy, n := range held {
		if n == len(g.names) {
			n += g.others
		}
		if !g.going {
			t.held(policy, g.kind, g.resource, namespace, "", n)
		}
	}
	return nil
}

// look reads the facts after a rest.
func (s *Survey) look(ctx context.Context, f func(cluster.Facts)) error {
	if err := s.Rest(ctx); err != nil {
		return err
	}
	s.World.Read(f)
	return nil
}

// ask asks about an object, takes in for how long it has been Terminating, and returns the
// policies that are certain. What has gone meanwhile, or cannot be asked about, has none.
func (s *Survey) ask(ctx context.Context, t *Tally, kind Kind, resource, namespace, name string) (certain []string, err error) {
	var subject check.Subject
	var now time.Time
	var gone error
	if err := s.look(ctx, func(f cluster.Facts) {
		subject, gone = check.Described(f, resource, namespace, name)
		now = f.Now()
	}); err != nil || gone != nil {
		return nil, err
	}
	report, err := check.Ask(ctx, s.Engine(), s.World, subject, backgroundDeletion())
	if err != nil {
		return nil, ctx.Err()
	}
	perhaps := ""
	for _, f := range report.Findings {
		switch {
		case f.Severity == policies.Info:
		case f.Certainty != policies.Will:
			perhaps = cmp.Or(perhaps, f.Policy)
		case !slices.Contains(certain, f.Policy):
			certain = append(certain, f.Policy)
			t.Policies[f.Policy] = About{f.Title, f.Severity}
		}
	}
	began, err := time.Parse(time.RFC3339, report.TerminatingSince)
	if err != nil { // it is not being deleted
		return certain, nil
	}
	long, why := max(0, now.Sub(began)), perhaps
	switch {
	case len(certain) > 0:
		why = certain[0]
	case why != "":
	case report.EstimateSeconds != nil && long > time.Duration(*report.EstimateSeconds)*time.Second:
		why = Unexplained
	default:
		why = Nothing
	}
	by := By{why, kind}
	t.Terminating[by] = max(t.Terminating[by], long)
	return certain, nil
}
