// Command cloud-controller-manager is Kubernetes' own, as k8s.io/cloud-provider/sample makes
// it, of the project's fake cloud, which makes and deletes load balancers at once.
package main

import (
	"io"
	"net/netip"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

func main() {
	made, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("make options: %v", err)
	}
	of := &fake.Cloud{Exists: true, ExternalIP: netip.MustParseAddr("203.0.113.1").AsSlice()}
	cloudprovider.RegisterCloudProvider("lab", func(io.Reader) (cloudprovider.Interface, error) { return of, nil })
	initialize := func(*config.CompletedConfig) cloudprovider.Interface { return of }
	os.Exit(cli.Run(app.NewCloudControllerManagerCommand(made, initialize, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)))
}
