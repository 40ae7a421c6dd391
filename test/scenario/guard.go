package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/test/lab"
)

// Root of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Binary is the termguard that the tests run: that of TERMGUARD, or the one
// that make build leaves.
func Binary() (string, error) {
	path := os.Getenv("TERMGUARD")
	if path == "" {
		path = filepath.Join(Root(), "bin", "termguard")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find termguard (run: make build): %w", err)
	}
	return filepath.Abs(path)
}

// Guard starts a lab with the node "steady" and installs termguard in it.
func Guard(ctx context.Context, options lab.Options) (*Guarded, error) {
	l, err := lab.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	g := &Guarded{Lab: l}
	if err := g.install(ctx); err != nil {
		l.Stop()
		return nil, err
	}
	return g, nil
}

// install does what a user does, with the manifests that users get; the lab
// stands in for the kubelet that would run the Deployment's pods.
func (g *Guarded) install(ctx context.Context) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	if _, err := g.StartNode(ctx, "steady"); err != nil {
		return err
	}
	r, err := g.Kubectl(ctx, "apply", "-k", filepath.Join(Root(), "deploy", "base"))
	if err != nil || r.Code != 0 {
		return errors.Join(err, fmt.Errorf("kubectl apply -k deploy/base: %s", r.Stderr))
	}
	return g.StartTermguard(ctx, binary)
}

// StartTermguard runs termguard as its Deployment says, and waits until the API
// server can call it.
func (g *Guarded) StartTermguard(ctx context.Context, binary string, extra ...string) error {
	config, err := g.MountConfig(ctx)
	if err != nil {
		return err
	}
	g.Termguard, err = g.RunDeployment(ctx, "termguard-system", "termguard", "termguard", binary, append([]string{"--config", config}, extra...)...)
	if err != nil {
		return err
	}
	return g.AwaitTermguard(ctx)
}

// MountConfig writes what the Deployment mounts from its ConfigMap to a file.
func (g *Guarded) MountConfig(ctx context.Context) (string, error) {
	client, err := g.Client()
	if err != nil {
		return "", err
	}
	cm, err := client.CoreV1().ConfigMaps("termguard-system").Get(ctx, "termguard-config", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read termguard's configuration: %w", err)
	}
	for name, text := range cm.Data {
		path := filepath.Join(g.Dir(), name)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	return "", errors.New("ConfigMap termguard-config is empty")
}

// AwaitTermguard waits until termguard is ready and its certificate authority
// is in the webhook configuration.
func (g *Guarded) AwaitTermguard(ctx context.Context) error {
	address, err := g.ClusterIP(ctx, "termguard-system", "termguard")
	if err != nil {
		return err
	}
	client, err := g.Client()
	if err != nil {
		return err
	}
	return g.Await(ctx, 60*time.Second, "termguard to be ready", func(ctx context.Context) (bool, error) {
		response, err := http.Get("http://" + address + ":8081/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return false, nil
		}
		hooks, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "termguard", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, h := range hooks.Webhooks {
			if len(h.ClientConfig.CABundle) == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}
