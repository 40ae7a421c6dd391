package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node runs the kubelet's code over a fake runtime (test/components/kubernetes/node). Pods start and end as
// usual; probes and mounts are fakes.
type Node struct {
	Name    string
	lab     *Lab
	process *Process
}

// StartNode also brings an earlier node back, and waits until it is ready.
func (l *Lab) StartNode(ctx context.Context, name string) (*Node, error) {
	config, err := l.ConfigFor("system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := l.WriteKubeconfig("node-"+name, config)
	if err != nil {
		return nil, err
	}
	// The kubelet renews its lease after a quarter of it; see NodeGrace.
	lease := (l.options.NodeGrace * 4 / 6).Truncate(time.Second)
	process, err := l.StartProcess("node-"+name, filepath.Join(l.bin, "node"), "-name", name, "-kubeconfig", kubeconfig,
		"-dir", filepath.Join(l.dir, "node-"+name), "-lease", lease.String())
	if err != nil {
		return nil, err
	}
	n := &Node{Name: name, lab: l, process: process}
	return n, n.AwaitReady(ctx, corev1.ConditionTrue)
}

func (l *Lab) Node(name string) *Node { return &Node{Name: name, lab: l} }

// Kill is a power cut; the node becomes not ready after Options.NodeGrace.
func (n *Node) Kill() { n.process.Kill() }

// Stop sends SIGTERM; pods stay bound, as with Kill.
func (n *Node) Stop() error { return n.process.Stop() }

func (n *Node) Process() *Process { return n.process }

// AwaitReady awaits a Ready condition, "Unknown" if silent.
func (n *Node) AwaitReady(ctx context.Context, status corev1.ConditionStatus) error {
	return n.lab.awaitNode(ctx, n.Name, status)
}

func (l *Lab) awaitNode(ctx context.Context, name string, status corev1.ConditionStatus) error {
	client, err := l.Client()
	if err != nil {
		return err
	}
	return l.Await(ctx, 2*time.Minute, fmt.Sprintf("node %s to have Ready=%s", name, status), func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil // not registered yet
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == status && (status != corev1.ConditionTrue || len(node.Spec.Taints) == 0), nil
			}
		}
		return false, nil
	})
}
