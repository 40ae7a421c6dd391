package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
)

// authorityKeeper maintains the authority in the Secret: it creates one if none there can sign, and replaces
// it after two thirds of its validity. Every replica runs one; the Secret's resourceVersion lets only one of
// them write.
//
// It replaces cert-manager's DynamicAuthority, which cannot set the start of validity: certificates from a
// replica whose clock is ahead must be valid at once on the API servers (early).
type authorityKeeper struct {
	client  kubernetes.Interface
	options Options
	secrets cache.SharedIndexInformer // run by the bundle
	changes chan struct{}

	mu        sync.Mutex
	announced []byte // the last certificate announced to watches
	watches   []chan<- struct{}
}

const checkInterval = 10 * time.Second

func newKeeper(client kubernetes.Interface, options Options, secrets cache.SharedIndexInformer) *authorityKeeper {
	k := &authorityKeeper{client: client, options: options, secrets: secrets, changes: make(chan struct{}, 1)}
	notify := func() {
		select {
		case k.changes <- struct{}{}:
		default:
		}
	}
	// AddEventHandler fails only on a stopped informer; this one has not started.
	_, _ = secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	return k
}

// Run implements cmtls.Authority.
func (k *authorityKeeper) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), k.secrets.HasSynced) {
		return nil
	}
	for {
		pause := checkInterval
		if err := k.ensure(ctx); err != nil && ctx.Err() == nil {
			k.options.Log.Warn("the certificate authority cannot be kept in its Secret; trying again", "secret", k.options.Namespace+"/"+k.options.Secret, "error", err)
			pause = retryPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changes:
		case <-time.After(pause):
		}
	}
}

// ensure creates an authority if needed. Watchers are notified once it arrives by the Secret's watch.
func (k *authorityKeeper) ensure(ctx context.Context) error {
	secret := k.secret()
	pair, err := readPair(secret)
	switch {
	case err == nil && time.Until(pair.Leaf.NotAfter) < k.options.CADuration/3:
		err = errors.New("it is nearing its end")
		fallthrough
	case err != nil:
		if secret != nil && len(secret.Data[corev1.TLSCertKey]) == 0 {
			err = errors.New("there is none yet")
		}
		k.options.Log.Info("making a certificate authority", "reason", err)
		return k.createAuthority(ctx, secret)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(k.announced, pair.Leaf.Raw) {
		return nil
	}
	k.announced = pair.Leaf.Raw
	for _, watch := range k.watches {
		select {
		case watch <- struct{}{}:
		default: // already notified
		}
	}
	return nil
}

// createAuthority writes a new authority into the Secret. It is no error if another replica was first.
func (k *authorityKeeper) createAuthority(ctx context.Context, secret *corev1.Secret) error {
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
	certificate, err := issue(template, template, key.Public(), key, k.options.CADuration)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	certificatePEM := encode(certificate)
	data := map[string][]byte{caKey: certificatePEM, corev1.TLSCertKey: certificatePEM, corev1.TLSPrivateKeyKey: keyPEM}
	secrets := k.client.CoreV1().Secrets(k.options.Namespace)
	if secret == nil {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.options.Secret, Namespace: k.options.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "termguard"}},
			Data:       data,
		}, metav1.CreateOptions{})
	} else {
		secret = secret.DeepCopy()
		secret.Data = data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// secret returns the Secret, nil if it does not exist.
func (k *authorityKeeper) secret() *corev1.Secret {
	obj, _, _ := k.secrets.GetStore().GetByKey(k.options.Namespace + "/" + k.options.Secret)
	secret, _ := obj.(*corev1.Secret)
	return secret
}

// readPair returns the authority in a Secret, or an error that says why it cannot sign.
func readPair(secret *corev1.Secret) (tls.Certificate, error) {
	if secret == nil {
		return tls.Certificate{}, errors.New("there is no Secret")
	}
	if !bytes.Equal(secret.Data[caKey], secret.Data[corev1.TLSCertKey]) {
		return tls.Certificate{}, fmt.Errorf("%s and %s differ", caKey, corev1.TLSCertKey)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return tls.Certificate{}, err
	}
	if !pair.Leaf.IsCA {
		return tls.Certificate{}, errors.New("it holds no authority")
	}
	return pair, nil
}

// Sign implements cmtls.Authority. The certificate is valid for LeafDuration, but not longer than the
// authority.
func (k *authorityKeeper) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	if !k.secrets.HasSynced() {
		return nil, authority.ErrCertificateNotAvailable
	}
	pair, err := readPair(k.secret())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", authority.ErrCertificateNotAvailable, err)
	}
	remaining := time.Until(pair.Leaf.NotAfter)
	if remaining <= 0 {
		return nil, fmt.Errorf("%w: the authority has expired", authority.ErrCertificateNotAvailable)
	}
	template.BasicConstraintsValid = true
	return issue(template, pair.Leaf, template.PublicKey, pair.PrivateKey, min(k.options.LeafDuration, remaining))
}

// issue signs a certificate that is valid for duration from now, and slightly before.
func issue(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.PrivateKey, duration time.Duration) (*x509.Certificate, error) {
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdate(duration)), now.Add(duration)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// WatchRotation implements cmtls.Authority.
func (k *authorityKeeper) WatchRotation(output chan<- struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watches = append(k.watches, output)
}

// StopWatchingRotation implements cmtls.Authority.
func (k *authorityKeeper) StopWatchingRotation(output chan<- struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watches = slices.DeleteFunc(k.watches, func(other chan<- struct{}) bool { return other == output })
}
