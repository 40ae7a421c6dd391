package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Collect reads a cluster once: the facts as Live would keep them, without
// watching. Of resources that only count by their metadata it reads those in
// one namespace; all where namespace is "". What cannot be read is unseen; an
// error means that the cluster could not be asked at all.
func Collect(ctx context.Context, config *rest.Config, options Options, namespace string, log *slog.Logger) (*World, error) {
	world := NewWorld(options)
	l, err := NewLive(config, world, log)
	if err != nil {
		return nil, err
	}
	wanted, lost, err := l.serves()
	if err != nil {
		return nil, err
	}
	for group, err := range lost {
		world.SetUnseen(unknownResources(group), UnseenDiscovery, err.Error())
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for what was learned: %w", err)
	}
	var listing sync.WaitGroup
	listing.Go(func() { world.Recall(ctx, core, HomeNamespace, log) })
	listing.Go(func() {
		if err := world.readLeases(ctx, l.leases); err != nil {
			log.Debug("leases are no evidence of who is up", "error", err)
		}
	})
	for name, want := range wanted {
		f := &feed{Resource: want.Resource, source: l.source(want.Resource, namespace)}
		l.feeds[name] = f
	}
	for _, f := range l.feeds {
		listing.Go(func() {
			l.lists <- struct{}{}
			defer func() { <-l.lists }()
			world.Begin(f.Resource)
			if _, err := l.pages(ctx, f); err != nil {
				l.unseen(f, err)
				return
			}
			world.End(f.Resource)
		})
	}
	listing.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	world.Settle()
	return world, nil
}
