package lab

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ServiceAccountConfig connects as a service account, by a token that the API
// server mints for it.
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

// RunDeployment runs the first container of a Deployment as a process of this
// machine, in place of a kubelet: the given program, with the arguments of the
// Deployment and the rights of its service account, listening on the ClusterIP
// of a Service. Arguments in extra come last and win.
func (l *Lab) RunDeployment(ctx context.Context, namespace, name, service, program string, extra ...string) (*Process, error) {
	client, err := l.Client()
	if err != nil {
		return nil, err
	}
	deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	config, err := l.ServiceAccountConfig(ctx, namespace, deployment.Spec.Template.Spec.ServiceAccountName)
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
	args := append([]string{}, deployment.Spec.Template.Spec.Containers[0].Args...)
	args = append(args, "--kubeconfig", kubeconfig, "--listen", address+":443", "--health-listen", address+":8081")
	process, err := l.StartProcess(namespace+"-"+name, program, append(args, extra...)...)
	if err != nil {
		return nil, err
	}
	return process, nil
}

// Await waits for a condition, up to a limit; where it does not come, the error
// shows what the lab's processes printed last.
func (l *Lab) Await(ctx context.Context, limit time.Duration, what string, condition func(context.Context) (bool, error)) error {
	return l.await(ctx, limit, what, condition)
}
