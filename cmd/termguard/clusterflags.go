package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
)

// clusterFlags name a cluster as kubectl's flags do, or a snapshot of one.
type clusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	timeout    time.Duration // of one request
	dial       bool
	snapshot   string
	archive    *snapshots.Archive // instead of a cluster
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: KUBECONFIG, ~/.kube/config, or the pod's own service account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")       // kubectl's
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // commands have their own
	names.Timeout = clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // as kubectl
	names.ClusterOverrideFlags.DisableCompression = clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.ProxyURL = clientcmd.FlagInfo{} // from the kubeconfig, or HTTPS_PROXY
	clientcmd.BindOverrideFlags(&f.overrides, flags, names)
}

func (f *clusterFlags) addWithTimeout(flags *pflag.FlagSet, timeout time.Duration) {
	f.add(flags)
	flags.DurationVar(&f.timeout, "request-timeout", timeout, "limit of one request to the cluster")
}

// addDial adds a flag because outside of the cluster the address of a Service may belong to something else.
func (f *clusterFlags) addDial(flags *pflag.FlagSet, inside bool) {
	flags.BoolVar(&f.dial, "dial-webhooks", inside, "connect to the Services of webhooks that fail closed, and verify their certificates; only if ClusterIPs can be reached, as in a pod")
}

func (f *clusterFlags) addSnapshot(c *cobra.Command, others ...string) {
	c.Flags().StringVar(&f.snapshot, "snapshot", "", "read this `PATH` instead of a cluster: a file of termguard snapshot, or objects in a file, archive or folder (kubectl get -o yaml or json, must-gather, support bundle, kubectl cluster-info dump)")
	for _, other := range append(others, "context", "kubeconfig") {
		c.MarkFlagsMutuallyExclusive("snapshot", other)
	}
}

func sharedFlags(c *cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	new(clusterFlags).addWithTimeout(flags, 30*time.Second)
	flags.AddFlagSet(c.Root().PersistentFlags())
	return flags
}

// newOptions lists the flags that --help leaves out, as kubectl options does.
func newOptions() *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "Show the flags that commands share", Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "Commands that read a cluster take these flags, as kubectl does:\n\n%s", sharedFlags(c).FlagUsages())
			return err
		},
	}
}

func hideShared(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		sharedFlags(c).VisitAll(func(f *pflag.Flag) {
			if of := c.Flags().Lookup(f.Name); of != nil {
				of.Hidden = true
			}
			f.Hidden = true
		})
		help(c, args)
		fmt.Fprintf(c.OutOrStdout(), "\nUse \"%s options\" for the flags that commands share (cluster, user).\n", root.CommandPath())
	})
}

func (f *clusterFlags) open(stderr io.Writer) (err error) {
	if f.snapshot == "" {
		return nil
	}
	if f.archive, err = snapshots.Open(f.snapshot); err == nil && f.archive.Redacted {
		fmt.Fprintf(stderr, "termguard: %s is redacted: it lacks texts, ConfigMaps and certificates that policies read\n", f.snapshot)
	}
	return err
}

func (f *clusterFlags) close() {
	if f.archive != nil {
		_ = f.archive.Close()
	}
}

func (f *clusterFlags) facts(options cluster.Options) cluster.Options {
	if f.archive != nil {
		return f.archive.Options(options)
	}
	if f.dial {
		options.Try = cluster.Dialing(new(net.Dialer).DialContext)
	}
	return options
}

func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
}

func (f *clusterFlags) namespaceOf(flag string) (string, error) {
	switch {
	case flag != "":
		return flag, nil
	case f.archive != nil:
		return metav1.NamespaceDefault, nil
	}
	namespace, _, err := f.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace of the context: %w", err)
	}
	return namespace, nil
}

func (f *clusterFlags) config() (*rest.Config, error) {
	if f.archive != nil {
		return live.Over(f.archive), nil
	}
	config, err := f.loader().ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		for _, file := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
			if _, err := os.Stat(file); err != nil && f.kubeconfig == "" {
				return nil, fmt.Errorf("no cluster is configured, since KUBECONFIG names a file that does not exist (%w): correct it, or set --kubeconfig", err)
			}
		}
		return nil, errors.New("no cluster is configured: set KUBECONFIG or --kubeconfig")
	case err != nil:
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.UserAgent, config.Timeout = "termguard/"+versionOf(), f.timeout
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil
}
