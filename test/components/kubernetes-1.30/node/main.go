// Command node is a node of the lab: the kubelet's own code over a fake
// container runtime, as kubemark runs it (k8s.io/kubernetes/cmd/kubemark). It
// differs from kubemark's command in what that has no flags for: everything it
// writes is in one folder, it serves nothing on the network, and it sends
// heartbeats often enough that a dead node is noticed in seconds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cri/remote"
	fakeremote "k8s.io/kubernetes/pkg/kubelet/cri/remote/fake"
	"k8s.io/kubernetes/pkg/kubemark"
)

func main() {
	klog.InitFlags(nil)
	name := flag.String("name", "", "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig with the credentials of the node")
	dir := flag.String("dir", "", "folder for everything that the node writes")
	// A kubelet renews its lease after a quarter of it (pkg/kubelet/kubelet.go,
	// nodeLeaseRenewIntervalFraction).
	lease := flag.Duration("lease", 40*time.Second, "duration of the node's lease")
	flag.Parse()
	if err := run(*name, *kubeconfig, *dir, *lease); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// run does not return unless the node could not start.
func run(name, kubeconfig, dir string, lease time.Duration) error {
	if name == "" || kubeconfig == "" || dir == "" {
		return errors.New("-name, -kubeconfig and -dir are needed")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "kubelet"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	flags, kubelet := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: name, MaxPods: 1000})
	if err := os.RemoveAll(flags.RootDirectory); err != nil { // made in /tmp, whatever TMPDIR says
		return err
	}
	flags.RootDirectory = dir
	kubelet.StaticPodPath = filepath.Join(dir, "static-pods")
	kubelet.PodLogsDir = filepath.Join(dir, "pod-logs")
	for _, made := range []string{kubelet.StaticPodPath, kubelet.PodLogsDir} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	kubelet.EnableServer = false
	kubelet.Port = 0
	kubelet.HealthzPort = 0
	kubelet.NodeLeaseDurationSeconds = int32(lease.Seconds())

	heartbeat := *config
	heartbeat.QPS = -1
	heartbeat.Timeout = min(lease, kubelet.NodeStatusUpdateFrequency.Duration)
	heartbeats, err := kubernetes.NewForConfig(&heartbeat)
	if err != nil {
		return err
	}

	endpoint := "unix://" + filepath.Join(dir, "runtime.sock")
	runtime := fakeremote.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return fmt.Errorf("start the fake runtime: %w", err)
	}
	service, err := remote.NewRemoteRuntimeService(endpoint, 15*time.Second, oteltrace.NewNoopTracerProvider())
	if err != nil {
		return fmt.Errorf("reach the fake runtime: %w", err)
	}
	kubemark.NewHollowKubelet(flags, kubelet, client, heartbeats, &cadvisortest.Fake{NodeName: name},
		runtime.ImageService, service, cm.NewStubContainerManager()).Run()
	return nil
}
