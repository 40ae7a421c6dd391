// Command dradriver is a driver for dynamic resource allocation on the lab's real
// nodes: it has one device, "d0", and nothing to prepare. It registers with the
// kubelet as every driver does, and leaves its sockets behind when it is killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

func main() {
	name := flag.String("name", "", "name of the driver")
	node := flag.String("node", "", "name of the node")
	kubelet := flag.String("kubelet", "", "folder of the kubelet")
	kubeconfig := flag.String("kubeconfig", "", "of who publishes the devices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *node, *kubelet, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "dradriver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, node, kubelet, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(kubelet, "plugins", name)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, &driver{node}, kubeletplugin.DriverName(name), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer helper.Stop()
	devices := resourceslice.Slice{Devices: []resourcev1.Device{{Name: "d0"}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{devices}}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

type driver struct{ node string }

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var devices []kubeletplugin.Device
		for _, r := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device})
		}
		prepared[claim.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return prepared, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	done := map[types.UID]error{}
	for _, claim := range claims {
		done[claim.UID] = nil
	}
	return done, nil
}

func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, "dradriver:", msg, err)
}
