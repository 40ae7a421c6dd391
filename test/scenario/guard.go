package scenario

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/termguard/termguard/test/lab"
)

func Binary() (string, error) {
	path := os.Getenv("TERMGUARD")
	if path == "" {
		path = filepath.Join(lab.Root(), "bin", "termguard")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find termguard (run: make build): %w", err)
	}
	return filepath.Abs(path)
}

func ProbeBinary() (string, error) {
	binary, err := Binary()
	if err != nil {
		return "", err
	}
	probe := filepath.Join(filepath.Dir(binary), "termguard-probe")
	if _, err := os.Stat(probe); err != nil {
		return "", fmt.Errorf("find termguard-probe (run: make build): %w", err)
	}
	return probe, nil
}

// Guard starts a lab with the node "steady" and termguard, with users' limits.
func Guard(ctx context.Context, options lab.Options) (*Guarded, error) {
	return guard(ctx, options, false)
}

// PatientGuard has longer limits, for tests of answers: dozens of concurrent deletions on two cores leave no
// time for a review, and an unchecked request proves nothing. Its API server presents a certificate, without
// which termguard learns nothing.
func PatientGuard(ctx context.Context, options lab.Options) (*Guarded, error) {
	return guard(ctx, options, true)
}

// On a busy machine, the lease of a node that lives is renewed late: its pods would not be ready.
const patientGrace = 24 * time.Second

func guard(ctx context.Context, options lab.Options, patient bool) (*Guarded, error) {
	if patient {
		options.Prepare, options.Thrifty = PresentToTermguard, true
		options.NodeGrace = cmp.Or(options.NodeGrace, patientGrace)
	}
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

const (
	clientsFile = "termguard-clients.crt" // the authority of those who may send reviews
	clientName  = "kube-apiserver"        // whom it names
	// As in docs/security.md.
	clientCertificate, clientKey = "termguard-client.crt", "termguard-client.key"
)

// PresentToTermguard is a lab.Options.Prepare for the API server's certificate.
func PresentToTermguard(dir string) ([]string, error) {
	clients, err := lab.NewAuthority("termguard-clients")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, clientsFile), clients.PEM(), 0o600); err != nil {
		return nil, err
	}
	flag, err := PresentCertificate(clients, clientName, dir)
	return []string{flag}, err
}

// ClientArgs make termguard answer only that API server.
func (g *Guarded) ClientArgs() []string {
	return []string{"--client-ca-file", filepath.Join(g.Dir(), clientsFile), "--client-cn", clientName}
}

// PatientArgs are for a replica of termguard.
func (g *Guarded) PatientArgs() []string { return append(g.ClientArgs(), "--deadline", "8s") }

// ClientCertificate is the API server's.
func (g *Guarded) ClientCertificate() (tls.Certificate, error) {
	return tls.LoadX509KeyPair(filepath.Join(g.Dir(), clientCertificate), filepath.Join(g.Dir(), clientKey))
}

// PresentCertificate returns the API server's flag, as in docs/security.md.
func PresentCertificate(by *lab.Authority, name, folder string) (flag string, err error) {
	page, err := os.ReadFile(filepath.Join(lab.Root(), "docs", "security.md"))
	if err != nil {
		return "", err
	}
	shown := func(kind string) []byte {
		for _, block := range regexp.MustCompile("(?s)\n   ```yaml\n(.*?)   ```").FindAllSubmatch(page, -1) {
			if text := strings.ReplaceAll("\n"+string(block[1]), "\n   ", "\n"); strings.Contains(text, "\nkind: "+kind+"\n") {
				return []byte(strings.ReplaceAll(text, "/etc/kubernetes/admission", folder))
			}
		}
		err = errors.Join(err, fmt.Errorf("docs/security.md shows no %s", kind))
		return nil
	}
	certificate, key, err := by.Issue(name, nil, nil)
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{
		clientCertificate: certificate, clientKey: key,
		"kubeconfig.yaml": shown("Config"), "admission.yaml": shown("AdmissionConfiguration"),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	return "--admission-control-config-file=" + filepath.Join(folder, "admission.yaml"), err
}

// The lab plays the kubelet.
func (g *Guarded) install(ctx context.Context) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	if _, err := g.StartNode(ctx, "steady"); err != nil {
		return err
	}
	r, err := g.Kubectl(ctx, "apply", "-k", filepath.Join(lab.Root(), "deploy", "base"))
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

// BeCalledPatiently exceeds the timeout in the manifests.
func (g *Guarded) BeCalledPatiently(ctx context.Context) error {
	client, err := g.Client()
	if err != nil {
		return err
	}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // conflicts with the writer of caBundle
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

// StartTermguard waits until the API server can call it.
func (g *Guarded) StartTermguard(ctx context.Context, binary string, extra ...string) error {
	config, err := g.MountConfig(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"--config", config}, extra...)
	if g.patient {
		args = append(args, g.PatientArgs()...)
	}
	g.Termguard, err = g.RunDeployment(ctx, "termguard-system", "termguard", "termguard", binary, args...)
	if err != nil {
		return err
	}
	return g.AwaitTermguard(ctx)
}

// MountConfig follows the Deployment's ConfigMap; without one the path does not exist.
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

// AwaitTermguard waits until termguard is ready and the webhook configuration has its authority.
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
