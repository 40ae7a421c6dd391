package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ServiceAccountConfig has the account's token.
func (l *Lab) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := l.Client()
	if err != nil {
		return nil, err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("mint a token for service account %s/%s: %w", namespace, name, err)
	}
	config := l.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	return config, nil
}

// RunDeployment plays the kubelet for a Deployment on the host network: program runs as its first container,
// on a Service's ClusterIP. The API server sees no pod.
func (l *Lab) RunDeployment(ctx context.Context, namespace, name, service, program string, extra ...string) (*Process, error) {
	client, err := l.Client()
	if err != nil {
		return nil, err
	}
	deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	pod := deployment.Spec.Template.Spec
	config, err := l.ServiceAccountConfig(ctx, namespace, cmp.Or(pod.ServiceAccountName, "default"))
	if err != nil {
		return nil, err
	}
	kubeconfig, err := l.WriteKubeconfig(namespace+"-"+name, config)
	if err != nil {
		return nil, err
	}
	address, err := l.ClusterIP(ctx, namespace, service)
	if err != nil {
		return nil, err
	}
	args := slices.Concat(pod.Containers[0].Args,
		[]string{"--kubeconfig", kubeconfig, "--listen", address + ":443", "--health-listen", address + ":8081"}, extra)
	return l.StartProcess(namespace+"-"+name, program, args...)
}
