package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet restarts a container after 10 s, then 20 s.
const crashes = 3

// Crash makes a Deployment's containers exit at start until ctx ends. It returns in CrashLoopBackOff.
func (n *Node) Crash(ctx context.Context, namespace, deployment string) error {
	client, err := n.lab.Client()
	if err != nil {
		return err
	}
	d, err := client.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix://"+filepath.Join(n.lab.dir, "node-"+n.Name, "runtime.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { connection.Close() })
	runtime := runtimeapi.NewRuntimeServiceClient(connection)
	pods, err := n.lab.informed(ctx, podResource, namespace, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)}, func() {})
	if err != nil {
		return err
	}
	go every(ctx, 300*time.Millisecond, func() {
		running, err := typed[corev1.Pod](pods)
		if err != nil {
			return // the next round retries
		}
		for _, pod := range running {
			containers, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
				State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
				LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)},
			}})
			if err != nil {
				return
			}
			for _, c := range containers.Containers {
				_, _ = runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.Id})
			}
		}
	})
	return n.lab.Await(ctx, 3*time.Minute, fmt.Sprintf("Deployment %s/%s to crash again and again", namespace, deployment), func(context.Context) (bool, error) {
		running, err := typed[corev1.Pod](pods)
		if err != nil {
			return false, err
		}
		for _, pod := range running {
			for _, status := range pod.Status.ContainerStatuses {
				if status.RestartCount >= crashes && status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff" {
					return true, nil
				}
			}
		}
		return false, nil
	})
}
