package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook/serve"
)

func newWebhook() *cobra.Command {
	var (
		o        serve.Options
		target   clusterFlags
		settings = settingsFlags{optional: true}
		logLevel slog.Level

		key, algorithm string // of the signatures of bundles
	)
	c := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhook",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o.Log = slog.New(slog.NewJSONHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: logLevel}))
			klog.SetSlogLogger(o.Log)
			if len(o.ClientNames) > 0 && o.ClientCAFile == "" {
				return errors.New("--client-cn needs --client-ca-file, the authority whose names count")
			}
			// It may name policies in a folder, a bundle or a ConfigMap.
			if o.Config, err = settings.read(policies.EmbeddedIDs()); err != nil && !config.OnlyUnknownPolicies(err) {
				return err
			}
			o.Folders, o.ConfigFile, o.ReadConfig = settings.policies, settings.config, settings.read
			if key != "" {
				if o.Key, err = policies.ReadKey(key, algorithm); err != nil {
					return err
				}
			}
			facts, err := o.Config.FactsOptions()
			if err != nil {
				return err
			}
			o.Facts = target.facts(facts)
			if o.Cluster, err = target.config(); err != nil {
				return err
			}
			o.Version = versionOf()
			return serve.Run(c.Context(), o)
		},
	}
	flags := c.Flags()
	target.add(flags)
	target.addDial(flags, true)
	flags.StringVar(&settings.config, "config", "", "configuration `FILE`, kind Config, reloaded when it changes; the defaults are in force while its folder has no such file (default: none)")
	flags.StringArrayVar(&settings.policies, "policies", nil, "`FOLDER` with more policies than in the binary, each in a folder of its own, or the file of an OPA bundle (may be repeated)")
	flags.StringVar(&key, "verification-key", "", "`FILE` with the public key, or the secret, of the signatures of bundles (default: they must not be signed)")
	flags.StringVar(&algorithm, "signing-alg", "RS256", "algorithm of the signatures, as opa sign names it")
	flags.StringVar(&o.Listen, "listen", ":9443", "`HOST:PORT` for the API server")
	flags.StringVar(&o.HealthListen, "health-listen", ":8081", "`HOST:PORT` for /healthz, /readyz and /metrics, without TLS")
	flags.StringVar(&o.CertificateFile, "tls-cert-file", "", "serving certificate that another program renews, instead of one by termguard's own authority")
	flags.StringVar(&o.KeyFile, "tls-key-file", "", "the key of --tls-cert-file")
	flags.StringVar(&o.ClientCAFile, "client-ca-file", "", "answer only clients with a certificate by this authority, reloaded when it changes (default: any client); see docs/security.md")
	flags.StringArrayVar(&o.ClientNames, "client-cn", nil, "common `NAME` of the API server's certificate by --client-ca-file (may be repeated; default: any)")
	flags.StringVar(&o.Certs.Namespace, "namespace", "termguard-system", "namespace that termguard runs in")
	completions(c, &target)
	flags.StringVar(&o.Certs.Service, "service", "termguard", "Service that the API server calls")
	flags.StringVar(&o.Certs.Secret, "ca-secret", "termguard-ca", "Secret that keeps the authority")
	flags.StringVar(&o.Certs.Configuration, "webhook-configuration", "termguard", "ValidatingWebhookConfiguration whose caBundle is kept current")
	flags.DurationVar(&o.Certs.CADuration, "ca-duration", 365*24*time.Hour, "how long the authority is valid; it is renewed after two thirds of it")
	flags.DurationVar(&o.Certs.LeafDuration, "leaf-duration", 7*24*time.Hour, "how long a certificate by the authority is valid; it is renewed after two thirds of it")
	flags.DurationVar(&o.Deadline, "deadline", 300*time.Millisecond, "limit of one review; a slower one is allowed unchecked")
	flags.DurationVar(&o.Drain, "drain", 5*time.Second, "how long to answer reviews after readiness turned off")
	flags.BoolVar(&o.ShowObjectNames, "show-object-names", false, "show users the names of other objects in the namespace of their request")
	flags.BoolVar(&o.Profile, "pprof", false, "serve /debug/pprof/ on the health port")
	flags.TextVar(&logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	c.MarkFlagsRequiredTogether("tls-cert-file", "tls-key-file")
	return c
}
