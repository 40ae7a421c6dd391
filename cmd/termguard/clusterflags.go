package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/snapshots"
)

// clusterFlags name the cluster as kubectl's flags do, and bound what is read of it.
type clusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	dial       bool
	archive    *snapshots.Archive // read instead of a cluster; nil for none
}

// open reads a snapshot instead of a cluster, until it is closed.
func (f *clusterFlags) open(path string, stderr io.Writer) (err error) {
	if f.archive, err = snapshots.Open(path); err == nil && f.archive.Redacted {
		fmt.Fprintf(stderr, "termguard: %s is redacted: what policies read of texts, ConfigMaps and certificates is missing\n", path)
	}
	return err
}

// close ends what open began.
func (f *clusterFlags) close() {
	if f.archive != nil {
		_ = f.archive.Close()
	}
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: KUBECONFIG, ~/.kube/config, or the pod's own service account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")       // those of kubectl
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // commands have their own
	names.Timeout = clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // as kubectl
	names.ClusterOverrideFlags.DisableCompression = clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.ProxyURL = clientcmd.FlagInfo{} // of the kubeconfig, or HTTPS_PROXY
	clientcmd.BindOverrideFlags(&f.overrides, flags, names)
}

// addDial adds the flag that tries the certificates of webhooks. Outside of the cluster the address of a
// Service may belong to something else.
func (f *clusterFlags) addDial(flags *pflag.FlagSet, inside bool) {
	flags.BoolVar(&f.dial, "dial-webhooks", inside, "shake hands with the Services of webhooks that fail closed, to see whether their certificates fit; only where ClusterIPs can be reached, as in a pod")
}

// look completes the options of facts.
func (f *clusterFlags) look(options cluster.Options) cluster.Options {
	if f.archive != nil {
		return f.archive.Options(options)
	}
	if f.dial {
		options.Dial = new(net.Dialer).DialContext
	}
	return options
}

func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
}

// namespace returns the namespace of the context, "default" without one.
func (f *clusterFlags) namespace() (string, error) {
	if f.archive != nil {
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
		return f.archive.Config(), nil
	}
	config, err := f.loader().ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		for _, file := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
			if _, err := os.Stat(file); err != nil && f.kubeconfig == "" {
				return nil, fmt.Errorf("no cluster is configured, since KUBECONFIG names a file that is not there (%w): correct it, or set --kubeconfig", err)
			}
		}
		return nil, fmt.Errorf("no cluster is configured: set KUBECONFIG or --kubeconfig")
	case err != nil:
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.UserAgent = "termguard/" + versionOf()
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil
}

// context returns the name of the context, "" without one.
func (f *clusterFlags) context() (string, error) {
	if f.overrides.CurrentContext != "" {
		return f.overrides.CurrentContext, nil
	}
	raw, err := f.loader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("find the context: %w", err)
	}
	return raw.CurrentContext, nil
}
