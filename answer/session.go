package answer

import (
	"context"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Session is what the questions of one command share.
type Session struct {
	Config *rest.Config
	// Snapshot says that Config reads a snapshot, which answers no dry run.
	Snapshot bool
	Engine   Evaluator
	Facts    cluster.Options
	// Options are DeleteOptions.
	Options map[string]any
	Log     *slog.Logger
}

// Find reads the named objects as Targets and Missing, and their facts: none if all are missing.
func (s Session) Find(ctx context.Context, q *Question) (*cluster.World, error) {
	types := q.Types
	if types == nil {
		served, err := Served(ctx, s.Config)
		if err != nil {
			return nil, err
		}
		types = &served
	}
	user, err := Whoami(ctx, s.Config)
	if err != nil {
		s.Log.Debug("the user who would delete is unknown", "error", err)
	}
	if q.Targets, q.Missing, err = types.Subjects(ctx, s.Config, user, q.Names); err != nil || len(q.Targets) == 0 {
		return nil, err
	}
	namespace := home(q.Targets[0].ID()) // whose content counts; "" for all
	if slices.ContainsFunc(q.Targets, func(t Subject) bool { return home(t.ID()) != namespace }) {
		namespace = ""
	}
	from := namespace
	if s.Facts.Everywhere {
		from = ""
	}
	world, err := types.Collect(ctx, s.Config, s.Facts, from, s.Log)
	if err != nil {
		return nil, err
	}
	for i, t := range q.Targets {
		lacks := world.Unread(namespace)
		if t.Type.GroupResource() == question.Definitions {
			lacks = append(lacks, world.UnreadOf(t.Name)...)
		}
		for _, unread := range lacks {
			q.Targets[i].Unseen = append(q.Targets[i].Unseen, policies.Unseen(unread))
		}
		switch {
		case t.Type.GroupResource() == question.Namespaces:
			err = live.ReadConditions(ctx, s.Config, world, t.Name, s.Log)
		case t.guarded():
			err = live.ReadWarningsOf(ctx, s.Config, world, t.Type.GroupResource(), &unstructured.Unstructured{Object: t.Object}, s.Log)
		}
		if err != nil {
			return nil, err
		}
	}
	return world, nil
}

// Judge answers by the facts, and for a deletion also by what only the cluster shows: certificates of webhooks,
// dry runs and volumes.
func (s Session) Judge(ctx context.Context, world *cluster.World, q Question) (Answer, error) {
	deletes := q.As != AsDrain && q.As != AsEvict
	var notes []string
	if deletes && world != nil {
		unseen, err := s.Certificates(ctx, world, q.Targets)
		if err != nil {
			return Answer{}, err
		}
		notes = asNotes(unseen)
	}
	a, err := Ask(ctx, s.Engine, world, q)
	if err != nil {
		return a, err
	}
	if deletes {
		if err := a.hear(ctx, s, world, q); err != nil {
			return a, err
		}
		if len(q.Targets) == 1 && len(a.Items) == 1 {
			if err := a.Items[0].compare(ctx, s.Config, q.Targets[0]); err != nil {
				return a, err
			}
		}
		client, err := Client(s.Config)
		if err != nil {
			return a, err
		}
		notes = append(notes, volumes(ctx, client, q.Targets)...)
	}
	a.Notes = append(a.Notes, notes...)
	return a, a.Foresee(ctx, s.Engine, world)
}
