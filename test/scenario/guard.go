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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

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

// Guard starts a lab with the node "steady" and installs termguard in it, with
// the limits that users get.
func Guard(ctx context.Context, options lab.Options) (*Guarded, error) {
	return guard(ctx, options, false)
}

// PatientGuard is Guard for what judges answers and not how soon they come: dozens
// of deletions at once on two cores, beside their control plane, leave no time for
// a review, and one that is let through unchecked says nothing. TestHarmless and
// make bench hold termguard to the limits that users get.
func PatientGuard(ctx context.Context, options lab.Options) (*Guarded, error) {
	return guard(ctx, options, true)
}

func guard(ctx context.Context, options lab.Options, patient bool) (*Guarded, error) {
	l, err := lab.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	g := &Guarded{Lab: l, patient: patient}
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
	if g.patient {
		if err := g.BeCalledPatiently(ctx); err != nil {
			return err
		}
	}
	return g.StartTermguard(ctx, binary)
}

// BeCalledPatiently has the API server wait longer for termguard than its
// manifests say.
func (g *Guarded) BeCalledPatiently(ctx context.Context) error {
	client, err := g.Client()
	if err != nil {
		return err
	}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // with who fills in the caBundle
		hooks, err := configurations.Get(ctx, "termguard", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range hooks.Webhooks {
			hooks.Webhooks[i].TimeoutSeconds = new(int32(10))
		}
		_, err = configurations.Update(ctx, hooks, metav1.UpdateOptions{})
		return err
	})
}

// StartTermguard runs termguard as its Deployment says, and waits until the API
// server can call it.
func (g *Guarded) StartTermguard(ctx context.Context, binary string, extra ...string) error {
	config, err := g.MountConfig(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"--config", config}, extra...)
	if g.patient {
		args = append(args, "--deadline", "8s")
	}
	g.Termguard, err = g.RunDeployment(ctx, "termguard-system", "termguard", "termguard", binary, args...)
	if err != nil {
		return err
	}
	return g.AwaitTermguard(ctx)
}

// MountConfig plays the kubelet that mounts the ConfigMap of the Deployment, and brings
// its changes. It returns the path of the configuration, which is missing as long as there
// is no ConfigMap.
func (g *Guarded) MountConfig(ctx context.Context) (string, error) {
	client, err := g.Client()
	if err != nil {
		return "", err
	}
	cm, err := client.CoreV1().ConfigMaps("termguard-system").Get(ctx, "termguard-config", metav1.GetOptions{})
	path := filepath.Join(g.Dir(), "config.yaml")
	if apierrors.IsNotFound(err) {
		return path, os.RemoveAll(path)
	}
	if err != nil {
		return "", fmt.Errorf("read termguard's configuration: %w", err)
	}
	return path, os.WriteFile(path, []byte(cm.Data["config.yaml"]), 0o600)
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
