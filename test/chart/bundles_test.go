package chart

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/test/lab"
)

// TestBundles installs the chart with two signed bundles of policies: one in a registry that
// wants credentials, one on a web server. What they forbid is refused. A new version is in
// force soon; one that somebody else signed is not, and is told of. A replica that starts
// while neither can be reached starts all the same.
func TestBundles(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const secret = "correct horse battery staple"
	registry := bundletest.NewRegistry(t)
	registry.User, registry.Password = "robot", "secret"
	push := func(secret, says string) {
		t.Helper()
		if _, err := registry.Push(ctx, "team/policies:1", bundleOf(t, secret, "keep-namespace", "example.com/keep", says), ""); err != nil {
			t.Fatal(err)
		}
	}
	push(secret, "is kept")
	served := bundleOf(t, secret, "ask-first", "example.com/ask", "is asked about first")
	var down atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(served)
	}))
	t.Cleanup(web.Close)
	login := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(login, fmt.Appendf(nil, `{"auths": {%q: {"username": "robot", "password": "secret"}}}`, registry.Host), 0o600); err != nil {
		t.Fatal(err)
	}

	l, err := lab.Start(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	s := newSite(t, l)
	s.args = []string{"--registry-config=" + login} // which a node would mount
	s.kubectl("create", "namespace", "stuck")
	s.kubectl("label", "namespace", "stuck", "example.com/keep=", "example.com/ask=")
	s.helm("install", "termguard", chart(), "--namespace", home, "--create-namespace",
		"--set", "policyBundles={oci://"+registry.Host+"/team/policies:1,"+web.URL+"/bundle.tar.gz}", "--set", "bundlePullSecret=registry",
		"--set", "verificationKey="+bundletest.KeyFile(t, secret), "--set", "extraArgs={--signing-alg=HS256,--bundle-poll=1s,--deadline=900ms}",
		"--set", "otherPolicies={keep-namespace}", "--set", "config.enforcement.policies.keep-namespace=deny")
	s.start()
	says := func(refused bool, sentences ...string) func(lab.Result) bool {
		return func(r lab.Result) bool {
			for _, sentence := range sentences {
				if !strings.Contains(r.Stderr, sentence) {
					return false
				}
			}
			return refused == (r.Code != 0)
		}
	}
	s.awaitAnswer("refuses what the bundle of the registry forbids, and warns of the other", says(true, "namespace stuck is kept [keep-namespace]", "namespace stuck is asked about first [ask-first]"))
	push(secret, "stays")
	s.awaitAnswer("goes by the new version", says(true, "namespace stuck stays [keep-namespace]"))
	push("another", "may go")
	s.awaitReady("[!]policies: refused, and what was before stays (see the log): oci://" + registry.Host + "/team/policies:1")
	s.awaitAnswer("keeps to the version that was signed", says(true, "namespace stuck stays [keep-namespace]", "is asked about first"))

	registry.Break(true)
	down.Store(true)
	s.restart()
	s.awaitAnswer("starts without bundles, and lets through what they forbid", func(r lab.Result) bool {
		return r.Code == 0 && !strings.Contains(r.Stderr, "keep-namespace")
	})
	s.awaitReady("[!]policies: refused, and what was before stays (see the log): " + web.URL + "/bundle.tar.gz")
	registry.Break(false)
	down.Store(false)
	push(secret, "is back")
	s.awaitAnswer("has them when they can be reached", says(true, "namespace stuck is back [keep-namespace]", "is asked about first"))
}

// awaitReady waits for readyz to say a line, and to answer that it is ready.
func (s *site) awaitReady(line string) {
	s.t.Helper()
	address, err := s.ClusterIP(s.t.Context(), home, "termguard")
	if err != nil {
		s.t.Fatal(err)
	}
	said := ""
	if err := s.Await(s.t.Context(), 60*time.Second, "readyz to say "+line, func(ctx context.Context) (bool, error) {
		response, err := http.Get("http://" + address + ":8081/readyz?verbose")
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		said = string(body)
		return response.StatusCode == http.StatusOK && strings.Contains(said, line), err
	}); err != nil {
		s.t.Fatalf("%v\nlast: %s", err, said)
	}
}

// bundleOf is a signed bundle with a policy that forbids to delete namespaces with a label.
func bundleOf(t *testing.T, secret, id, label, says string) []byte {
	t.Helper()
	name := strings.ReplaceAll(id, "-", "_")
	return bundletest.Archive(t, secret, map[string]string{"/" + name + "/" + name + ".rego": ruleOf(id, label, says)})
}

// ruleOf is that policy.
func ruleOf(id, label, says string) string {
	return `# METADATA
# title: Namespace with a label
# description: A rule of our own.
# related_resources:
#   - ref: https://example.com
# custom:
#   id: ` + id + `
#   severity: low
#   triggers: [delete]
#   resources: [namespaces]
#   remedy: Ask.
#   limits: None.
package termguard.` + strings.ReplaceAll(id, "-", "_") + `

deny contains {"msg": sprintf("namespace %s ` + says + `", [input.request.name]), "kind": "forbidden"} if {
	input.request.operation == "DELETE"
	"` + label + `" in object.keys(input.request.oldObject.metadata.labels)
}
`
}
