package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
)

// maxPagesElsewhere bounds how many pages of a kind are read for the sake of what is in
// other namespaces.
const maxPagesElsewhere = 40

var errTooMany = fmt.Errorf("there are more than %d: those in other namespaces are not read", maxPagesElsewhere*pageSize)

// Collect reads a cluster once: the facts as Live would keep them, without
// watching. Of resources that only count by their metadata it reads those in
// one namespace; all where namespace is "", or where something in it may have work in
// others, as an operator has. What may not be read in all namespaces it reads in this one.
// What cannot be read is unseen; an error means that the cluster could not be asked at all.
func Collect(ctx context.Context, config *rest.Config, options Options, namespace string, log *slog.Logger) (*World, error) {
	world := NewWorld(options)
	world.refusals.AskForObjects(namespace)
	world.within = namespace
	l, err := NewLive(config, world, log)
	if err != nil {
		return nil, err
	}
	wanted, lost, err := l.serves(ctx)
	if err != nil {
		return nil, err
	}
	for group, err := range lost {
		world.SetUnseen(unknownResources(group), facts.UnseenDiscovery, err.Error())
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for what was learned: %w", err)
	}
	var listing sync.WaitGroup
	listing.Go(func() { world.Recall(ctx, core, HomeNamespace, log) })
	listing.Go(func() { world.readProbes(ctx, core, log) })
	listing.Go(func() {
		if err := world.readLeases(ctx, l.leases); err != nil {
			log.Debug("leases are no evidence of who is up", "error", err)
		}
	})
	var done atomic.Int32
	for name, want := range wanted {
		l.feeds[name] = &feed{Resource: want.Resource, others: want.others}
	}
	read := func(f *feed, within string) {
		f.source = l.source(f.Resource, within)
		if f.Namespaced && within != namespace {
			f.most = maxPagesElsewhere
		}
		listing.Go(func() {
			leave, err := l.place(ctx, f)
			if err != nil {
				return
			}
			defer leave()
			defer func() { world.options.Progress(int(done.Add(1)), len(l.feeds)) }()
			world.Begin(f.Resource)
			_, err = l.pages(ctx, f)
			if err != nil && (apierrors.IsForbidden(err) || errors.Is(err, errTooMany)) && f.Namespaced && within != namespace {
				elsewhere := err
				f.source, f.most = l.source(f.Resource, namespace), 0
				world.Begin(f.Resource)
				if _, err = l.pages(ctx, f); err == nil {
					world.End(f.Resource)
					world.SetUnseen(f.Resource, facts.UnseenElsewhere, elsewhere.Error())
					return
				}
			}
			if refusals.ConversionFails(err) {
				world.SetListError(f.Resource, err.Error())
				for _, other := range f.others {
					world.Begin(f.Resource)
					f.source = l.source(other, namespace)
					if _, otherErr := l.pages(ctx, f); otherErr == nil {
						err = nil
						break
					}
				}
			}
			if err != nil {
				l.unseen(f, err)
				return
			}
			world.End(f.Resource)
		})
	}
	for _, f := range l.feeds {
		if whole, _ := world.reads(f.Resource); whole {
			read(f, metav1.NamespaceAll)
		}
	}
	listing.Wait()
	// What runs in the namespace shows by now, and what it may do.
	within := namespace
	if world.Settle(); namespace != "" && world.worksElsewhere(namespace) {
		within = metav1.NamespaceAll
	}
	world.setWithin(within)
	for _, f := range l.feeds {
		if whole, _ := world.reads(f.Resource); !whole {
			read(f, within)
		}
	}
	listing.Wait()
	for _, res := range world.unconvertedResources() { // a page at a time is read past the API server's cache, which controllers ask
		if err := readable(ctx, l.source(res, metav1.NamespaceAll)); refusals.ConversionFails(err) {
			world.SetListError(res, err.Error())
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if options.Dial != nil {
		world.tryCertificates(ctx, options.Dial)
	}
	world.Settle()
	for range readRounds {
		if !l.readForPolicies(ctx) {
			break
		}
		world.Settle()
	}
	return world, ctx.Err()
}
