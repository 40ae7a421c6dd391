package policytest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/termguard/termguard/policies"
)

// unique are the kinds of which a copy under another name would not be another of the same.
var unique = []string{"APIService", "Cluster", "CustomResourceDefinition", "Namespace"}

// grown is the fixture with each object that may stand beside others of its kind there so
// many times, under names of their own.
func (f Fixture) grown(times int) Fixture {
	own := f.documents
	f.documents = slices.Clone(own)
	for n := 2; n <= times; n++ {
		for _, d := range own {
			if slices.Contains(unique, d.object.GetKind()) {
				continue
			}
			other := d.object.DeepCopy()
			other.SetName(fmt.Sprintf("%s-%d", d.object.GetName(), n))
			other.SetUID("")
			f.documents = append(f.documents, document{d.node, other})
		}
	}
	return f
}

// Steps counts the steps of an evaluation, and ends it when there are more than Most. It
// counts what OPA does, not how long it takes, so that the answer is the same everywhere.
type Steps struct {
	Most int

	done int
	end  context.CancelFunc
}

// Enabled is for topdown.QueryTracer.
func (*Steps) Enabled() bool { return true }

// Config is for topdown.QueryTracer.
func (*Steps) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent is for topdown.QueryTracer.
func (s *Steps) TraceEvent(topdown.Event) {
	if s.done++; s.done > s.Most && s.end != nil {
		s.end()
	}
}

// Costs says what is slow about the fixture, "" for nothing: the engine, whose Tracer is
// steps, is asked about it as it is, and with its objects times times over.
func (f Fixture) Costs(ctx context.Context, engine *policies.Engine, steps *Steps, times int) (string, error) {
	for _, n := range []int{1, times} {
		prepared, err := f.grown(n).Prepare()
		if err != nil {
			return "", err
		}
		limited, end := context.WithCancel(ctx)
		steps.done, steps.end = 0, end
		result, err := prepared.Evaluate(limited, engine)
		end()
		size := "as it is"
		if n > 1 {
			size = fmt.Sprintf("with its objects %d times over", n)
		}
		switch {
		case steps.done > steps.Most:
			return fmt.Sprintf("%s, %s, takes more than %d steps", f.File, size, steps.Most), nil
		case err != nil:
			return "", err
		case len(result.Errors) > 0 && strings.Contains(result.Errors[0].Error(), "took longer"):
			return fmt.Sprintf("%s, %s, runs out of time", f.File, size), nil
		}
	}
	return "", nil
}
