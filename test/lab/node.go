package lab

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is a node of the lab: the kubelet's own code over a fake runtime
// (k8s.io/kubernetes, cmd/kubemark). Pods bound to it become Running and ready,
// and go the way the kubelet takes them away.
type Node struct {
	Name    string
	lab     *Lab
	process *Process
}

// StartNode starts a node and waits until it is ready.
func (l *Lab) StartNode(ctx context.Context, name string) (*Node, error) {
	config, err := l.ConfigFor("system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := l.WriteKubeconfig("node-"+name, config)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	process, err := l.run("node-"+name, "kubemark", "--morph=kubelet", "--name", name, "--kubeconfig", kubeconfig,
		"--kubelet-port", strconv.Itoa(port), "--kubelet-read-only-port=0", "--use-host-image-service=false",
		"--kube-api-qps=100", "--kube-api-burst=200",
		"-v=3") // from here on it logs the socket that the watchdog removes
	if err != nil {
		return nil, err
	}
	n := &Node{Name: name, lab: l, process: process}
	return n, n.AwaitReady(ctx, corev1.ConditionTrue)
}

// Kill ends the node's kubelet as a power cut would. The node is not ready once
// Options.NodeGrace has passed: see AwaitReady.
func (n *Node) Kill() {
	n.lab.forget(n.process)
	n.process.Kill()
}

// AwaitReady waits until the node's Ready condition has a status.
func (n *Node) AwaitReady(ctx context.Context, status corev1.ConditionStatus) error {
	client, err := n.lab.Client()
	if err != nil {
		return err
	}
	return n.lab.await(ctx, 2*time.Minute, fmt.Sprintf("node %s to have Ready=%s", n.Name, status), func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == status, nil
			}
		}
		return false, nil
	})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
