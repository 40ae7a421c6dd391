package answer

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// evaluated is an Evaluator with a fixed answer.
type evaluated answer

func (e evaluated) Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error) {
	return e.Result, e.err
}

func sessionOf(t *testing.T, config *rest.Config) Session {
	t.Helper()
	return Session{Config: config, Engine: newEngine(t), Log: slog.New(slog.DiscardHandler)}
}

// fromCluster reads an object and its facts.
func fromCluster(t *testing.T, config *rest.Config, facts cluster.Options, name Name) (Subject, *cluster.World, error) {
	t.Helper()
	q := Question{Names: []Name{name}}
	world, err := Session{Config: config, Facts: facts, Log: slog.New(slog.DiscardHandler)}.Find(t.Context(), &q)
	switch {
	case err != nil:
		return Subject{}, nil, err
	case len(q.Missing) > 0:
		return Subject{}, nil, q.Missing[0]
	}
	return q.Targets[0], world, nil
}
