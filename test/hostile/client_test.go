package hostile

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// TestClientCertificate checks that termguard answers only the client with the right certificate: requests pass
// unreviewed with a wrong one.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authorities := map[string]*lab.Authority{}
	for _, name := range []string{"right", "wrong"} {
		a, err := lab.NewAuthority(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".crt"), a.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		authorities[name] = a
	}
	flag, err := scenario.PresentCertificate(authorities["right"], "kube-apiserver", folder)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	g, admin := startGuarded(t, lab.Options{Progress: t.Output(), APIServer: []string{flag}})
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	address, err := g.ClusterIP(ctx, "termguard-system", "termguard")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		authority, name string
		reviewed        bool
	}{
		{"right", "kube-apiserver", true},
		{"right", "somebody-else", false},
		{"wrong", "kube-apiserver", false},
	} {
		asks := fmt.Sprintf("with the %s authority and name %s", tc.authority, tc.name)
		if err := g.Termguard.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := g.StartTermguard(ctx, binary, "--client-ca-file", filepath.Join(folder, tc.authority+".crt"), "--client-cn", tc.name); err != nil {
			t.Fatal(err)
		}
		before, err := failedOpen(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		got, lines, err := answer(ctx, g.Config(), "doomed")
		if err != nil {
			t.Fatalf("%s: the delete fails: %v", asks, err)
		}
		after, err := failedOpen(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		if tc.reviewed && (got != "refused" || after != before) {
			t.Errorf("%s: answer %q (%q), fail-open calls from %d to %d", asks, got, lines, before, after)
		}
		if !tc.reviewed && (got != scenario.Completes || len(lines) > 0 || after == before) {
			t.Errorf("%s: answer %q (%q), fail-open calls from %d to %d", asks, got, lines, before, after)
		}
		outsider, key, err := authorities["wrong"].Issue("kube-apiserver", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(outsider, key)
		if err != nil {
			t.Fatal(err)
		}
		for who, certificates := range map[string][]tls.Certificate{"nobody": nil, "a stranger": {pair}} {
			if who == "a stranger" && tc.authority == "wrong" {
				continue // this client has the required authority
			}
			client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
			response, err := client.Post("https://"+address+"/validate", "application/json", strings.NewReader(forgedDelete))
			if err == nil {
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				t.Errorf("%s: answer to %s is %s: %s", asks, who, response.Status, body)
			}
		}
	}
}

// forgedDelete is a review that would reveal the content of a namespace.
const forgedDelete = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE",
"kind":{"group":"","version":"v1","kind":"Namespace"},"resource":{"group":"","version":"v1","resource":"namespaces"},"name":"doomed","namespace":"doomed","userInfo":{"username":"mallory"},
"oldObject":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"doomed"}},"options":{}}}`
