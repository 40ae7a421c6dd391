package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Options configure an embedded authority. Namespace, Secret, Service and Configuration are required.
type Options struct {
	// Namespace contains the Secret and the Service.
	Namespace string
	// Secret stores the authority of all replicas.
	Secret string
	// Service is called by the API server.
	Service string
	// Configuration is the ValidatingWebhookConfiguration whose caBundle is kept up to date, in webhooks that
	// call Service.
	Configuration string
	// CADuration and LeafDuration default to 365 days and 7 days; renewal is after two thirds.
	CADuration, LeafDuration time.Duration
	// Log defaults to slog.Default().
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	o.CADuration = cmp.Or(max(o.CADuration, 0), 365*24*time.Hour)
	o.LeafDuration = cmp.Or(max(o.LeafDuration, 0), 7*24*time.Hour)
	o.Log = cmp.Or(o.Log, slog.Default())
}

const (
	// commonName is the authority's: others are removed from the caBundle.
	commonName = "termguard-webhook-ca"
	// caKey is the key that cert-manager's injector reads (inject-ca-from-secret); the rest is a TLS Secret.
	caKey = "ca.crt"
	// propagationDelay is from a new authority in the configuration to the first certificate signed by it:
	// each API server learns of the change by its own watch.
	propagationDelay = 5 * time.Second
	// resync is often enough to drop predecessors in time.
	resync = 10 * time.Minute
)

// keeper runs in every replica: resourceVersions let only one of them write, and all compute the same.
type keeper struct {
	Options
	client                  kubernetes.Interface
	secrets, configurations cache.SharedIndexInformer
	source                  *Source

	caBundle []byte    // as last seen
	since    time.Time // first seen
	signer   []byte    // the authority of the served certificate
	renewal  time.Time
}

// FromAuthority returns a source with its own authority, whose key is in a Secret; serving certificates are only
// in memory, and served once the webhook configuration has the authority.
func FromAuthority(config *rest.Config, options Options) (*Source, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for certificates: %w", err)
	}
	return newEmbedded(client, options), nil
}

func newEmbedded(client kubernetes.Interface, options Options) *Source {
	options.setDefaults()
	k := &keeper{Options: options, client: client, source: &Source{
		log: options.Log, changes: make(chan struct{}, 1), missing: errors.New("the Secret of the authority and the webhook configuration have not been read yet"),
	}}
	byName := func(name string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		})
	}
	k.secrets = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(k.Namespace), byName(k.Secret)).
		Core().V1().Secrets().Informer()
	k.configurations = informers.NewSharedInformerFactoryWithOptions(client, resync, byName(k.Configuration)).
		Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	k.source.refresh, k.source.informers = k.refresh, []cache.SharedIndexInformer{k.secrets, k.configurations}
	notify := func() {
		select {
		case k.source.changes <- struct{}{}:
		default: // already notified
		}
	}
	for _, informer := range k.source.informers {
		// It fails only on a stopped informer; these have not started.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		})
	}
	return k.source
}

// refresh lets an authority that nears its end sign until the next one arrives by the Secret's watch.
func (k *keeper) refresh(ctx context.Context) (time.Duration, error) {
	object, _, _ := k.secrets.GetStore().GetByKey(k.Namespace + "/" + k.Secret)
	secret, _ := object.(*corev1.Secret)
	authority, err := readAuthority(secret)
	if err != nil {
		k.source.miss(fmt.Errorf("waiting for the authority: %w", err))
		return resync, k.createAuthority(ctx, secret, err)
	}
	remaining := time.Until(authority.Leaf.NotAfter) - k.CADuration/3
	if remaining < 0 {
		err = k.createAuthority(ctx, secret, errors.New("it expires soon"))
	}
	var webhooks []admissionv1.ValidatingWebhook
	object, _, _ = k.configurations.GetStore().GetByKey(k.Configuration)
	configuration, installed := object.(*admissionv1.ValidatingWebhookConfiguration)
	if installed {
		webhooks = slices.DeleteFunc(slices.Clone(configuration.Webhooks), func(w admissionv1.ValidatingWebhook) bool {
			s := w.ClientConfig.Service
			return s == nil || s.Namespace != k.Namespace || s.Name != k.Service
		})
		err = errors.Join(err, k.writeBundle(ctx, configuration.ResourceVersion, webhooks, secret.Data[caKey]))
	}
	renewal, failed := k.renew(authority, webhooks)
	return min(renewal, max(remaining, retryPause), resync), errors.Join(err, failed)
}

func readAuthority(secret *corev1.Secret) (authority tls.Certificate, err error) {
	switch {
	case secret == nil:
		return authority, errors.New("its Secret does not exist")
	case len(secret.Data[corev1.TLSCertKey]) == 0:
		return authority, errors.New("the Secret has none yet")
	case !bytes.Equal(secret.Data[caKey], secret.Data[corev1.TLSCertKey]):
		return authority, fmt.Errorf("%s and %s differ", caKey, corev1.TLSCertKey)
	}
	authority, err = tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	switch {
	case err != nil:
		return authority, err
	case !authority.Leaf.IsCA:
		return authority, errors.New("its certificate is not an authority")
	case time.Until(authority.Leaf.NotAfter) <= 0:
		return authority, errors.New("it has expired")
	}
	return authority, nil
}

// createAuthority writes a new authority, unless another replica was first.
func (k *keeper) createAuthority(ctx context.Context, secret *corev1.Secret, reason error) error {
	k.Log.Info("creating a certificate authority", "reason", reason)
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}
	certificate, err := issue(template, template, key.Public(), key, k.CADuration)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	certificatePEM, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return err
	}
	data := map[string][]byte{caKey: certificatePEM, corev1.TLSCertKey: certificatePEM, corev1.TLSPrivateKeyKey: keyPEM}
	secrets := k.client.CoreV1().Secrets(k.Namespace)
	if secret == nil {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.Secret, Namespace: k.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "termguard"}},
			Data:       data,
		}, metav1.CreateOptions{})
	} else {
		secret = secret.DeepCopy()
		secret.Data = data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("keep the authority in Secret %s/%s: %w", k.Namespace, k.Secret, err)
}

// issue signs a certificate that is valid slightly before now, for API servers whose clocks are behind.
func issue(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.PrivateKey, duration time.Duration) (*x509.Certificate, error) {
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdate(duration)), now.Add(duration)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// backdate is short for short-lived certificates, which would otherwise be renewed constantly.
func backdate(duration time.Duration) time.Duration { return min(time.Hour, duration/10) }

// writeBundle may fail on an older resourceVersion: the watch then triggers another attempt.
func (k *keeper) writeBundle(ctx context.Context, resourceVersion string, webhooks []admissionv1.ValidatingWebhook, authority []byte) error {
	var changes []map[string]any
	for _, w := range webhooks {
		keep := backdate(k.CADuration) + k.LeafDuration
		bundle, err := rotateBundle(w.ClientConfig.CABundle, authority, keep, time.Now())
		if err != nil {
			return fmt.Errorf("secret %s/%s: %w", k.Namespace, k.Secret, err)
		}
		if !bytes.Equal(bundle, w.ClientConfig.CABundle) {
			changes = append(changes, map[string]any{"name": w.Name, "clientConfig": map[string][]byte{"caBundle": bundle}})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion}, "webhooks": changes})
	if err != nil {
		return err
	}
	_, err = k.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, k.Configuration, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "termguard"})
	if err != nil {
		return fmt.Errorf("write the caBundle of ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	k.Log.Info("wrote the caBundle of the webhook configuration", "configuration", k.Configuration, "webhooks", len(changes))
	return nil
}

// rotateBundle returns the bundle, newest first: the authority, predecessors while certificates signed by them
// may be served (keep, from the start of its validity), and successors by other replicas.
func rotateBundle(oldBundle, authority []byte, keep time.Duration, now time.Time) ([]byte, error) {
	certificates, err := cert.ParseCertsPEM(authority)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caKey, err)
	}
	current := certificates[0]
	roots := []*x509.Certificate{current}
	others, err := cert.ParseCertsPEM(oldBundle)
	if err != nil {
		others = nil // replaced
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
	return cert.EncodeCertificates(roots...)
}

// renew returns when to call it again. Until the API server trusts the authority, it serves the previous
// certificate, so that no review is lost.
func (k *keeper) renew(authority tls.Certificate, webhooks []admissionv1.ValidatingWebhook) (time.Duration, error) {
	var caBundle []byte // empty if one of the webhooks trusts no authority
	for _, w := range webhooks {
		if caBundle = w.ClientConfig.CABundle; len(caBundle) == 0 {
			break
		}
	}
	if !bytes.Equal(k.caBundle, caBundle) {
		k.caBundle, k.since = slices.Clone(caBundle), time.Now()
	}
	if rest := time.Until(k.renewal); rest > 0 && bytes.Equal(k.signer, authority.Leaf.Raw) {
		return rest, nil
	}
	if wait := propagationDelay - time.Since(k.since); wait > 0 && k.signer != nil {
		return wait, nil
	}
	if len(webhooks) == 0 {
		k.source.miss(fmt.Errorf("no ValidatingWebhookConfiguration %s calls Service %s/%s: apply it", k.Configuration, k.Namespace, k.Service))
		return resync, nil
	}
	// As the API server calls a Service (k8s.io/apiserver/pkg/util/webhook/client.go).
	name := k.Service + "." + k.Namespace + ".svc"
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return 0, err
	}
	template := &x509.Certificate{
		DNSNames:              []string{name},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	duration := min(k.LeafDuration, time.Until(authority.Leaf.NotAfter))
	leaf, err := issue(template, authority.Leaf, key.Public(), authority.PrivateKey, duration)
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.caBundle)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: template.ExtKeyUsage}); err != nil {
		k.source.miss(fmt.Errorf("ValidatingWebhookConfiguration %s does not trust the authority yet: %w", k.Configuration, err))
		return resync, nil
	}
	k.source.serve(&tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf})
	k.signer, k.renewal = authority.Leaf.Raw, leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore)/3)
	return time.Until(k.renewal), nil
}
