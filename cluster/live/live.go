// Package live keeps a World up to date with an API server by watching, or fills one by reading once.
package live

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/internal/background"
)

const (
	// discoveryInterval is without a hint at a change; kube-aggregator checks every 60 s (kube-aggregator,
	// pkg/apiserver/handler_discovery.go).
	discoveryInterval = 30 * time.Second
	// discoveryPause is the shortest interval, discoveryLag the delay of one more after the last hint: the
	// discovery document may follow a CustomResourceDefinition late.
	discoveryPause = 500 * time.Millisecond
	discoveryLag   = 3 * time.Second
	dialPause      = time.Second
	rewatchPause   = 100 * time.Millisecond
	// pollInterval is for resources without the verb watch.
	pollInterval = 60 * time.Second
	// againInterval is between checks whether objects convert again.
	againInterval = 5 * time.Second
	// initialLists bounds concurrent lists, groupLists an API group's: one that hangs takes no more.
	initialLists, groupLists = 10, 3
	// firstSilence bounds the wait for an answer to a listing, laterSilence in later tries: the API server gives
	// up after 60 s (apiserver, pkg/server/config.go, RequestTimeout).
	firstSilence, laterSilence = 10 * time.Second, 70 * time.Second
	// longestListing bounds a listing with slow progress, longPlace how long it keeps others waiting.
	longestListing, longPlace = 5 * time.Minute, 30 * time.Second
	pageSize                  = 500
	maxEventPages             = 20
)

const events = "events"

// eventSelector excludes Events of every pod that starts (pkg/kubelet/events/event.go), and of controllers'
// normal work.
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

// unwatched resources have thousands of short-lived objects, practically never with finalizers
// (docs/limits.md). Some Events are read as evidence.
var unwatched = sets.New("events.events.k8s.io", "leases.coordination.k8s.io")

type Cluster struct {
	world      *cluster.World
	options    cluster.Options
	discovery  discovery.DiscoveryInterfaceWithContext
	metadata   metadata.Interface
	dynamic    dynamic.Interface
	kube       kubernetes.Interface
	rest       map[schema.GroupVersion]rest.Interface
	log        *slog.Logger
	discovered *Discovered

	lists *semaphore.Weighted // for running initial lists
	slow  *semaphore.Weighted // for resources that did not answer the first time
	kick  chan struct{}       // requests a discovery

	mu     sync.Mutex
	feeds  map[string]*feed               // by "plural.group"
	listed bool                           // discovery has succeeded
	lost   map[string]error               // groups that could not be read
	groups map[string]*semaphore.Weighted // for the initial lists of one API group
}

type feed struct {
	cluster.Resource
	verbs  sets.Set[string]
	lister lister
	// others are versions that deletions do not request.
	others []cluster.Resource
	role   int  // see World.Role
	astray bool // lister is one of others
	silent bool // it did not answer the last time; read by the feed alone
	most   int  // pages of a listing, 0 for all
	cancel context.CancelFunc
	synced bool
}

// Over returns a configuration that reads from a transport, such as a snapshot.
func Over(transport http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "http://snapshot", Transport: transport, QPS: -1}
}

func New(config *rest.Config, world *cluster.World, log *slog.Logger) (*Cluster, error) {
	config = unhurried(config)
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
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for leases and ConfigMaps: %w", err)
	}
	c := &Cluster{
		world: world, options: world.Options(), discovery: dc, metadata: mc, dynamic: dyn, kube: kube, log: log,
		rest:   map[schema.GroupVersion]rest.Interface{},
		lists:  semaphore.NewWeighted(initialLists),
		slow:   semaphore.NewWeighted(initialLists),
		kick:   make(chan struct{}, 1),
		feeds:  map[string]*feed{},
		groups: map[string]*semaphore.Weighted{},
	}
	codecs := serializer.NewCodecFactory(cluster.Scheme()).WithoutConversion()
	for _, res := range cluster.Whole() {
		gv := res.GroupVersion()
		typed := rest.CopyConfig(config)
		typed.GroupVersion, typed.NegotiatedSerializer, typed.APIPath = &gv, codecs, "/apis"
		typed.ContentType = runtime.ContentTypeProtobuf
		typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		if gv.Group == "" {
			typed.APIPath = "/api"
		}
		if c.rest[gv], err = rest.RESTClientFor(typed); err != nil {
			return nil, fmt.Errorf("connect for %s: %w", gv, err)
		}
	}
	for _, res := range cluster.Whole() {
		world.SetUnseen(res, facts.UnseenSyncing, "not listed yet")
	}
	return c, nil
}

// Run keeps the facts up to date until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	every := func(part string, interval time.Duration, do func(context.Context)) {
		running.Go(func() {
			background.Keep(ctx, part, func(ctx context.Context) { wait.UntilWithContext(ctx, do, interval) })
		})
	}
	running.Go(func() { background.Keep(ctx, "settling", c.world.KeepSettled) })
	every("leases", ownership.LeaseInterval, func(ctx context.Context) {
		if err := readLeases(ctx, c.kube.CoordinationV1(), c.world); err != nil && ctx.Err() == nil {
			c.log.Debug("leases are unseen, and prove no owner alive", "error", err)
		}
	})
	running.Go(func() {
		background.Keep(ctx, "reports of node probes", func(ctx context.Context) { c.followProbes(ctx) })
	})
	every("parameters of admission policies", readInterval, func(ctx context.Context) { c.readForPolicies(ctx) })
	if try := c.options.Try; try != nil {
		every("certificates of webhooks", dialPause, func(ctx context.Context) { c.world.TryCertificates(ctx, try, nil) })
	}
	ticker := time.NewTicker(discoveryInterval)
	defer ticker.Stop()
	retry := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6, Cap: discoveryInterval}
	var again <-chan time.Time
	for {
		if err := background.Try(ctx, "discovery", func() error { return c.discover(ctx, &running) }); err != nil {
			c.log.Warn("discovery failed", "error", err)
			again = time.After(retry.Step())
		}
		background.Pause(ctx, discoveryPause)
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
			again = time.After(discoveryLag)
		case <-ticker.C:
		case <-again:
			again = nil
		}
	}
}

// Synced reports whether every listable resource has been listed.
func (c *Cluster) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listed {
		return false
	}
	for _, f := range c.feeds {
		if !f.synced {
			return false
		}
	}
	return true
}

// WaitForSync waits until Synced, and settles the verdicts.
func (c *Cluster) WaitForSync(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return c.Synced(), nil })
	if err != nil {
		return fmt.Errorf("the facts were not complete in time: %w", err)
	}
	c.world.Settle()
	return nil
}

func (c *Cluster) rediscover() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// discover reads the served resources, as the namespace controller does before each pass
// (pkg/controller/namespace/deletion).
func (c *Cluster) discover(ctx context.Context, running *sync.WaitGroup) error {
	feeds, lost, err := c.serves(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = true
	for name, f := range c.feeds {
		if _, still := feeds[name]; !still && lost[f.Group] == nil {
			f.cancel()
			delete(c.feeds, name)
			c.world.Drop(f.Resource)
		}
	}
	for name, want := range feeds {
		have := c.feeds[name]
		if have != nil {
			if have.Resource == want.Resource && have.role == want.role {
				have.others = want.others
				continue
			}
			have.cancel() // the preferred version changed, or more is read of it
		}
		f := &feed{Resource: want.Resource, verbs: want.verbs, others: want.others, role: want.role, lister: c.lister(want.Resource, metav1.NamespaceAll)}
		if have == nil || !have.synced { // in another version, the objects are the same
			c.world.SetUnseen(f.Resource, facts.UnseenSyncing, "not listed yet")
		}
		feedCtx, cancel := context.WithCancel(ctx)
		f.cancel = cancel
		c.feeds[name] = f
		running.Go(func() { background.Keep(feedCtx, "watch", func(ctx context.Context) { c.feed(ctx, f) }) })
	}
	for group := range c.lost {
		if lost[group] == nil {
			c.world.Seen(unknownResources(group)) // it answers again, or no longer exists
		}
	}
	c.lost = lost
	for group, err := range lost {
		ok := false
		for _, f := range c.feeds {
			ok = ok || f.Group == group
		}
		if !ok {
			c.world.SetUnseen(unknownResources(group), facts.UnseenDiscovery, err.Error())
		}
	}
	return nil
}
