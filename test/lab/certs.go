package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority %s: %w", name, err)
	}
	return &Authority{cert: c, key: key}, nil
}

func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.cert.Raw})
}

// Issue certifies clients and servers for a day.
func (a *Authority) Issue(name string, groups, hosts []string, addresses ...string) (certPEM, keyPEM []byte, err error) {
	return a.IssueUntil(time.Now().Add(24*time.Hour), name, groups, hosts, addresses...)
}

func (a *Authority) IssueUntil(end time.Time, name string, groups, hosts []string, addresses ...string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		DNSNames:     hosts,
		NotBefore:    end.Add(-25 * time.Hour),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM, nil
}

func (l *Lab) write(name string, data []byte) (string, error) {
	path := filepath.Join(l.dir, name)
	return path, os.WriteFile(path, data, 0o600)
}

func (l *Lab) writePair(a *Authority, name, user string, groups, hosts []string, addresses ...string) error {
	certPEM, keyPEM, err := a.Issue(user, groups, hosts, addresses...)
	if err != nil {
		return err
	}
	if _, err := l.write(name+".crt", certPEM); err != nil {
		return err
	}
	_, err = l.write(name+".key", keyPEM)
	return err
}
