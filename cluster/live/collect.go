package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
)

// maxPagesElsewhere bounds the pages of a kind read for other namespaces.
const maxPagesElsewhere = 40

const (
	// askedAtOnce bounds concurrent requests by name, askedWithin each.
	askedAtOnce = 8
	askedWithin = 10 * time.Second
)

// ReasonLacks is the reason of a snapshot's answer that lacks the requested objects.
const ReasonLacks metav1.StatusReason = "SnapshotLacks"

var errPartial = errors.New("the snapshot may lack some of them")

var errTooMany = fmt.Errorf("there are more than %d: those in other namespaces are not read", maxPagesElsewhere*pageSize)

// Collect reads a cluster once. Resources that matter only by metadata are read in one namespace, or in all if
// it is "" or a workload in it may work in others; resources that are forbidden in all, in this one. An error
// means that discovery failed, or that ctx ended: then it comes with the facts so far.
func Collect(ctx context.Context, config *rest.Config, options cluster.Options, discovered *Discovered, namespace string, log *slog.Logger) (*cluster.World, error) {
	world := cluster.NewWorld(options)
	world.AskForObjects(namespace)
	world.SetWithin(namespace)
	c, err := New(config, world, log)
	if err != nil {
		return nil, err
	}
	c.discovered = discovered
	feeds, lost, err := c.serves(ctx)
	if err != nil {
		return nil, err
	}
	for group, err := range lost {
		world.SetUnseen(unknownResources(group), facts.UnseenDiscovery, err.Error())
	}
	var listing sync.WaitGroup
	listing.Go(func() { world.Recall(ctx, c.kube.CoreV1(), cluster.HomeNamespace, log) })
	listing.Go(func() { c.readProbes(ctx) })
	listing.Go(func() {
		err := readLeases(ctx, c.kube.CoordinationV1(), world)
		if apierrors.IsForbidden(err) {
			world.SetUnseen(cluster.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespaced: true}, facts.UnseenElsewhere, err.Error())
		} else if err != nil {
			log.Debug("leases are unseen, and prove no owner alive", "error", err)
		}
	})
	var done atomic.Int32
	for name, want := range feeds {
		c.feeds[name] = &feed{Resource: want.Resource, others: want.others}
	}
	read := func(f *feed, within string) {
		f.lister = c.lister(f.Resource, within)
		if f.Namespaced && within != namespace {
			f.most = maxPagesElsewhere
		}
		listing.Go(func() {
			leave, err := c.place(ctx, f)
			if err != nil {
				return
			}
			defer leave()
			defer func() { c.options.Progress(int(done.Add(1)), len(c.feeds)) }()
			world.Begin(f.Resource)
			_, err = c.pages(ctx, f)
			if err != nil && (apierrors.IsForbidden(err) || errors.Is(err, errTooMany)) && f.Namespaced && within != namespace {
				elsewhere := err
				f.lister, f.most = c.lister(f.Resource, namespace), 0
				world.Begin(f.Resource)
				if _, err = c.pages(ctx, f); err == nil {
					world.End(f.Resource)
					c.setSynced(f)
					world.SetUnseen(f.Resource, facts.UnseenElsewhere, elsewhere.Error())
					return
				}
			}
			if refusals.ConversionFails(err) {
				world.SetListError(f.Resource, err.Error())
				for _, other := range f.others {
					world.Begin(f.Resource)
					f.lister = c.lister(other, namespace)
					if _, otherErr := c.pages(ctx, f); otherErr == nil {
						err = nil
						break
					}
				}
			}
			switch {
			case err == nil:
				world.End(f.Resource)
				c.setSynced(f)
			case errors.Is(err, errPartial):
				world.End(f.Resource)
				c.setSynced(f)
				world.SetUnseen(f.Resource, facts.UnseenSnapshot, err.Error())
			case ctx.Err() == nil:
				c.unseen(f, err)
			}
		})
	}
	for _, f := range c.feeds {
		if _, everywhere, _ := world.Role(f.Resource); everywhere {
			read(f, metav1.NamespaceAll)
		}
	}
	listing.Wait()
	// By now the workloads and their rights are known.
	within := namespace
	if world.Settle(); namespace != "" && world.WorksElsewhere(namespace) {
		within = metav1.NamespaceAll
	}
	world.SetWithin(within)
	for _, f := range c.feeds {
		if _, everywhere, _ := world.Role(f.Resource); !everywhere {
			read(f, within)
		}
	}
	listing.Wait()
	if ctx.Err() != nil {
		for _, f := range c.feeds {
			if !f.synced {
				world.SetUnseen(f.Resource, facts.UnseenSyncing, "it was not listed yet when the reading was interrupted")
			}
		}
		world.Settle()
		return world, ctx.Err()
	}
	for _, res := range world.Unconverted() { // pages are read past the API server's cache, which controllers use
		if err := readable(ctx, c.lister(res, metav1.NamespaceAll)); refusals.ConversionFails(err) {
			world.SetListError(res, err.Error())
		}
	}
	if options.Try != nil {
		world.TryCertificates(ctx, options.Try, nil)
	}
	world.Settle()
	c.readNeeded(ctx, namespace)
	for range cluster.ReadRounds {
		if !c.readForPolicies(ctx) {
			break
		}
		world.Settle()
	}
	return world, ctx.Err()
}

// readNeeded reads objects that a namespace needs from others. They may need more.
func (c *Cluster) readNeeded(ctx context.Context, namespace string) {
	for range cluster.ReadRounds {
		needs := c.world.Needs(namespace)
		if len(needs) == 0 || ctx.Err() != nil {
			return
		}
		answers := make([]error, len(needs))
		var asking errgroup.Group
		asking.SetLimit(askedAtOnce)
		for i, w := range needs {
			asking.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, askedWithin)
				defer cancel()
				list, err := c.lister(w.Resource, w.Namespace).ListWithContext(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.Name, Limit: 1})
				if err == nil {
					err = meta.EachListItem(list, func(obj runtime.Object) error { return c.world.Apply(w.Resource, obj, true) })
				}
				answers[i] = err
				return nil
			})
		}
		_ = asking.Wait() // each keeps its error
		c.world.Answered(needs, answers)
		c.world.Settle()
	}
}
