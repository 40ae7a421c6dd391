package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

func (c *Cluster) feed(ctx context.Context, f *feed) {
	backoff := newBackoff()
	for ctx.Err() == nil {
		err := background.Try(ctx, "watch", func() error {
			return c.follow(ctx, f, func() { backoff = newBackoff() })
		})
		if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			// The API server's cache does not progress: a read past it shows why.
			if why := readable(ctx, f.lister); refusals.ConversionFails(why) {
				err = why
			}
		}
		if refusals.ConversionFails(err) {
			err = c.followOther(ctx, f, err)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			c.unseen(f, err)
		}
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			c.rediscover()
		}
		background.Pause(ctx, backoff.Step())
	}
}

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 30 * time.Second}
}

// unseen records why a resource cannot be seen, and ends the wait for it: every answer names the unseen.
func (c *Cluster) unseen(f *feed, err error) {
	reason := facts.UnseenError
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		reason = facts.UnseenForbidden
	}
	if apierrors.ReasonForError(err) == ReasonLacks {
		reason = facts.UnseenSnapshot
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feeds[f.String()] != f {
		return // dropped meanwhile, as no longer served
	}
	c.log.Warn("resource is unseen", "resource", f.String(), "reason", reason, "error", err)
	c.world.SetUnseen(f.Resource, reason, err.Error())
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= 500 || refusals.ConversionFails(err) {
		c.world.SetListError(f.Resource, err.Error())
	}
	f.synced = true
}

func (c *Cluster) setSynced(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.synced = true
}

// follow lists and watches a resource until that fails, and reduces objects as they arrive: a client-go
// Reflector would hold all. healthy is called once the list is complete.
func (c *Cluster) follow(ctx context.Context, f *feed, healthy func()) error {
	if !f.verbs.Has("watch") {
		return c.poll(ctx, f, healthy)
	}
	ctx, cancel := context.WithCancelCause(ctx) // ends the watch that begins with the list
	defer cancel(nil)
	version, w, err := c.list(ctx, cancel, f)
	if err != nil {
		return err
	}
	healthy()
	for {
		if w == nil {
			if w, err = c.watch(ctx, cancel, f, version); err != nil {
				return err
			}
			c.world.Seen(f.Resource) // an earlier error may have hidden it
		}
		err := c.drain(ctx, f, w, &version, nil)
		w.Stop()
		w = nil
		if err != nil || ctx.Err() != nil {
			return err
		}
		background.Pause(ctx, rewatchPause)
	}
}

// watch also reads past the API server's cache: before Kubernetes 1.31 it does not answer while a failed
// conversion keeps that from filling (apiserver v0.30, pkg/storage/cacher/ready.go).
func (c *Cluster) watch(ctx context.Context, cancel context.CancelCauseFunc, f *feed, version string) (watch.Interface, error) {
	waits, answered := context.WithCancel(ctx)
	defer answered()
	lister := f.lister
	go background.Keep(waits, "watch", func(ctx context.Context) {
		for ctx.Err() == nil {
			background.Pause(ctx, againInterval)
			if !c.world.Converts(f.Resource) {
				continue
			}
			if err := readable(ctx, lister); refusals.ConversionFails(err) {
				cancel(err)
				return
			}
		}
	})
	w, err := lister.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	return w, nil
}

var errSilent = errors.New("its API accepts requests and does not answer them")

func noAnswer(limit time.Duration) error {
	return fmt.Errorf("%w: nothing came in %s", errSilent, limit)
}

func silence(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errSilent) {
		return err
	}
	return nil
}

type listing struct {
	done  bool // all its events have come
	began time.Time
	limit time.Duration
	timer *time.Timer // expires if nothing comes
}

func (l *listing) progress() {
	if time.Since(l.began) < longestListing {
		l.timer.Reset(l.limit)
	}
}

func (f *feed) patience() time.Duration {
	if f.silent {
		return laterSilence
	}
	return firstSilence
}

// place waits until a resource may be listed; ones that did not answer have places of their own.
func (c *Cluster) place(ctx context.Context, f *feed) (leave func(), err error) {
	c.mu.Lock()
	group := c.groups[f.Group]
	if group == nil {
		group = semaphore.NewWeighted(groupLists)
		c.groups[f.Group] = group
	}
	c.mu.Unlock()
	all := c.lists
	if f.silent {
		all = c.slow
	}
	if err := group.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := all.Acquire(ctx, 1); err != nil {
		group.Release(1)
		return nil, err
	}
	once := sync.OnceFunc(func() { all.Release(1); group.Release(1) })
	long := time.AfterFunc(longPlace, once)
	return func() { long.Stop(); once() }, nil
}

// list reads all objects as a stream of events if the API server offers that (sendInitialEvents, KEP-3157),
// else page by page. cancel ends ctx, and with it the watch.
func (c *Cluster) list(ctx context.Context, cancel context.CancelCauseFunc, f *feed) (version string, w watch.Interface, err error) {
	leave, err := c.place(ctx, f)
	if err != nil {
		return "", nil, err
	}
	defer leave()
	under := &listing{began: time.Now(), limit: f.patience()}
	under.timer = time.AfterFunc(under.limit, func() { cancel(noAnswer(under.limit)) })
	defer under.timer.Stop()
	defer func() {
		err = cmp.Or(silence(ctx), err)
		f.silent = errors.Is(err, errSilent)
	}()
	c.world.Begin(f.Resource)
	initial := true
	w, err = f.lister.WatchWithContext(ctx, metav1.ListOptions{
		SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err == nil {
		if err = c.drain(ctx, f, w, &version, under); err == nil && !under.done {
			err = fmt.Errorf("watch of %s ended before its initial events did", f)
		}
		if err != nil {
			w.Stop()
			w = nil
		}
	}
	// With an etcd that is too old for it, the refusal is the first event (apiserver,
	// pkg/storage/cacher/cacher.go, RequestWatchProgress).
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsInternalError(err) {
		under.timer.Stop() // each page has its own limit
		c.world.Begin(f.Resource)
		version, err = c.pages(ctx, f)
	}
	if err != nil {
		return "", nil, err
	}
	c.listedAll(f)
	return version, w, nil
}

func (c *Cluster) listedAll(f *feed) {
	c.world.End(f.Resource)
	if !f.astray {
		c.world.SetListError(f.Resource, "")
	}
	c.setSynced(f)
}

// followOther follows an unconvertible resource in another version until the version that deletions request
// can be read again. It returns failed if no other can be read.
func (c *Cluster) followOther(ctx context.Context, f *feed, failed error) error {
	right := f.lister
	defer func() { f.lister, f.astray = right, false }()
	c.world.SetListError(f.Resource, failed.Error())
	c.mu.Lock()
	others := f.others
	c.mu.Unlock()
	for _, other := range others {
		f.lister, f.astray = c.lister(other, metav1.NamespaceAll), true
		listed := false
		otherCtx, cancel := context.WithCancel(ctx)
		go background.Keep(otherCtx, "watch", func(ctx context.Context) {
			for ctx.Err() == nil {
				background.Pause(ctx, againInterval)
				if err := readable(ctx, right); err == nil {
					cancel()
					return
				} else if refusals.ConversionFails(err) {
					c.world.SetListError(f.Resource, err.Error())
				}
			}
		})
		_ = c.follow(otherCtx, f, func() { listed = true })
		cancel()
		if listed || ctx.Err() != nil {
			return nil
		}
	}
	return failed
}

// readable reports whether all objects of a resource can be read, without reading any: a list with a selector
// comes from the API server's cache alone (apiserver, pkg/storage/cacher/delegator.go,
// shouldDelegateListOnNotReadyCache).
func readable(ctx context.Context, s lister) error {
	_, err := s.ListWithContext(ctx, metav1.ListOptions{LabelSelector: "termguard.dev/none", Limit: 1})
	return err
}

func (c *Cluster) pages(ctx context.Context, f *feed) (version string, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for page := 1; ; page++ {
		list, err := f.page(ctx, options)
		if err != nil {
			return "", err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error { return c.world.Apply(f.Resource, obj, true) }); err != nil {
			return "", err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return "", err
		}
		options.Continue = m.GetContinue()
		if more := m.GetRemainingItemCount(); options.Continue == "" && more != nil && *more > 0 {
			return "", errPartial
		}
		if options.Continue == "" || f.String() == events && page == maxEventPages {
			return m.GetResourceVersion(), nil
		}
		if page == f.most {
			return "", errTooMany
		}
	}
}

func (f *feed) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience(), noAnswer(f.patience()))
	defer cancel()
	list, err := f.lister.ListWithContext(ctx, options)
	if err != nil {
		return nil, cmp.Or(silence(ctx), err)
	}
	return list, nil
}

func (c *Cluster) poll(ctx context.Context, f *feed, healthy func()) error {
	for ctx.Err() == nil {
		c.world.Begin(f.Resource)
		_, err := c.pages(ctx, f)
		if f.silent = errors.Is(err, errSilent); err != nil {
			return err
		}
		c.listedAll(f)
		healthy()
		background.Pause(ctx, pollInterval)
	}
	return nil
}

func (c *Cluster) drain(ctx context.Context, f *feed, w watch.Interface, version *string, under *listing) error {
	for {
		var event watch.Event
		var open bool
		select {
		case <-ctx.Done():
			return nil
		case event, open = <-w.ResultChan():
			if !open {
				return nil
			}
		}
		if under != nil {
			under.progress()
		}
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		m, err := meta.Accessor(event.Object)
		if err != nil {
			return fmt.Errorf("watch %s: %w", f, err)
		}
		*version = m.GetResourceVersion()
		switch event.Type {
		case watch.Added, watch.Modified:
			err = c.world.Apply(f.Resource, event.Object, event.Type == watch.Added)
		case watch.Deleted:
			err = c.world.Remove(f.Resource, event.Object)
		case watch.Bookmark:
			if under != nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				under.done = true
				return nil
			}
		}
		if err != nil {
			return err
		}
		if f.Group == "apiextensions.k8s.io" || f.Group == "apiregistration.k8s.io" {
			c.rediscover()
		}
	}
}
