// Package serve assembles the webhook command.
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

type Options struct {
	Config config.Config
	// Folders are folders or OPA bundles, signed with Key if set. They are reread on change, like ConfigMaps
	// with PolicyLabel in Certs.Namespace.
	Folders []string
	Key     *policies.Key
	// ReadConfig rereads ConfigFile on change, for these policies. The file may be missing at first, or ""
	// for none.
	ReadConfig func(ids []string) (config.Config, error)
	ConfigFile string
	Cluster    *rest.Config
	Facts      cluster.Options
	// CertificateFile and KeyFile are renewed by another program. Without them termguard has its own
	// authority, by Certs. Learned facts are in Certs.Namespace, too.
	CertificateFile, KeyFile string
	Certs                    certs.Options
	// ClientCAFile and ClientNames are as in certs.NewClientVerifier. Without a file anyone may send reviews.
	ClientCAFile string
	ClientNames  []string
	// Deadline and ShowObjectNames are as in webhook.Options.
	Deadline        time.Duration
	ShowObjectNames bool
	// Listen, HealthListen, Drain and Profile are as in webhook.Server.
	Listen, HealthListen string
	Drain                time.Duration
	Profile              bool
	// Version is shown in the status.
	Version string
	// Log must not be nil.
	Log *slog.Logger
}

// Run serves until ctx ends, and drains. An error is one that waiting cannot fix.
func Run(ctx context.Context, options Options) error {
	log, namespace := options.Log, options.Certs.Namespace
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	panics := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "termguard_panics_total",
		Help: "Background parts that panicked and were restarted.",
	}, []string{"part"})
	var verify func(tls.ConnectionState) error
	if options.ClientCAFile != "" {
		clients, err := certs.NewClientVerifier(options.ClientCAFile, options.ClientNames, log)
		if err != nil {
			return err
		}
		verify = clients.VerifyConnection
	}
	options.Facts.Home = namespace
	world := cluster.NewWorld(options.Facts)
	facts, err := live.New(options.Cluster, world, log)
	if err != nil {
		return err
	}
	certificate, err := certificateSource(options)
	if err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(options.Cluster)
	if err != nil {
		return fmt.Errorf("connect for Events and learned owners: %w", err)
	}
	objects, err := metadata.NewForConfig(options.Cluster)
	if err != nil {
		return fmt.Errorf("connect to follow deletions: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(webhook.EventLimits())
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: "termguard"})
	rules := newRules(options, core, recorder, registry)
	engine, err := rules.start(ctx, core)
	if err != nil {
		return err
	}
	learner := cluster.NewLearner(world, core.CoreV1(), namespace, log)
	grader := webhook.NewGrader(objects, world, registry, log)
	trust := options.Config.Trust()
	replica, _ := os.Hostname() // "" if it fails
	var synced atomic.Bool
	factsReady := func() error {
		if !synced.Load() {
			return errors.New("still reading the cluster")
		}
		return nil
	}
	handler := webhook.NewHandler(webhook.Options{
		Trust:           &trust,
		Facts:           world,
		Synced:          synced.Load,
		Deadline:        options.Deadline,
		ShowObjectNames: options.ShowObjectNames,
		Authentic:       options.ClientCAFile != "",
		Recorder:        recorder,
		Learner:         learner,
		Grader:          grader,
		Home:            namespace,
		Status: func() webhook.Status {
			status := *rules.status.Load()
			status.Version, status.Replica = options.Version, replica
			if err := factsReady(); err != nil {
				status.Facts = err.Error()
			}
			if pair, err := certificate.GetCertificate(nil); err == nil && pair.Leaf != nil {
				status.CertificateUntil = pair.Leaf.NotAfter
			}
			world.Read(func(f cluster.Facts) {
				for _, hidden := range f.Unseen() {
					status.Unseen = append(status.Unseen, fmt.Sprintf("%s (%s)", hidden.Resource, hidden.Reason))
				}
			})
			return status
		},
		Registry: registry,
		Log:      log,
	})
	rules.use = handler.Use
	handler.Use(rules.webhookRules(engine))

	// They outlive ctx: the server drains after its end.
	partsCtx, stop := context.WithCancel(background.With(context.WithoutCancel(ctx), func(part string, panicked any, stack []byte) {
		panics.WithLabelValues(part).Inc()
		log.Error("a part failed and starts again", "part", part, "panic", panicked, "stack", string(stack))
	}))
	var wait sync.WaitGroup
	defer func() {
		stop()
		wait.Wait()
	}()
	for part, run := range map[string]func(context.Context){
		"facts": facts.Run, "rules": rules.run, "policies": rules.informer.RunWithContext, "certificate": certificate.Run, "learning": learner.Run, "grading": grader.Run,
		"readiness": func(ctx context.Context) {
			if facts.WaitForSync(ctx) == nil { // else ctx has ended; the facts report later losses themselves
				synced.Store(true)
				log.Info("the facts are complete")
			}
		},
	} {
		wait.Go(func() { background.Keep(partsCtx, part, run) })
	}
	server := webhook.Server{
		Handler:          handler,
		GetCertificate:   certificate.GetCertificate,
		VerifyConnection: verify,
		Listen:           options.Listen,
		HealthListen:     options.HealthListen,
		Metrics:          registry,
		Profile:          options.Profile,
		Drain:            options.Drain,
		Log:              log,
		Alive:            world.Reached,
		Ready: []webhook.Check{
			{Name: "policies", Check: func() error { return nil }, Note: rules.rejectionNotes}, // without policies it would not have started
			{Name: "facts", Check: factsReady},
			{Name: "certificate", Check: certificate.Ready},
		},
	}
	return server.Start(ctx)
}

func certificateSource(options Options) (*certs.Source, error) {
	if options.CertificateFile != "" {
		return certs.FromFiles(options.CertificateFile, options.KeyFile, options.Log), nil
	}
	options.Certs.Log = options.Log
	return certs.FromAuthority(options.Cluster, options.Certs)
}
