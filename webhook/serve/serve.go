// Package serve assembles the webhook command: policies, facts, certificate and server.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/certs"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// Options are the operator's settings.
type Options struct {
	// Config sets the enforcement and the options of the facts.
	Config config.Config
	// Folders are folders or OPA bundles with additional policies; bundles must be signed with Key. They are
	// reread when they change, like ConfigMaps with PolicyLabel in Certs.Namespace.
	Folders []string
	Key     *policies.Key
	// ReadConfig rereads the configuration and checks it against the policy ids when ConfigFile changes.
	// ConfigFile may be missing at first, or "" for none.
	ReadConfig func(ids []string) (config.Config, error)
	ConfigFile string
	// Cluster is the cluster to connect to, and Facts the options for reading it.
	Cluster *rest.Config
	Facts   cluster.Options
	// CertificateFile and KeyFile are an externally renewed serving certificate. Without them termguard has
	// its own authority, configured by Certs. Certs.Namespace is also where termguard stores learned facts.
	CertificateFile, KeyFile string
	Certs                    certs.Options
	// ClientCAFile and ClientNames restrict who may send reviews, as in certs.NewClients. Without a file
	// anyone may.
	ClientCAFile string
	ClientNames  []string
	// Deadline bounds one review.
	Deadline time.Duration
	// ShowObjectNames is as in webhook.Options.
	ShowObjectNames bool
	// Listen, HealthListen, Drain and Profile are as in webhook.Server.
	Listen, HealthListen string
	Drain                time.Duration
	Profile              bool
	// Version is this replica's version in the status.
	Version string
	// Log must not be nil.
	Log *slog.Logger
}

// Run serves until ctx ends, and then drains. It returns an error only for problems that waiting cannot fix.
func Run(ctx context.Context, options Options) error {
	var verify func(tls.ConnectionState) error
	if options.ClientCAFile != "" {
		clients, err := certs.NewClients(options.ClientCAFile, options.ClientNames, options.Log)
		if err != nil {
			return err
		}
		verify = clients.VerifyConnection
	}
	s, err := prepare(ctx, options)
	if err != nil {
		return err
	}
	defer s.broadcaster.Shutdown()
	// The parts outlive ctx, because the server drains after its end.
	partsCtx, stop := context.WithCancel(background.With(context.WithoutCancel(ctx), s.reportPanic))
	var wait sync.WaitGroup
	defer func() {
		stop()
		wait.Wait()
	}()
	for part, run := range map[string]func(context.Context){
		"facts": s.live.Run, "rules": s.rules.run, "policies": s.rules.informer.RunWithContext, "certificate": s.source.Run, "readiness": s.awaitFacts, "learning": s.learner.Run, "grading": s.grader.Run,
	} {
		wait.Go(func() { background.Keep(partsCtx, part, run) })
	}
	server := webhook.Server{
		GetCertificate:   s.source.GetCertificate,
		VerifyConnection: verify,
		Listen:           options.Listen,
		HealthListen:     options.HealthListen,
		Metrics:          s.registry,
		Profile:          options.Profile,
		Drain:            options.Drain,
		Log:              options.Log,
		Alive:            s.world.Reached,
		Ready: []webhook.Check{
			{Name: "policies", Check: func() error { return nil }, Note: s.rules.rejectionNotes}, // never fails: without policies it would not have started
			{Name: "facts", Check: s.factsReady},
			{Name: "certificate", Check: s.source.Ready},
		},
	}
	server.Register(webhook.Path, s.handler)
	return server.Start(ctx)
}

type parts struct {
	registry    *prometheus.Registry
	world       *cluster.World
	live        *live.Cluster
	synced      atomic.Bool
	source      *certs.Source
	broadcaster record.EventBroadcaster
	learner     *cluster.Learner
	rules       *rules
	grader      *webhook.Grader
	handler     *webhook.Handler
	panics      *prometheus.CounterVec
	log         *slog.Logger
}

// reportPanic counts and logs the panic of a part, which then restarts.
func (s *parts) reportPanic(part string, panicked any, stack []byte) {
	s.panics.WithLabelValues(part).Inc()
	s.log.Error("a part failed and starts again", "part", part, "panic", panicked, "stack", string(stack))
}

// prepare does everything that can fail permanently.
func prepare(ctx context.Context, options Options) (*parts, error) {
	s := &parts{registry: prometheus.NewRegistry(), log: options.Log}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.panics = promauto.With(s.registry).NewCounterVec(prometheus.CounterOpts{
		Name: "termguard_panics_total",
		Help: "Parts beside reviews that failed inside and were started again.",
	}, []string{"part"})
	options.Facts.Home = options.Certs.Namespace
	world := cluster.NewWorld(options.Facts)
	s.world = world
	var err error
	if s.live, err = live.New(options.Cluster, world, s.log); err != nil {
		return nil, err
	}
	if s.source, err = certificate(options); err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(options.Cluster)
	if err != nil {
		return nil, fmt.Errorf("connect for events and what is learned: %w", err)
	}
	objects, err := metadata.NewForConfig(options.Cluster)
	if err != nil {
		return nil, fmt.Errorf("connect for what becomes of deletions: %w", err)
	}
	s.broadcaster = record.NewBroadcasterWithCorrelatorOptions(webhook.EventLimits())
	s.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")})
	recorder := s.broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: "termguard"})
	s.rules = newRules(options, core, recorder, s.registry)
	engine, err := s.rules.start(ctx, core)
	if err != nil {
		return nil, err
	}
	namespace := options.Certs.Namespace
	s.learner = cluster.NewLearner(world, core.CoreV1(), namespace, s.log)
	s.grader = webhook.NewGrader(objects, world, s.registry, s.log)
	trust := options.Config.Trust()
	replica, _ := os.Hostname() // "" if it fails
	s.handler = webhook.NewHandler(webhook.Options{
		Trust:           &trust,
		Facts:           world,
		Synced:          s.synced.Load,
		Deadline:        options.Deadline,
		ShowObjectNames: options.ShowObjectNames,
		Authentic:       options.ClientCAFile != "",
		Recorder:        webhook.Events{Recorder: recorder},
		Learner:         s.learner,
		Grader:          s.grader,
		Home:            namespace,
		Status: func() webhook.Status {
			status := *s.rules.status.Load()
			status.Version, status.Replica = options.Version, replica
			if err := s.factsReady(); err != nil {
				status.Facts = err.Error()
			}
			if pair, err := s.source.GetCertificate(nil); err == nil && pair.Leaf != nil {
				status.CertificateUntil = pair.Leaf.NotAfter
			}
			status.Unseen = unseenFacts(world)
			return status
		},
		Registry: s.registry,
		Log:      s.log,
	})
	s.handler.Use(s.rules.webhookRules(engine))
	s.rules.use = s.handler.Use
	return s, nil
}

// unseenFacts names the resources that the facts could not read, and why.
func unseenFacts(world *cluster.World) (names []string) {
	world.Read(func(f cluster.Facts) {
		for _, hidden := range f.Unseen() {
			names = append(names, fmt.Sprintf("%s (%s)", hidden.Resource, hidden.Reason))
		}
	})
	return names
}

func certificate(options Options) (*certs.Source, error) {
	if options.CertificateFile != "" {
		return certs.Files(options.CertificateFile, options.KeyFile, options.Log), nil
	}
	certOptions := options.Certs
	certOptions.Log = options.Log
	return certs.Embedded(options.Cluster, certOptions)
}

// awaitFacts waits until the facts are complete for the first time. The facts report later losses themselves.
func (s *parts) awaitFacts(ctx context.Context) {
	if err := s.live.WaitForSync(ctx); err != nil {
		return // ctx has ended
	}
	s.synced.Store(true)
	s.log.Info("the facts are complete")
}

func (s *parts) factsReady() error {
	if !s.synced.Load() {
		return errors.New("still reading the cluster")
	}
	return nil
}
