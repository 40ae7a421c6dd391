package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/webhook"
)

// TestManager runs termguard in a manager of controller-runtime, with either server.
func TestManager(t *testing.T) {
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Brief: true, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := webhook.NewHandler(webhook.Options{Evaluator: engine, Facts: facts, Deadline: 10 * time.Second, Log: quiet})
	authority, err := lab.NewAuthority("serving")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := authority.Issue("termguard", nil, nil, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	for name, mount := range map[string]func(port int) manager.Runnable{
		"termguard's": func(port int) manager.Runnable {
			return &webhook.Server{Handler: handler, GetCertificate: get, Listen: fmt.Sprint("127.0.0.1:", port), HealthListen: "127.0.0.1:0", Drain: time.Millisecond, Log: quiet}
		},
		"controller-runtime's": func(port int) manager.Runnable {
			s := crwebhook.NewServer(crwebhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = get }}})
			s.Register(webhook.Path, &admission.Webhook{Handler: handler})
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			port := free.Addr().(*net.TCPAddr).Port
			free.Close()
			m, err := manager.New(l.Config(), manager.Options{
				Logger: logr.FromSlogHandler(quiet.Handler()), Metrics: server.Options{BindAddress: "0"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Add(mount(port)); err != nil {
				t.Fatal(err)
			}
			serving(t, m)
			await(t, fmt.Sprint("127.0.0.1:", port))
			checkWarning(t, l, fmt.Sprintf("https://127.0.0.1:%d%s", port, webhook.Path), authority.PEM())
		})
	}
}

func serving(t *testing.T, m manager.Manager) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func await(t *testing.T, address string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if err != nil {
		t.Fatal("the server does not start:", err)
	}
}

type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

// checkWarning checks that the API server returns a warning for the deletion of a ConfigMap with an orphaned
// finalizer.
func checkWarning(t *testing.T, l *lab.Lab, url string, authority []byte) {
	t.Helper()
	client, err := l.Client()
	if err != nil {
		t.Fatal(err)
	}
	ignore, none, timeout := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone, int32(10)
	hooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "termguard"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "check.termguard.dev", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: &timeout,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"gone.test/cleanup"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, patched := maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err := errors.Join(patched, maps.Delete(ctx, "held", metav1.DeleteOptions{}), hooks.Delete(ctx, "termguard", metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	var got warnings
	config := l.Config()
	config.WarningHandler = &got
	asking, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// The API server takes a moment to see the configuration.
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := asking.CoreV1().ConfigMaps("default").Delete(ctx, "held", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return slices.ContainsFunc(got.lines, func(line string) bool {
			return strings.Contains(line, "gone.test/cleanup") && strings.HasSuffix(line, "[orphaned-finalizer]")
		}), err
	})
	if err != nil {
		t.Errorf("no warning: %v; got %q", err, got.lines)
	}
}
