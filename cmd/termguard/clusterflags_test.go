package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// TestKubeconfig reaches a cluster in the ways that kubectl knows: requests arrive as each
// kubeconfig says.
func TestKubeconfig(t *testing.T) {
	race.Skip(t)
	const world = "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: team}}"
	folder := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := file("login", "#!/bin/sh\necho '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"from-a-program\"}}'\n", 0o755)
	token := file("token", "from-a-file", 0o600)
	const contexts = `contexts: [{name: c, context: {cluster: c, user: u, namespace: team}}, {name: d, context: {cluster: c, user: v, namespace: team}}]`
	for name, tc := range map[string]struct {
		reason string
		config string // %[1]q is the server, %[2]q a proxy, %[3]q the authority
		more   string // a second file
		flags  []string
		bearer string
		proxy  bool
	}{
		"Exec": {
			reason: "a program logs in", bearer: "from-a-program",
			config: `{current-context: c, ` + contexts + `, clusters: [{name: c, cluster: {server: %[1]q, certificate-authority: %[3]q}}], users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ` + program + `, interactiveMode: Never}}}]}`,
		},
		"TokenFile": {
			reason: "a token is in a file", bearer: "from-a-file",
			config: `{current-context: c, ` + contexts + `, clusters: [{name: c, cluster: {server: %[1]q, certificate-authority: %[3]q}}], users: [{name: u, user: {tokenFile: ` + token + `}}]}`,
		},
		"Proxy": {
			reason: "the cluster is behind a proxy; without TLS, no token is sent", proxy: true,
			config: `{current-context: c, ` + contexts + `, clusters: [{name: c, cluster: {server: "http://cluster.invalid", proxy-url: %[2]q}}], users: [{name: u, user: {token: t}}]}`,
		},
		"Files": {
			reason: "KUBECONFIG names several files, which are one", bearer: "second",
			config: `{current-context: c, ` + contexts + `}`,
			more:   `{clusters: [{name: c, cluster: {server: %[1]q, certificate-authority: %[3]q}}], users: [{name: u, user: {token: second}}]}`,
		},
		"Context": {
			reason: "a flag names another context", bearer: "v", flags: []string{"--context", "d"},
			config: `{current-context: c, ` + contexts + `, clusters: [{name: c, cluster: {server: %[1]q, certificate-authority: %[3]q}}], users: [{name: u, user: {token: u}}, {name: v, user: {token: v}}]}`,
		},
		"Token": {
			reason: "flags name user and token", bearer: "typed", flags: []string{"--user", "v", "--token", "typed"},
			config: `{current-context: c, ` + contexts + `, clusters: [{name: c, cluster: {server: %[1]q, certificate-authority: %[3]q}}], users: [{name: v, user: {}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, world)
			var mu sync.Mutex
			seen := map[string]bool{}
			c.arrived = func(r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				seen[fmt.Sprintf("%s, by proxy: %v", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Host == "cluster.invalid")] = true
			}
			server, proxy := httptest.NewTLSServer(c), httptest.NewServer(c)
			defer server.Close()
			defer proxy.Close()
			ca := file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o600)
			head := "apiVersion: v1, kind: Config, "
			write := func(file, text string) string {
				path := filepath.Join(t.TempDir(), file)
				text = strings.Replace(text, "{", "{"+head, 1)
				text = strings.NewReplacer("%[1]q", fmt.Sprintf("%q", server.URL), "%[2]q", fmt.Sprintf("%q", proxy.URL), "%[3]q", fmt.Sprintf("%q", ca)).Replace(text)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			files := write("one", tc.config)
			if tc.more != "" {
				files += string(filepath.ListSeparator) + write("two", tc.more)
			}
			t.Setenv("KUBECONFIG", files)
			var out, errs bytes.Buffer
			if code := run(t.Context(), append([]string{"termguard", "check", "cm/plain"}, tc.flags...), nil, &out, &errs); code != 0 {
				t.Fatalf("%s: exit code %d: %s%s", tc.reason, code, &out, &errs)
			}
			want := fmt.Sprintf("%s, by proxy: %v", tc.bearer, tc.proxy)
			if len(seen) != 1 || !seen[want] {
				t.Errorf("%s: requests arrived with %v, want only %q", tc.reason, seen, want)
			}
		})
	}
}
