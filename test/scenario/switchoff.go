package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Each is built once; "" is without none.
var without = func() func(off string) (*policies.Engine, error) {
	set := sync.OnceValues(func() (*policies.Set, error) { return policies.Load(policies.Embedded()) })
	var made sync.Map // of func() (*policies.Engine, error), by the policy that is off
	return func(off string) (*policies.Engine, error) {
		engine, _ := made.LoadOrStore(off, sync.OnceValues(func() (*policies.Engine, error) {
			set, err := set()
			if err != nil {
				return nil, err
			}
			options := policies.EngineOptions{Deadline: time.Minute, Lazy: true} // the machine is busy with scenarios
			if off != "" {
				options.Off = map[string]bool{off: true}
			}
			return policies.NewEngine(context.Background(), set, options)
		}))
		return engine.(func() (*policies.Engine, error))()
	}
}()

// switchOff evaluates the request over its snapshot: with all policies the answer equals the webhook's, and
// becomes wrong with one off if, and only if, the scenario names that policy. Policies that are not evaluated
// cannot matter.
func switchOff(ctx context.Context, s Scenario, input map[string]any, world *cluster.World) ([]string, error) {
	trigger := policies.Delete
	if s.Edit != nil {
		trigger = policies.FinalizerEdit
	}
	all, err := without("")
	if err != nil {
		return nil, err
	}
	off := []string{""}
	for _, p := range all.Relevant(trigger, input, world) {
		off = append(off, p.ID)
	}
	var wrong []string
	for _, named := range s.Policies {
		if !slices.Contains(off, named) {
			wrong = append(wrong, "policy "+named+", which it names, is not asked")
		}
	}
	for _, off := range off {
		engine, err := without(off)
		if err != nil {
			return nil, err
		}
		result, err := engine.Evaluate(ctx, trigger, input, world)
		if err != nil {
			return nil, err
		}
		o := Outcome{Scenario: s, Predicted: string(result.Verdict()), Real: s.Reality}
		for _, f := range result.Findings {
			o.Warnings = append(o.Warnings, f.Message)
		}
		o.judge()
		switch red := len(o.Wrong) > 0; {
		case off == "" && red:
			var unseen any
			world.View(func(doc map[string]any) { unseen = doc["unseen"] })
			wrong = append(wrong, fmt.Sprintf("over a snapshot the answer is not that of the webhook: %s, %q; unseen there: %v", o.Predicted, o.Warnings, unseen))
		case off != "" && red && !slices.Contains(s.Policies, off):
			wrong = append(wrong, "it goes wrong with policy "+off+" off, which it does not name")
		case off != "" && !red && slices.Contains(s.Policies, off):
			wrong = append(wrong, "it does not go wrong with policy "+off+" off")
		}
	}
	slices.Sort(wrong)
	return wrong, nil
}

func (g *Guarded) question(ctx context.Context, s Scenario) (map[string]any, *cluster.World, error) {
	options := map[string]any{}
	if s.Delete != "" {
		var err error
		if _, options, err = s.named(); err != nil {
			return nil, nil, err
		}
	}
	var obj, after *unstructured.Unstructured
	var err error
	if s.Edit != nil {
		obj, after, err = g.edited(ctx, s.Edit)
	} else {
		obj, err = g.object(ctx, s.target()...)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the target: %w", err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	if named := schema.ParseGroupResource(s.target()[0]); named.Group != "" {
		gvr.Resource = named.Resource // no guess makes gateways of Gateway
	}
	world, err := g.world(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	target := question.Target{
		Kind: obj.GroupVersionKind(), Resource: gvr, Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: obj.Object,
		User: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}},
	}
	if s.Asks == "check" { // which reads more
		log := slog.New(slog.DiscardHandler)
		if gvr.GroupResource() == question.Namespaces {
			err = live.ReadConditions(ctx, g.Config(), world, obj.GetName(), log)
		} else {
			err = live.ReadWarningsOf(ctx, g.Config(), world, gvr.GroupResource(), obj, log)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	request := target.Delete(options)
	switch {
	case after != nil && s.Edit.finalize():
		request = target.Finalize(after.Object)
	case after != nil:
		request = target.Edit(after.Object)
	case s.Evict != "":
		request = target.Evict(options)
	}
	var input map[string]any
	world.Ask(request, func(m cluster.Moment) { input = m.Input() })
	return input, world, nil
}

// Scenarios share a world unless they add to it.
func (g *Guarded) world(ctx context.Context, s Scenario) (*cluster.World, error) {
	read := func() (*cluster.World, error) {
		archive, err := g.archive(ctx, s)
		if err != nil {
			return nil, err
		}
		defer archive.Close()
		return archive.World(context.WithoutCancel(ctx), cluster.Options{})
	}
	if s.Asks == "check" || s.Stored {
		return read()
	}
	return g.worlds.next(read)
}

func (g *Guarded) archive(ctx context.Context, s Scenario) (*snapshots.Archive, error) {
	snapshot, err := g.Snapshot(context.WithoutCancel(ctx), s)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(g.Dir(), "snapshot-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(snapshot); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return snapshots.Open(file.Name())
}
