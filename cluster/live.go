package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

const (
	// discoveryInterval is how often the served groups are read when nothing
	// hints at a change; kube-aggregator itself looks every 60 s
	// (kube-aggregator, pkg/apiserver/handler_discovery.go).
	discoveryInterval = 30 * time.Second
	// discoveryPause is kept between two discoveries however often something
	// hints at a change, and discoveryLag after the last hint comes one more:
	// the discovery document may follow a CustomResourceDefinition late.
	discoveryPause = 500 * time.Millisecond
	discoveryLag   = 3 * time.Second
	// dialPause is kept between two looks at which backends to dial.
	dialPause = time.Second
	// rewatchPause is kept between two watches of one resource.
	rewatchPause = 100 * time.Millisecond
	// pollInterval is how often a resource without the verb watch is listed.
	pollInterval = 60 * time.Second
	// againInterval is how often it is tried whether objects can be converted again.
	againInterval = 5 * time.Second
	// initialLists bounds how many resources are listed at the same time, and
	// groupLists how many of one API group: a group that hangs takes no more.
	initialLists, groupLists = 10, 3
	// firstSilence is how long a listing may go without an answer before the
	// resource counts as unseen, and laterSilence how long when it is tried again,
	// in the background. The API server itself gives up after 60 s
	// (apiserver, pkg/server/config.go, RequestTimeout).
	firstSilence, laterSilence = 10 * time.Second, 70 * time.Second
	// longestListing bounds a listing of which something comes now and then, and
	// longPlace how long it keeps others waiting.
	longestListing, longPlace = 5 * time.Minute, 30 * time.Second
	// pageSize bounds how many objects one page of a list holds.
	pageSize = 500
	// maxEventPages bounds how many pages of events are read.
	maxEventPages = 20
)

// eventSelector leaves out, at the API server, what every pod that comes up
// tells (pkg/kubelet/events/event.go), and controllers that do their work.
var eventSelector = func() string {
	var not []fields.Selector
	for _, reason := range []string{
		"Pulled", "Pulling", "Created", "Started", "BackOff", "Unhealthy", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
		"Scheduled", "FailedScheduling", "SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet", "SuccessfulRescale", "Completed", "SawCompletedJob", "LeaderElection",
	} {
		not = append(not, fields.OneTermNotEqualSelector("reason", reason))
	}
	return fields.AndSelectors(not...).String()
}()

// unwatched resources are left out of the inventory, by decision: their objects
// come and go by the thousand and practically never carry finalizers. See
// docs/limits.md. Of events, see there, some are read as evidence.
var unwatched = sets.New("events.events.k8s.io", "leases.coordination.k8s.io")

// Live keeps a World up to date with a cluster.
type Live struct {
	world     *World
	discovery discovery.DiscoveryInterfaceWithContext
	metadata  metadata.Interface
	dynamic   dynamic.Interface
	leases    typedcoordinationv1.LeasesGetter
	core      typedcorev1.CoreV1Interface
	rest      map[schema.GroupVersion]rest.Interface
	log       *slog.Logger

	lists places        // for the initial lists under way
	slow  places        // for those of resources that did not answer the first time
	kick  chan struct{} // asks for discovery

	mu     sync.Mutex
	feeds  map[string]*feed  // by "plural.group"
	listed bool              // discovery has answered
	lost   map[string]error  // groups that could not be read
	groups map[string]places // for the initial lists of one API group
}

// places bound how much is done at the same time.
type places chan struct{}

// take waits for a place.
func (p places) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) leave() { <-p }

// feed keeps one resource up to date.
type feed struct {
	Resource
	verbs  sets.Set[string]
	source source
	// others read the same objects in versions that deletions do not ask for.
	others []Resource
	role   int  // what it is read for; see World.reads
	astray bool // source is one of those
	silent bool // it did not answer the last time; read by the feed alone
	most   int  // pages of a listing, 0 for all
	cancel context.CancelFunc
	synced bool
}

// NewLive returns a Live that reads the cluster behind config into world, once
// it is run.
func NewLive(config *rest.Config, world *World, log *slog.Logger) (*Live, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200 // the API server's priority and fairness is the limit that counts
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return impatient{rt} })
	dc, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for discovery: %w", err)
	}
	mc, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for metadata: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for objects: %w", err)
	}
	leases, err := typedcoordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for leases: %w", err)
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for the reports of node probes: %w", err)
	}
	l := &Live{
		world: world, discovery: dc, metadata: mc, dynamic: dyn, leases: leases, core: core, log: log,
		rest:   map[schema.GroupVersion]rest.Interface{},
		lists:  make(places, initialLists),
		slow:   make(places, initialLists),
		kick:   make(chan struct{}, 1),
		feeds:  map[string]*feed{},
		groups: map[string]places{},
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, res := range typed {
		gv := res.GroupVersion()
		c := rest.CopyConfig(config)
		c.GroupVersion, c.NegotiatedSerializer, c.APIPath = &gv, codecs, "/apis"
		c.ContentType = runtime.ContentTypeProtobuf
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		if l.rest[gv], err = rest.RESTClientFor(c); err != nil {
			return nil, fmt.Errorf("connect for %s: %w", gv, err)
		}
	}
	for _, res := range typed {
		world.SetUnseen(res, facts.UnseenSyncing, "not listed yet")
	}
	return l, nil
}

// Run keeps the facts up to date until ctx ends.
func (l *Live) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	every := func(part string, interval time.Duration, do func(context.Context)) {
		running.Go(func() {
			background.Keep(ctx, part, func(ctx context.Context) { wait.UntilWithContext(ctx, do, interval) })
		})
	}
	running.Go(func() { background.Keep(ctx, "settling", l.world.keepSettled) })
	every("leases", ownership.LeaseInterval, func(ctx context.Context) {
		if err := l.world.readLeases(ctx, l.leases); err != nil && ctx.Err() == nil {
			l.log.Debug("leases are no evidence of who is up", "error", err)
		}
	})
	running.Go(func() {
		background.Keep(ctx, "reports of node probes", func(ctx context.Context) { l.world.followProbes(ctx, l.core.RESTClient(), l.log) })
	})
	every("parameters of admission policies", readInterval, func(ctx context.Context) { l.readForPolicies(ctx) })
	if dial := l.world.options.Dial; dial != nil {
		every("certificates of webhooks", dialPause, func(ctx context.Context) { l.world.tryCertificates(ctx, dial) })
	}
	ticker := time.NewTicker(discoveryInterval)
	defer ticker.Stop()
	retry := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6, Cap: discoveryInterval}
	var again <-chan time.Time
	for {
		if err := background.Try(ctx, "discovery", func() error { return l.discover(ctx, &running) }); err != nil {
			l.log.Warn("discovery failed", "error", err)
			again = time.After(retry.Step())
		}
		background.Pause(ctx, discoveryPause)
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			again = time.After(discoveryLag)
		case <-ticker.C:
		case <-again:
			again = nil
		}
	}
}

// Synced tells whether every resource that can be listed has been.
func (l *Live) Synced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.listed {
		return false
	}
	for _, f := range l.feeds {
		if !f.synced {
			return false
		}
	}
	return true
}

// WaitForSync waits until Synced, and settles the verdicts.
func (l *Live) WaitForSync(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return l.Synced(), nil })
	if err != nil {
		return fmt.Errorf("the facts were not complete in time: %w", err)
	}
	l.world.Settle()
	return nil
}

// rediscover asks for discovery without waiting for it.
func (l *Live) rediscover() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// discover reads what the cluster serves, as the namespace controller does
// before each pass (pkg/controller/namespace/deletion), and starts and stops
// feeds accordingly. A group that cannot be read becomes a fact.
func (l *Live) discover(ctx context.Context, running *sync.WaitGroup) error {
	wanted, lost, err := l.serves(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = true
	for name, f := range l.feeds {
		if _, still := wanted[name]; !still && lost[f.Group] == nil {
			f.cancel()
			delete(l.feeds, name)
			l.world.Drop(f.Resource)
		}
	}
	for name, want := range wanted {
		have := l.feeds[name]
		if have != nil {
			if have.Resource == want.Resource && have.role == want.role {
				have.others = want.others
				continue
			}
			have.cancel() // another version is preferred now, or more is read of it
		}
		f := &feed{Resource: want.Resource, verbs: want.verbs, others: want.others, role: want.role, source: l.source(want.Resource, metav1.NamespaceAll)}
		if have == nil || !have.synced { // in another version, the objects are the same
			l.world.SetUnseen(f.Resource, facts.UnseenSyncing, "not listed yet")
		}
		feedCtx, cancel := context.WithCancel(ctx)
		f.cancel = cancel
		l.feeds[name] = f
		running.Go(func() { background.Keep(feedCtx, "watch", func(ctx context.Context) { l.feed(ctx, f) }) })
	}
	for group := range l.lost {
		if lost[group] == nil {
			l.world.Seen(unknownResources(group)) // it answers again, or is gone
		}
	}
	l.lost = lost
	for group, err := range lost {
		known := false
		for _, f := range l.feeds {
			known = known || f.Group == group
		}
		if !known {
			l.world.SetUnseen(unknownResources(group), facts.UnseenDiscovery, err.Error())
		}
	}
	return nil
}

// Discovered is what an API server says that it serves.
type Discovered struct {
	Groups []*metav1.APIGroup
	Lists  []*metav1.APIResourceList
	Failed map[schema.GroupVersion]error // those that do not answer
}

// Discover asks an API server what it serves. An error is for one that cannot be asked at
// all.
func Discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (Discovered, error) {
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, client)
	found := Discovered{Groups: groups, Lists: lists}
	var failed *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &failed):
		found.Failed = failed.Groups
	case err != nil:
		return Discovered{}, fmt.Errorf("discover what the cluster serves: %w", err)
	}
	return found, nil
}

// serves tells what the cluster serves: the resources to follow, and the groups
// that did not answer.
func (l *Live) serves(ctx context.Context) (wanted map[string]feed, lost map[string]error, err error) {
	found := l.world.options.Discovered
	if found == nil {
		asked, err := Discover(ctx, l.discovery)
		if err != nil {
			return nil, nil, err
		}
		found = &asked
	}
	version, err := l.discovery.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	l.world.SetVersion(version.GitVersion)

	stale, lost := map[string]bool{}, map[string]error{}
	for gv, err := range found.Failed {
		stale[gv.Version+"."+gv.Group] = true
		lost[gv.Group] = err
	}
	var served []string
	preferred := map[string]string{}
	for _, group := range found.Groups {
		preferred[group.Name] = group.PreferredVersion.Version
		served = append(served, group.Name)
	}
	l.world.SetServed(served, stale)
	wanted, older := wantedResources(found.Lists, preferred)
	for _, res := range typed {
		_, served := wanted[res.String()]
		switch versions := older[res.String()]; {
		case served || lost[res.Group] != nil:
		case len(versions) > 0:
			l.world.SetUnseen(res, facts.UnseenDiscovery, fmt.Sprintf("the cluster serves it as %s; termguard reads %s", strings.Join(versions, " and "), res.Version))
		default: // no object of it can exist
			l.world.Seen(res)
		}
	}
	var followed []Resource
	for _, f := range wanted {
		followed = append(followed, f.Resource)
	}
	l.world.follow(followed)
	for name, f := range wanted {
		_, f.role = l.world.reads(f.Resource)
		wanted[name] = f
	}
	return wanted, lost, nil
}

// unknownResources stands for all resources of a group that cannot be read.
func unknownResources(group string) Resource {
	return Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Resource: "*"}, Namespaced: true}
}

// wantedResources picks what to keep: of each group the preferred version, or
// the version that the reducers understand, of everything that can be deleted
// and listed. What the reducers read is in older, with its versions, where the cluster
// serves it in others than theirs alone.
func wantedResources(lists []*metav1.APIResourceList, preferred map[string]string) (wanted map[string]feed, older map[string][]string) {
	wanted, older = map[string]feed{}, map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, api := range list.APIResources {
			res := Resource{GroupVersionResource: gv.WithResource(api.Name), Namespaced: api.Namespaced}
			verbs := sets.New(api.Verbs...)
			name := res.String()
			if strings.Contains(api.Name, "/") || unwatched.Has(name) || !verbs.HasAll("delete", "list") {
				continue
			}
			before, have := wanted[name]
			switch {
			case isTyped(res.GroupResource()):
				if !slices.Contains(typed, res) {
					older[name] = append(older[name], gv.Version)
					rank := func(version string) int { return slices.Index(alike[name], version) }
					if at := rank(gv.Version); at < 0 || have && rank(before.Version) < at {
						continue
					}
				}
			case have && gv.Version != preferred[gv.Group]:
				before.others = append(before.others, res)
				wanted[name] = before
				continue // the preferred version may lack the resource
			case have:
				before.others = append(before.others, before.Resource)
			}
			wanted[name] = feed{Resource: res, verbs: verbs, others: before.others}
		}
	}
	maps.DeleteFunc(older, func(name string, _ []string) bool { _, is := wanted[name]; return is })
	return wanted, older
}

// feed lists and watches one resource for as long as ctx lasts.
func (l *Live) feed(ctx context.Context, f *feed) {
	backoff := newBackoff()
	for ctx.Err() == nil {
		err := background.Try(ctx, "watch", func() error {
			return l.follow(ctx, f, func() { backoff = newBackoff() })
		})
		if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			// The API server's cache stands still: a read past it tells why.
			if why := readable(ctx, f.source); refusals.ConversionFails(why) {
				err = why
			}
		}
		if refusals.ConversionFails(err) {
			err = l.followOther(ctx, f, err)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			l.unseen(f, err)
		}
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			l.rediscover()
		}
		background.Pause(ctx, backoff.Step())
	}
}

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 30 * time.Second}
}

// unseen records why a resource cannot be seen. The wait for it is over: what
// is unseen is part of every answer.
func (l *Live) unseen(f *feed, err error) {
	reason := facts.UnseenError
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		reason = facts.UnseenForbidden
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feeds[f.String()] != f {
		return // dropped meanwhile: it is not unseen, but gone
	}
	l.log.Warn("resource is unseen", "resource", f.String(), "reason", reason, "error", err)
	l.world.SetUnseen(f.Resource, reason, err.Error())
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= 500 || refusals.ConversionFails(err) {
		l.world.SetListError(f.Resource, err.Error())
	}
	f.synced = true
}

func (l *Live) setSynced(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.synced = true
}

// source lists and watches one resource.
type source interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// source reads a resource, in one namespace where it is namespaced and namespace
// is not "".
func (l *Live) source(res Resource, namespace string) source {
	if !res.Namespaced {
		namespace = metav1.NamespaceAll
	}
	if slices.Contains(typed, res) {
		s := typedSource{client: l.rest[res.GroupVersion()], resource: res.Resource, namespace: namespace}
		if res == eventsResource {
			s.selector = eventSelector
		}
		return s
	}
	if whole, _ := l.world.reads(res); whole {
		return dynamicSource{l.dynamic.Resource(res.GroupVersionResource).Namespace(namespace)}
	}
	if res.Namespaced {
		return metadataSource{l.metadata.Resource(res.GroupVersionResource).Namespace(namespace)}
	}
	return metadataSource{l.metadata.Resource(res.GroupVersionResource)}
}

type typedSource struct {
	client    rest.Interface
	resource  string
	namespace string // "" for all
	selector  string // of fields
}

func (s typedSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = s.selector
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Get()
}

func (s typedSource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.FieldSelector = true, s.selector
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

type metadataSource struct{ client metadata.ResourceInterface }

func (s metadataSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.client.List(ctx, options)
}

func (s metadataSource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.client.Watch(ctx, options)
}

// dynamicSource reads whole objects of kinds that the scheme does not know: of
// those only names are kept (cluster/references).
type dynamicSource struct{ client dynamic.ResourceInterface }

func (s dynamicSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.client.List(ctx, options)
}

func (s dynamicSource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.client.Watch(ctx, options)
}

// follow lists a resource and follows it until that fails. Objects are reduced
// one by one as they arrive: a client-go Reflector would hold all of them while
// it lists. healthy is called once the list is complete.
func (l *Live) follow(ctx context.Context, f *feed, healthy func()) error {
	if !f.verbs.Has("watch") {
		return l.poll(ctx, f, healthy)
	}
	ctx, cancel := context.WithCancelCause(ctx) // ends the watch that begins with the list
	defer cancel(nil)
	version, w, err := l.list(ctx, cancel, f)
	if err != nil {
		return err
	}
	healthy()
	for {
		if w == nil {
			if w, err = l.watch(ctx, cancel, f, version); err != nil {
				return err
			}
			l.world.Seen(f.Resource) // an error before this one may have hidden it
		}
		err := l.drain(ctx, f, w, &version, nil)
		w.Stop()
		w = nil
		if err != nil || ctx.Err() != nil {
			return err
		}
		background.Pause(ctx, rewatchPause)
	}
}

// watch begins to watch what was listed. Before Kubernetes 1.31 the API server leaves
// that without an answer as long as it cannot fill its cache for want of a conversion
// (apiserver v0.30, pkg/storage/cacher/ready.go): a read past the cache tells.
func (l *Live) watch(ctx context.Context, cancel context.CancelCauseFunc, f *feed, version string) (watch.Interface, error) {
	waits, answered := context.WithCancel(ctx)
	defer answered()
	source := f.source
	go background.Keep(waits, "watch", func(ctx context.Context) {
		for ctx.Err() == nil {
			background.Pause(ctx, againInterval)
			if !l.world.converts(f.Resource) {
				continue
			}
			if err := readable(ctx, source); refusals.ConversionFails(err) {
				cancel(err)
				return
			}
		}
	})
	w, err := source.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	return w, nil
}

// errSilent is for a resource whose objects cannot be listed for want of an answer.
var errSilent = errors.New("its API accepts requests and does not answer them")

func noAnswer(limit time.Duration) error {
	return fmt.Errorf("%w: nothing came in %s", errSilent, limit)
}

// silence is why ctx ended, if that is for want of an answer.
func silence(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errSilent) {
		return err
	}
	return nil
}

// listing is a list under way.
type listing struct {
	done  bool // all its events have come
	began time.Time
	limit time.Duration
	timer *time.Timer // runs out where nothing comes
}

// progress gives a listing more time: what drips is cut off in the end.
func (l *listing) progress() {
	if time.Since(l.began) < longestListing {
		l.timer.Reset(l.limit)
	}
}

// patience is how long a listing may go without an answer.
func (f *feed) patience() time.Duration {
	if f.silent {
		return laterSilence
	}
	return firstSilence
}

// place waits until a resource may be listed. Those that did not answer before
// take no place from the others.
func (l *Live) place(ctx context.Context, f *feed) (leave func(), err error) {
	l.mu.Lock()
	group := l.groups[f.Group]
	if group == nil {
		group = make(places, groupLists)
		l.groups[f.Group] = group
	}
	l.mu.Unlock()
	all := l.lists
	if f.silent {
		all = l.slow
	}
	if err := group.take(ctx); err != nil {
		return nil, err
	}
	if err := all.take(ctx); err != nil {
		group.leave()
		return nil, err
	}
	once := sync.OnceFunc(func() { all.leave(); group.leave() })
	long := time.AfterFunc(longPlace, once)
	return func() { long.Stop(); once() }, nil
}

// list takes in all objects of a resource: as a stream of events where the API
// server offers that (sendInitialEvents, KEP-3157), else page by page. Where no
// answer comes, it gives up; cancel ends ctx, and with it the watch.
func (l *Live) list(ctx context.Context, cancel context.CancelCauseFunc, f *feed) (version string, w watch.Interface, err error) {
	leave, err := l.place(ctx, f)
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
	l.world.Begin(f.Resource)
	initial := true
	w, err = f.source.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err == nil {
		if err = l.drain(ctx, f, w, &version, under); err == nil && !under.done {
			err = fmt.Errorf("watch of %s ended before its initial events did", f)
		}
		if err != nil {
			w.Stop()
			w = nil
		}
	}
	// Over an etcd that is too old for it, the refusal is the first event (apiserver,
	// pkg/storage/cacher/cacher.go, RequestWatchProgress).
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsInternalError(err) {
		under.timer.Stop() // each page has its own limit
		l.world.Begin(f.Resource)
		version, err = l.pages(ctx, f)
	}
	if err != nil {
		return "", nil, err
	}
	l.listedAll(f)
	return version, w, nil
}

// listedAll closes a listing.
func (l *Live) listedAll(f *feed) {
	l.world.End(f.Resource)
	if !f.astray {
		l.world.SetListError(f.Resource, "")
	}
	l.setSynced(f)
}

// followOther follows a resource that cannot be read for want of a conversion in
// another version, such as the one that it is stored in, until the version that
// deletions ask for can be read again. It returns why that failed at first if no
// other can be read.
func (l *Live) followOther(ctx context.Context, f *feed, failed error) error {
	right := f.source
	defer func() { f.source, f.astray = right, false }()
	l.world.SetListError(f.Resource, failed.Error())
	l.mu.Lock()
	others := f.others
	l.mu.Unlock()
	for _, other := range others {
		f.source, f.astray = l.source(other, metav1.NamespaceAll), true
		listed := false
		otherCtx, cancel := context.WithCancel(ctx)
		go background.Keep(otherCtx, "watch", func(ctx context.Context) {
			for ctx.Err() == nil {
				background.Pause(ctx, againInterval)
				if err := readable(ctx, right); err == nil {
					cancel()
					return
				} else if refusals.ConversionFails(err) {
					l.world.SetListError(f.Resource, err.Error())
				}
			}
		})
		_ = l.follow(otherCtx, f, func() { listed = true })
		cancel()
		if listed || ctx.Err() != nil {
			return nil
		}
	}
	return failed
}

// readable asks whether all objects of a resource can be read, without reading
// any: a list with a selector is answered from the API server's cache alone
// (apiserver, pkg/storage/cacher/delegator.go, shouldDelegateListOnNotReadyCache).
func readable(ctx context.Context, s source) error {
	_, err := s.List(ctx, metav1.ListOptions{LabelSelector: "termguard.dev/none", Limit: 1})
	return err
}

// pages lists a resource page by page.
func (l *Live) pages(ctx context.Context, f *feed) (version string, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for page := 1; ; page++ {
		list, err := f.page(ctx, options)
		if err != nil {
			return "", err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error { return l.world.Apply(f.Resource, obj, true) }); err != nil {
			return "", err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return "", err
		}
		if options.Continue = m.GetContinue(); options.Continue == "" || f.Resource == eventsResource && page == maxEventPages {
			return m.GetResourceVersion(), nil
		}
		if page == f.most {
			return "", errTooMany
		}
	}
}

// page reads one page, unless no answer comes.
func (f *feed) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience(), noAnswer(f.patience()))
	defer cancel()
	list, err := f.source.List(ctx, options)
	if err != nil {
		return nil, cmp.Or(silence(ctx), err)
	}
	return list, nil
}

// poll lists a resource that cannot be watched, again and again.
func (l *Live) poll(ctx context.Context, f *feed, healthy func()) error {
	for ctx.Err() == nil {
		l.world.Begin(f.Resource)
		_, err := l.pages(ctx, f)
		if f.silent = errors.Is(err, errSilent); err != nil {
			return err
		}
		l.listedAll(f)
		healthy()
		background.Pause(ctx, pollInterval)
	}
	return nil
}

// drain takes in events until the watch ends or, with a listing given, the initial
// events do.
func (l *Live) drain(ctx context.Context, f *feed, w watch.Interface, version *string, under *listing) error {
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
			err = l.world.Apply(f.Resource, event.Object, event.Type == watch.Added)
		case watch.Deleted:
			err = l.world.Remove(f.Resource, event.Object)
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
			l.rediscover()
		}
	}
}
