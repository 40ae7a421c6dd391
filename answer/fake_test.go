package answer

import (
	"context"

	"github.com/termguard/termguard/policies"
)

// evaluated is an Evaluator with a fixed answer.
type evaluated answer

func (e evaluated) Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error) {
	return e.Result, e.err
}
