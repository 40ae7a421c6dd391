// Package hostile tests termguard against hostile tenants, with the rights of "edit" in one namespace and
// network access to its port.
package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// HOSTILE_FOR overrides both.
const mischiefFor, mischiefForShort = 2 * time.Minute, 20 * time.Second

const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: doomed, labels: {termguard.dev/enforce: deny}, finalizers: [finalizers.kubesphere.io/namespaces]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ordinary}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: ordinary}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: unsure}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: unsure, finalizers: [gone.test/cleanup]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: mallory, namespace: tenant}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mallory, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: mallory, namespace: tenant}]
`

var victims = map[string]string{"doomed": "refused", "ordinary": scenario.Completes, "unsure": scenario.AtRisk}

type warnings struct{ lines []string }

func (s *warnings) HandleWarningHeader(_ int, _, text string) {
	if line, ours := strings.CutPrefix(text, "termguard: "); ours {
		s.lines = append(s.lines, line)
	}
}

func answer(ctx context.Context, config *rest.Config, namespace string) (string, []string, error) {
	var collected warnings
	config = rest.CopyConfig(config)
	config.WarningHandler = &collected
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, err
	}
	err = client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "will hang"):
		return "refused", collected.lines, nil
	case err != nil:
		return "", collected.lines, err
	}
	return scenario.Verdict(collected.lines), collected.lines, nil
}

// failedOpen returns how many requests the API server let pass without termguard.
func failedOpen(ctx context.Context, client kubernetes.Interface) (int, error) {
	calls, err := scenario.CallsOf(ctx, client, ".termguard.dev")
	return calls.FailedOpen, err
}

func startGuarded(t *testing.T, options lab.Options) (*scenario.Guarded, kubernetes.Interface) {
	t.Helper()
	g, err := scenario.Guard(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	if err := g.Apply(t.Context(), world); err != nil {
		t.Fatal(err)
	}
	admin, err := g.Client()
	if err != nil {
		t.Fatal(err)
	}
	return g, admin
}

// TestTenants checks that a tenant's actions neither change the answers to others nor let their requests pass
// unreviewed. One answer in a hundred may say that it was not fully checked: everything shares the machine's
// cores, and a policy has 200 ms.
func TestTenants(t *testing.T) {
	ctx := t.Context()
	g, admin := startGuarded(t, lab.Options{Progress: t.Output()})
	tenantConfig, err := g.ServiceAccountConfig(ctx, "tenant", "mallory")
	if err != nil {
		t.Fatal(err)
	}
	tenantConfig.QPS, tenantConfig.WarningHandler = -1, rest.NoWarnings{}
	tenant, err := kubernetes.NewForConfig(tenantConfig)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range victims {
		var lines []string
		if err := g.Await(ctx, 60*time.Second, fmt.Sprintf("%q on %s", want, namespace), func(ctx context.Context) (bool, error) {
			got, current, err := answer(ctx, g.Config(), namespace)
			lines = current
			return got == want, err
		}); err != nil {
			t.Fatalf("%v\nlast answer: %q", err, lines)
		}
	}
	before, err := failedOpen(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}

	limit := mischiefFor
	if !lab.Nightly() {
		limit = mischiefForShort
	}
	if text := os.Getenv("HOSTILE_FOR"); text != "" {
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	address, err := g.ClusterIP(ctx, "termguard-system", "termguard")
	if err != nil {
		t.Fatal(err)
	}
	mischief, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var running sync.WaitGroup
	done := map[string]*tally{}
	for name, what := range pranks(tenant, address+":443") {
		count := &tally{}
		done[name] = count
		running.Go(func() {
			for n := 0; mischief.Err() == nil; n++ {
				if err := what(mischief, n); err != nil && mischief.Err() == nil {
					count.fail(err)
				} else if mischief.Err() == nil {
					count.ok()
				}
				pause(mischief, 200*time.Millisecond)
			}
		})
	}
	total, late := 0, 0
	for mischief.Err() == nil {
		for namespace, want := range victims {
			got, lines, err := answer(ctx, g.Config(), namespace)
			switch {
			case err == nil && slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "not checked in full: a policy failed") }):
				late++
			case err != nil || got != want:
				t.Errorf("request %d, after %v: answer to deleting %s is %q (%q, %v), want %q", total, limit, namespace, got, lines, err, want)
				stop()
			}
			total++
		}
		pause(mischief, 100*time.Millisecond)
	}
	running.Wait()
	for name, count := range done {
		t.Logf("%s: %s", name, count)
		if count.done == 0 {
			t.Errorf("%s: never worked, so that nothing was proven (%v)", name, count.last)
		}
	}
	after, err := failedOpen(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("%d of %d requests were not reviewed", after-before, total)
	}
	if late > max(1, total/100) {
		t.Errorf("%d of %d answers were not checked in full: want at most one in a hundred", late, total)
	}
	t.Logf("%d questions of others, answered as before but for %d that were not checked in full", total, late)
}

type tally struct {
	mu           sync.Mutex
	done, failed int
	last         error
}

func (c *tally) ok() { c.mu.Lock(); c.done++; c.mu.Unlock() }

func (c *tally) fail(err error) { c.mu.Lock(); c.failed++; c.last = err; c.mu.Unlock() }

func (c *tally) String() string {
	return fmt.Sprintf("%d times, %d refused (%v)", c.done, c.failed, c.last)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func pranks(tenant kubernetes.Interface, port string) map[string]func(context.Context, int) error {
	core := tenant.CoreV1()
	configMap := func(name string, finalizers ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", Finalizers: finalizers}}
	}
	strip := []byte(`{"metadata":{"finalizers":null}}`)
	remove := func(ctx context.Context, name string) error {
		if err := core.ConfigMaps("tenant").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err := core.ConfigMaps("tenant").Patch(ctx, name, types.MergePatchType, strip, metav1.PatchOptions{FieldManager: "mallory"})
		return err
	}
	insecure := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	post := func(ctx context.Context, body io.Reader) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+port+"/validate", body)
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := insecure.Do(request)
		if err != nil {
			return nil // the connection was cut, which is fine
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return nil
	}
	return map[string]func(context.Context, int) error{
		"a claim that is declared to hang, and is deleted": func(ctx context.Context, n int) error {
			name := fmt.Sprintf("claim-%d", n)
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", Annotations: map[string]string{
					"termguard.dev/finalizer-owner": "Deployment/no/no", "termguard.dev/allow-hang": "mischief",
				}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			if _, err := core.PersistentVolumeClaims("tenant").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
				return err
			}
			return core.PersistentVolumeClaims("tenant").Delete(ctx, name, metav1.DeleteOptions{})
		},
		"a finalizer of others removed from one's own object": func(ctx context.Context, n int) error {
			name := fmt.Sprintf("lesson-%d", n)
			if _, err := core.ConfigMaps("tenant").Create(ctx, configMap(name, "gone.test/cleanup", "kiali.io/finalizer"), metav1.CreateOptions{}); err != nil {
				return err
			}
			return remove(ctx, name)
		},
		"junk finalizers by the hundred": func(ctx context.Context, n int) error {
			name := fmt.Sprintf("junk-%d", n)
			var junk []string
			for i := range 100 {
				junk = append(junk, fmt.Sprintf("junk.test/%d-%d", n, i))
			}
			if _, err := core.ConfigMaps("tenant").Create(ctx, configMap(name, junk...), metav1.CreateOptions{}); err != nil {
				return err
			}
			return remove(ctx, name)
		},
		"30,000 finalizers on one object": func(ctx context.Context, n int) error {
			name := fmt.Sprintf("many-%d", n%3)
			many := make([]string, 30000)
			for i := range many {
				many[i] = fmt.Sprintf("many.test/%d-%d", n, i)
			}
			_, err := core.ConfigMaps("tenant").Create(ctx, configMap(name, many...), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return remove(ctx, name)
			}
			return err
		},
		"events about webhooks that do not fail": func(ctx context.Context, n int) error {
			at := metav1.Now()
			_, err := core.Events("tenant").Create(ctx, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", n), Namespace: "tenant"},
				InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "tenant", Name: "it"},
				Reason:         "FailedCreate", Type: corev1.EventTypeWarning, FirstTimestamp: at, LastTimestamp: at, Count: 100,
				Message: fmt.Sprintf(`Internal error occurred: failed calling webhook "hook%d.test": failed to call webhook: Post "https://hook.ordinary.svc:443/": connection refused`, n),
			}, metav1.CreateOptions{})
			return err
		},
		"forged reviews": func(ctx context.Context, n int) error {
			return post(ctx, strings.NewReader(fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u%d","operation":"DELETE",
"kind":{"group":"","version":"v1","kind":"Namespace"},"resource":{"group":"","version":"v1","resource":"namespaces"},"name":"never-%d","namespace":"never-%d","userInfo":{"username":"mallory"},
"oldObject":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"never-%d","uid":"x%d","finalizers":["finalizers.kubesphere.io/namespaces"],"annotations":{"termguard.dev/allow-hang":"mischief"}}},"options":{}}}`, n, n, n, n, n)))
		},
		"enormous bodies": func(ctx context.Context, n int) error {
			return post(ctx, bytes.NewReader(append([]byte(`{"request":`), bytes.Repeat([]byte(`[{"a":0},`), 1_300_000)...)))
		},
		"silent connections": func(ctx context.Context, n int) error {
			for range 50 {
				connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", port)
				if err != nil {
					return nil // the server accepts no more
				}
				context.AfterFunc(ctx, func() { connection.Close() })
				time.AfterFunc(10*time.Second, func() { connection.Close() })
			}
			return nil
		},
	}
}
