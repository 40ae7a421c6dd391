package hostile

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const silentAPI = `
{apiVersion: v1, kind: Namespace, metadata: {name: doomed, labels: {termguard.dev/enforce: deny}, finalizers: [finalizers.kubesphere.io/namespaces]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: plain}}
---
{apiVersion: v1, kind: Service, metadata: {name: silent, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: silent, namespace: default, labels: {kubernetes.io/service-name: silent}}, addressType: IPv4, ports: [{port: 443}], endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.silent.test}
spec: {group: silent.test, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: default, name: silent}}
`

// TestSilentAPI: an extension API server that never answers holds up neither termguard's start nor its answers.
func TestSilentAPI(t *testing.T) {
	t.Parallel()
	g, err := scenario.Guard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := g.Apply(ctx, silentAPI); err != nil {
		t.Fatal(err)
	}
	discovery, hang := lab.ExtensionAPI("silent.test", "v1", "silents", "Silent", "delete", "get", "list", "watch"), lab.Hang()
	err = g.ServeEndpoints(ctx, "default", "silent", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/silents") {
			hang.ServeHTTP(w, r)
			return
		}
		discovery.ServeHTTP(w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := g.Kubectl(ctx, "wait", "apiservice/v1.silent.test", "--for=condition=Available", "--timeout=60s"); err != nil || r.Code != 0 {
		t.Fatalf("the API is not available: %v %s", err, r.Stderr)
	}
	if err := g.Termguard.Stop(); err != nil {
		t.Fatal(err)
	}
	binary, err := scenario.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.StartTermguard(ctx, binary); err != nil { // waits for readiness
		t.Fatal(err)
	}
	var lines []string
	err = g.Await(ctx, 60*time.Second, "the refusal of what hangs", func(ctx context.Context) (bool, error) {
		got, current, err := answer(ctx, g.Config(), "doomed")
		lines = current
		return got == "refused", err
	})
	if err != nil {
		t.Fatalf("%v\nlast answer: %q", err, lines)
	}
	// Missing facts are reported: the namespace may contain objects of that API.
	err = g.Await(ctx, 60*time.Second, "the API to be unseen", func(ctx context.Context) (bool, error) {
		got, current, err := answer(ctx, g.Config(), "plain")
		lines = current
		return got == scenario.Unknown && strings.Contains(strings.Join(current, "\n"), "silents.silent.test"), err
	})
	if err != nil {
		t.Errorf("%v\nlast answer: %q", err, lines)
	}
}
