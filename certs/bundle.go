package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// caKey is the key of the certificate in the Secret that cert-manager's injector reads
// (inject-ca-from-secret); the rest is a TLS Secret.
const caKey = "ca.crt"

const (
	// resync is how often the bundle is recomputed without any change, to drop predecessors in time.
	resync = 10 * time.Minute
	// retryPause is the pause after a failed patch.
	retryPause = time.Second
)

// bundle keeps the caBundle of the webhook configuration up to date. Every replica runs one, and all compute
// the same bundle.
type bundle struct {
	client  kubernetes.Interface
	options Options
	changes chan struct{}

	secrets, configurations cache.SharedIndexInformer

	mu         sync.Mutex
	synced     bool
	hasWebhook bool      // a webhook in the configuration calls our Service
	caBundle   []byte    // the current caBundle
	since      time.Time // when seen was first observed
}

func newBundle(client kubernetes.Interface, options Options) *bundle {
	b := &bundle{client: client, options: options, changes: make(chan struct{}, 1)}
	byName := func(name string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		})
	}
	b.secrets = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(options.Namespace), byName(options.Secret)).
		Core().V1().Secrets().Informer()
	b.configurations = informers.NewSharedInformerFactoryWithOptions(client, resync, byName(options.Configuration)).
		Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	for _, informer := range []cache.SharedIndexInformer{b.secrets, b.configurations} {
		// AddEventHandler fails only on a stopped informer; these have not started.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { b.notify() },
			UpdateFunc: func(any, any) { b.notify() },
			DeleteFunc: func(any) { b.notify() },
		})
	}
	return b
}

func (b *bundle) notify() {
	select {
	case b.changes <- struct{}{}:
	default:
	}
}

func (b *bundle) run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, informer := range []cache.SharedIndexInformer{b.secrets, b.configurations} {
		wait.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), b.secrets.HasSynced, b.configurations.HasSynced) {
		return nil
	}
	var retry <-chan time.Time
	for {
		b.observe()
		if err := b.reconcile(ctx); err != nil && ctx.Err() == nil {
			b.options.Log.Warn("the webhook configuration cannot be given its certificate authority; trying again", "configuration", b.options.Configuration, "error", err)
			retry = time.After(retryPause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.changes:
		case <-retry:
			retry = nil
		}
	}
}

// observe records the configuration's current bundle.
func (b *bundle) observe() {
	configuration := b.configuration()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced = true
	var caBundle []byte
	webhooks := b.ownWebhooks(configuration)
	b.hasWebhook = len(webhooks) > 0
	for _, w := range webhooks {
		if caBundle = w.ClientConfig.CABundle; len(caBundle) == 0 {
			break // this webhook trusts no authority yet
		}
	}
	if !bytes.Equal(b.caBundle, caBundle) {
		b.caBundle, b.since = slices.Clone(caBundle), time.Now()
	}
}

// trustedSince returns since when the webhook configuration trusts a certificate.
func (b *bundle) trustedSince(leaf *x509.Certificate) (time.Time, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.synced:
		return time.Time{}, errors.New("the webhook configuration has not been read yet")
	case !b.hasWebhook:
		return time.Time{}, fmt.Errorf("no ValidatingWebhookConfiguration %s calls Service %s/%s: apply it", b.options.Configuration, b.options.Namespace, b.options.Service)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.caBundle)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: serverName(b.options), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return time.Time{}, fmt.Errorf("ValidatingWebhookConfiguration %s does not trust the authority yet: %w", b.options.Configuration, err)
	}
	return b.since, nil
}

// configuration returns the ValidatingWebhookConfiguration, nil if it does not exist.
func (b *bundle) configuration() *admissionv1.ValidatingWebhookConfiguration {
	obj, _, _ := b.configurations.GetStore().GetByKey(b.options.Configuration)
	configuration, _ := obj.(*admissionv1.ValidatingWebhookConfiguration)
	return configuration
}

func (b *bundle) ownWebhooks(configuration *admissionv1.ValidatingWebhookConfiguration) []admissionv1.ValidatingWebhook {
	if configuration == nil {
		return nil
	}
	var webhooks []admissionv1.ValidatingWebhook
	for _, w := range configuration.Webhooks {
		if s := w.ClientConfig.Service; s != nil && s.Namespace == b.options.Namespace && s.Name == b.options.Service {
			webhooks = append(webhooks, w)
		}
	}
	return webhooks
}

// reconcile patches the webhooks whose bundle is out of date. The resourceVersion makes the API server reject
// a patch based on older state; the watch then triggers another attempt.
func (b *bundle) reconcile(ctx context.Context) error {
	obj, found, err := b.secrets.GetStore().GetByKey(b.options.Namespace + "/" + b.options.Secret)
	if err != nil || !found {
		return err // the authority is about to create it
	}
	configuration := b.configuration()
	if configuration == nil {
		return nil // not installed yet, or being uninstalled
	}
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type webhook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	var webhooks []webhook
	for _, w := range b.ownWebhooks(configuration) {
		keep := backdate(b.options.CADuration) + b.options.LeafDuration
		want, err := rotateBundle(w.ClientConfig.CABundle, obj.(*corev1.Secret).Data[caKey], keep, time.Now())
		if err != nil {
			return fmt.Errorf("secret %s/%s: %w", b.options.Namespace, b.options.Secret, err)
		}
		if !bytes.Equal(want, w.ClientConfig.CABundle) {
			webhooks = append(webhooks, webhook{w.Name, clientConfig{want}})
		}
	}
	if len(webhooks) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": configuration.ResourceVersion},
		"webhooks": webhooks,
	})
	if err != nil {
		return err
	}
	_, err = b.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, b.options.Configuration, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "termguard"})
	if err != nil {
		return err
	}
	b.options.Log.Info("gave the webhook configuration its certificate authority", slog.String("configuration", b.options.Configuration), slog.Int("webhooks", len(webhooks)))
	return nil
}

// rotateBundle returns the bundle for an authority, newest certificate first: its own; predecessors from the
// present bundle, while certificates signed by them may still be served (keep, counted from the start of the
// authority's validity); and any successor that another replica has added.
func rotateBundle(oldBundle, authority []byte, keep time.Duration, now time.Time) ([]byte, error) {
	certificates, err := parse(authority)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caKey, err)
	}
	if len(certificates) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", caKey)
	}
	current := certificates[0]
	roots := []*x509.Certificate{current}
	others, err := parse(oldBundle)
	if err != nil {
		others = nil // an unreadable bundle is replaced
	}
	for _, o := range others {
		recent := o.NotBefore.After(current.NotBefore) || now.Before(current.NotBefore.Add(keep))
		if recent && o.Subject.CommonName == commonName && now.Before(o.NotAfter) && !slices.ContainsFunc(roots, o.Equal) {
			roots = append(roots, o)
		}
	}
	slices.SortStableFunc(roots, func(a, b *x509.Certificate) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	var bundle []byte
	for _, c := range roots {
		bundle = append(bundle, encode(c)...)
	}
	return bundle, nil
}

func parse(text []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return certificates, nil
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
