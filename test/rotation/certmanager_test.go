package rotation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/test/lab"
)

// TestCertManager runs cert-manager's controllers with its CA injector, and two replicas that read the files of
// its Secret.
func TestCertManager(t *testing.T) {
	s := newSite(t)
	defer s.write("cert-manager")
	s.certManager()
	files := s.mount("termguard-tls")
	for n := range 2 {
		s.join(s.replica(s.binary, n, "--tls-cert-file", filepath.Join(files, "tls.crt"), "--tls-key-file", filepath.Join(files, "tls.key")))
	}
	renew := func(certificate string) func() {
		return func() {
			s.kubectl("patch", "certificate", certificate, "-n", home, "--subresource=status", "--type=merge", "-p",
				`{"status": {"conditions": [{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "as cmctl renew does"}]}}`)
		}
	}
	s.checkReviewed("both replicas start", func() {})
	for _, step := range []struct {
		name string
		do   func()
		done func(before, after state) bool
	}{
		{"the serving certificate is renewed (cmctl renew)", renew("termguard"), newLeaves},
		{"the Secret of the serving certificate is deleted", func() { s.kubectl("delete", "secret", "termguard-tls", "-n", home) }, newLeaves},
		{"the authority's certificate is renewed, its key kept", renew("termguard-ca"), newAuthority},
		{"the serving certificate is renewed after it", renew("termguard"), newLeaves},
		{"the authority gets a new key: its Secret is deleted", func() { s.kubectl("delete", "secret", "termguard-ca", "-n", home) },
			func(before, after state) bool { return before.authority != after.authority }},
		{"the serving certificate is renewed by the new key", renew("termguard"), newLeaves},
		{"the old key is taken from the caBundle", s.trustOnly, func(_, after state) bool { return after.trusted == after.authority }},
	} {
		s.under(step.name, step.do, step.done)
	}
}

// trustOnly removes old authorities from the caBundles, which the injector keeps.
func (s *site) trustOnly() {
	s.t.Helper()
	r, err := s.Shell(s.t.Context(), forget)
	if err != nil || r.Code != 0 {
		s.t.Fatalf("%s: %v %s", forget, err, r.Stderr)
	}
}

// forget is the command of test/results/certificates.md.
const forget = `kubectl get validatingwebhookconfiguration termguard -o json |
  jq --arg ca "$(kubectl get secret termguard-tls -n termguard-system -o jsonpath='{.data.ca\.crt}')" '.webhooks[].clientConfig.caBundle = $ca' |
  kubectl replace -f -`

// certManager runs cert-manager and configures termguard for it, like deploy/overlays.
func (s *site) certManager() {
	s.t.Helper()
	must := func(err error) {
		if err != nil {
			s.t.Helper()
			s.t.Fatal(err)
		}
	}
	ctx := s.t.Context()
	dir, err := lab.BuildSoftware(ctx, "cert-manager", lab.Options{Progress: s.t.Output()})
	must(err)
	s.kubectl("create", "-f", filepath.Join(dir, "manifests", "deploy", "crds"))
	s.kubectl("wait", "--for=condition=Established", "crd", "--all")
	manager, err := s.StartProcess("cert-manager", filepath.Join(dir, "cert-manager"), "--kubeconfig", s.Kubeconfig(), "--inject", "--controllers",
		"issuers,certificaterequests-approver,certificaterequests-issuer-ca,certificaterequests-issuer-selfsigned,certificates-issuing,"+
			"certificates-key-manager,certificates-readiness,certificates-request-manager,certificates-revision-manager,certificates-trigger")
	must(err)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			log := manager.Log()
			s.t.Logf("last log of cert-manager:\n%s", log[max(0, len(log)-4000):])
		}
	})
	s.kubectl("delete", "secret", "termguard-ca", "-n", home, "--ignore-not-found")
	s.kubectl("apply", "-k", filepath.Join(lab.Root(), "deploy", "overlays", "cert-manager"))
	must(s.BeCalledPatiently(ctx)) // the manifests reset it
	s.kubectl("wait", "--for=condition=Ready", "certificate", "--all", "-n", home, "--timeout=2m")
}

// mount plays the kubelet: it replaces all files of a Secret at once. They stay if the Secret is deleted.
func (s *site) mount(secret string) (dir string) {
	s.t.Helper()
	dir = s.t.TempDir()
	last := ""
	look := func(ctx context.Context) error {
		now, err := s.client.CoreV1().Secrets(home).Get(ctx, secret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (now.ResourceVersion == last || len(now.Data["tls.crt"]) == 0) {
			return nil
		}
		if err != nil {
			return err
		}
		version := filepath.Join(dir, now.ResourceVersion)
		if err := os.Mkdir(version, 0o700); err != nil {
			return err
		}
		for name, data := range now.Data {
			if err := os.WriteFile(filepath.Join(version, name), data, 0o600); err != nil {
				return err
			}
		}
		link := filepath.Join(dir, "..data")
		if err := os.Symlink(now.ResourceVersion, link+".new"); err != nil {
			return err
		}
		last = now.ResourceVersion
		return os.Rename(link+".new", link)
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := look(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-s.t.Context().Done():
				return
			case <-tick.C:
				if err := look(s.t.Context()); err != nil && s.t.Context().Err() == nil {
					s.t.Errorf("mount Secret %s: %v", secret, err)
				}
			}
		}
	}()
	s.t.Cleanup(func() { <-ended })
	return dir
}

// write writes the table into the page named by PAGE, between the markers for name.
func (s *site) write(name string) {
	file := os.Getenv("PAGE")
	if file == "" || s.t.Failed() {
		return
	}
	page, err := os.ReadFile(file)
	if err != nil {
		s.t.Error(err)
		return
	}
	begin := fmt.Sprintf("<!-- made by make certificates: %s -->\n", name)
	const end = "<!-- end -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		s.t.Errorf("%s has no lines %q and %q", file, begin, end)
		return
	}
	table := fmt.Sprintf("\n| %d deletes at a time, while … | deletes | lost | refused | unreviewed |\n| --- | --- | --- | --- | --- |\n%s\n\n",
		workers(s.t), strings.Join(s.rows, "\n"))
	if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil {
		s.t.Error(err)
	}
}
