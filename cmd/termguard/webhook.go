package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/termguard/termguard/certs"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// serving are the flags of the webhook command.
type serving struct {
	target             clusterFlags
	settings           settingsFlags
	listen, health     string
	certificate, key   string
	certs              certs.Options
	deadline, drain    time.Duration
	showNames, profile bool
	logLevel           slog.Level
	log                *slog.Logger
	registry           *prometheus.Registry
	set                *policies.Set
	config             webhook.Config
	cluster            *rest.Config
	world              *cluster.World
	live               *cluster.Live
	synced             atomic.Bool
	source             *certs.Source
	stopEvents         func()
	recorder           webhook.Events
	learner            *cluster.Learner
	grader             *webhook.Grader
}

func newWebhook() *cobra.Command {
	s := &serving{}
	c := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhook",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s.log = slog.New(slog.NewJSONHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: s.logLevel}))
			return s.run(c.Context())
		},
	}
	flags := c.Flags()
	s.target.add(flags)
	s.target.addDial(flags, true)
	s.settings.addConfig(flags)
	s.settings.addPolicies(flags)
	flags.StringVar(&s.listen, "listen", ":9443", "`HOST:PORT` for the API server")
	flags.StringVar(&s.health, "health-listen", ":8081", "`HOST:PORT` for /healthz, /readyz and /metrics, without TLS")
	flags.StringVar(&s.certificate, "tls-cert-file", "", "serve this certificate, which others renew, instead of one by an authority of termguard's own")
	flags.StringVar(&s.key, "tls-key-file", "", "the key of --tls-cert-file")
	flags.StringVar(&s.certs.Namespace, "namespace", "termguard-system", "namespace that termguard runs in")
	flags.StringVar(&s.certs.Service, "service", "termguard", "Service that the API server calls")
	flags.StringVar(&s.certs.Secret, "ca-secret", "termguard-ca", "Secret that keeps the authority")
	flags.StringVar(&s.certs.Configuration, "webhook-configuration", "termguard", "ValidatingWebhookConfiguration whose caBundle is kept current")
	flags.DurationVar(&s.deadline, "deadline", 300*time.Millisecond, "limit of one review; what takes longer is allowed")
	flags.DurationVar(&s.drain, "drain", 5*time.Second, "how long reviews are still answered after readiness turned off")
	flags.BoolVar(&s.showNames, "show-object-names", false, "show names of other objects in the namespace of a request to whoever makes it")
	flags.BoolVar(&s.profile, "pprof", false, "serve /debug/pprof/ on the health port")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	c.MarkFlagsRequiredTogether("tls-cert-file", "tls-key-file")
	return c
}

// run serves until ctx ends, and then drains.
func (s *serving) run(ctx context.Context) error {
	klog.SetSlogLogger(s.log)
	handler, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	// What reviews need outlives ctx: the server drains after its end.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.live.Run(background) })
	running.Go(func() { s.source.Run(background) })
	running.Go(func() { s.awaitFacts(background) })
	running.Go(func() { s.learner.Run(background) })
	running.Go(func() { s.grader.Run(background) })
	defer func() {
		stop()
		s.stopEvents()
		running.Wait()
	}()
	server := webhook.Server{
		Handler:        handler,
		GetCertificate: s.source.GetCertificate,
		Listen:         s.listen,
		HealthListen:   s.health,
		Metrics:        s.registry,
		Profile:        s.profile,
		Drain:          s.drain,
		Log:            s.log,
		Ready: []webhook.Check{
			{Name: "policies", Check: func() error { return nil }}, // or it would not have started
			{Name: "facts", Check: s.factsReady},
			{Name: "certificate", Check: s.source.Ready},
		},
	}
	return server.Run(ctx)
}

// prepare does what can fail for good.
func (s *serving) prepare(ctx context.Context) (*webhook.Handler, error) {
	var err error
	if s.set, err = s.settings.load(); err != nil {
		return nil, err
	}
	if s.config, err = s.settings.read(s.set); err != nil {
		return nil, err
	}
	engine, err := policies.NewEngine(ctx, s.set, policies.EngineOptions{
		Params:   s.config.Params,
		Off:      s.config.Enforcement.Off(idsOf(s.set)),
		Deadline: s.deadline * 2 / 3,
	})
	if err != nil {
		return nil, err
	}
	options, err := s.config.FactsOptions()
	if err != nil {
		return nil, err
	}
	if s.cluster, err = s.target.config(); err != nil {
		return nil, err
	}
	s.world = cluster.NewWorld(s.target.look(options))
	if s.live, err = cluster.NewLive(s.cluster, s.world, s.log); err != nil {
		return nil, err
	}
	if err := s.prepareCertificate(); err != nil {
		return nil, err
	}
	if err := s.prepareEvents(); err != nil {
		return nil, err
	}
	s.registry = prometheus.NewRegistry()
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.prepareLessons(); err != nil {
		return nil, err
	}
	return webhook.NewHandler(webhook.Options{
		Evaluator:       engine,
		Facts:           s.world,
		Synced:          s.synced.Load,
		Enforcement:     s.config.Enforcement,
		Deadline:        s.deadline,
		ShowObjectNames: s.showNames,
		Recorder:        s.recorder,
		Learner:         s.learner,
		Grader:          s.grader,
		Wrong:           s.learner.Wrong,
		Registry:        s.registry,
		Log:             s.log,
	}), nil
}

// prepareLessons is for what is learned from requests and from what follows.
func (s *serving) prepareLessons() error {
	core, err := typedcorev1.NewForConfig(s.cluster)
	if err != nil {
		return fmt.Errorf("connect for what is learned: %w", err)
	}
	objects, err := metadata.NewForConfig(s.cluster)
	if err != nil {
		return fmt.Errorf("connect for what becomes of deletions: %w", err)
	}
	s.learner = cluster.NewLearner(s.world, core, s.certs.Namespace, s.log)
	s.grader = webhook.NewGrader(objects, s.registry, func(policy string) {
		s.learner.Alarm(policy)
		s.recorder.PolicyWrong(s.certs.Namespace, policy)
	}, s.log)
	return nil
}

func (s *serving) prepareCertificate() (err error) {
	if s.certificate != "" {
		s.source = certs.Files(s.certificate, s.key, s.log)
		return nil
	}
	s.certs.Log = s.log
	s.source, err = certs.Embedded(s.cluster, s.certs)
	return err
}

func (s *serving) prepareEvents() error {
	client, err := kubernetes.NewForConfig(s.cluster)
	if err != nil {
		return fmt.Errorf("connect for events: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	s.stopEvents = broadcaster.Shutdown
	s.recorder = webhook.Events{Recorder: broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: "termguard"})}
	return nil
}

// awaitFacts waits for the facts to be complete for the first time. Whatever is
// lost later is unseen, which the facts say themselves.
func (s *serving) awaitFacts(ctx context.Context) {
	if err := s.live.WaitForSync(ctx); err != nil {
		return // ctx has ended
	}
	s.synced.Store(true)
	s.log.Info("the facts are complete")
}

func (s *serving) factsReady() error {
	if !s.synced.Load() {
		return errors.New("still reading the cluster")
	}
	return nil
}
