package answer

import (
	"context"
	"io"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/page"
)

// alone is the answer about one object, and its item.
type alone struct {
	*Item
	all *Answer
}

// ask evaluates the deletion of one object.
func ask(ctx context.Context, engine Evaluator, world *cluster.World, s Subject, options map[string]any) (alone, error) {
	a, err := Ask(ctx, engine, world, Question{Targets: []Subject{s}, Options: options})
	if err != nil {
		return alone{Item: &Item{}}, err
	}
	return alone{&a.Items[0], &a}, nil
}

// Text writes the page, plain.
func (a Answer) Text(w io.Writer) error { return a.Page(false).Write(w, page.Style{}) }

// Why returns the first line without the next step.
func (r Item) Why() string { return string(r.Verdict) + r.Because() }
