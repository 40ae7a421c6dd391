package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/references"
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
// What cannot be read is unseen; an error means that the cluster could not be asked at all,
// or that ctx ended: then it comes with the facts that were read by then, of which the rest
// is unseen.
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
		err := world.readLeases(ctx, l.leases)
		if apierrors.IsForbidden(err) {
			world.SetUnseen(Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespaced: true}, facts.UnseenElsewhere, err.Error())
		} else if err != nil {
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
					l.setSynced(f)
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
			switch {
			case err == nil:
				world.End(f.Resource)
				l.setSynced(f)
			case ctx.Err() == nil:
				l.unseen(f, err)
			}
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
	if ctx.Err() != nil {
		for _, f := range l.feeds {
			if !f.synced {
				world.SetUnseen(f.Resource, facts.UnseenSyncing, "it was not listed yet when the reading was interrupted")
			}
		}
		world.Settle()
		return world, ctx.Err()
	}
	for _, res := range world.unconvertedResources() { // a page at a time is read past the API server's cache, which controllers ask
		if err := readable(ctx, l.source(res, metav1.NamespaceAll)); refusals.ConversionFails(err) {
			world.SetListError(res, err.Error())
		}
	}
	if options.Dial != nil {
		world.tryCertificates(ctx, options.Dial)
	}
	world.Settle()
	l.readNeeded(ctx, namespace)
	for range readRounds {
		if !l.readForPolicies(ctx) {
			break
		}
		world.Settle()
	}
	return world, ctx.Err()
}

// maxAsked bounds the things in other namespaces that are asked for by their names: who
// writes objects may name any number.
const maxAsked = 64

// readNeeded asks for what objects of a namespace need in others, of the kinds that were
// read in that one alone. What was found may need more.
func (l *Live) readNeeded(ctx context.Context, namespace string) {
	for range readRounds {
		wanted := l.world.toAsk(namespace)
		if len(wanted) == 0 || ctx.Err() != nil {
			return
		}
		answers := make([]error, len(wanted))
		var asking errgroup.Group
		asking.SetLimit(conditionsAtOnce)
		for i, w := range wanted {
			asking.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, conditionsWithin)
				defer cancel()
				list, err := l.source(w.Resource, w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.Name, Limit: 1})
				if err == nil {
					err = meta.EachListItem(list, func(obj runtime.Object) error { return l.world.Apply(w.Resource, obj, true) })
				}
				answers[i] = err
				return nil
			})
		}
		_ = asking.Wait() // each keeps what became of it
		l.world.answered(wanted, answers)
		l.world.Settle()
	}
}

// askedFor is a thing that objects of a namespace need in another.
type askedFor struct {
	Resource
	types.NamespacedName
}

// toAsk are those that nobody asked for yet.
func (w *World) toAsk(namespace string) (found []askedFor) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.Unknown(namespace) {
		_, asked := w.asked[thing]
		if r := w.inventory.resources[thing.Resource]; !asked && r != nil && r.named && thing.Namespace != "" && len(w.asked)+len(found) < maxAsked {
			found = append(found, askedFor{r.Resource, thing.NamespacedName})
		}
	}
	return found
}

func (w *World) answered(wanted []askedFor, answers []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == nil {
		w.asked = map[references.Thing]error{}
	}
	for i, a := range wanted {
		w.asked[references.Thing{Resource: a.Resource.String(), NamespacedName: a.NamespacedName}] = answers[i]
	}
	w.references.Resight()
}

// Unread are the things that objects of a namespace need, of which it is not known whether
// they are there.
func (w *World) Unread(namespace string) (unread []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.Unknown(namespace) {
		reason, hidden := w.sight.Hidden(thing.Resource)
		switch err := w.asked[thing]; {
		case err != nil:
			unread = append(unread, fmt.Sprintf("%s %s: %s", thing.Resource, thing.NamespacedName, facts.Shorten(err.Error(), facts.MaxText)))
		case thing.Namespace != namespace && len(w.asked) >= maxAsked:
			unread = append(unread, fmt.Sprintf("%s %s: more than %d things in other namespaces are needed", thing.Resource, thing.NamespacedName, maxAsked))
		case hidden && reason != facts.UnseenElsewhere:
			unread = append(unread, thing.Resource+": "+reason)
		}
	}
	return slices.Compact(unread)
}

// UnreadOf are the kinds of which the objects of one kind need some, and which cannot be seen.
func (w *World) UnreadOf(resource string) (unread []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, thing := range w.references.UnknownOf(resource) {
		if reason, hidden := w.sight.Hidden(thing.Resource); hidden {
			unread = append(unread, thing.Resource+": "+reason)
		}
	}
	return slices.Compact(unread)
}
