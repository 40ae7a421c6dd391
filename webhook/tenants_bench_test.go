package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
)

// A large cluster: the objects of others, and tenants who have filled everything that is kept of
// them to its bounds.
const (
	manyNamespaces = 5000
	manyWebhooks   = 500 // and as many CustomResourceDefinitions
	manyTenants    = 25  // in a namespace each
)

func namespaced(gv schema.GroupVersion, plural string) cluster.Resource {
	return cluster.Resource{GroupVersionResource: gv.WithResource(plural), Namespaced: true}
}

func clusterScoped(gv schema.GroupVersion, plural string) cluster.Resource {
	return cluster.Resource{GroupVersionResource: gv.WithResource(plural)}
}

var (
	namespacesIn    = clusterScoped(corev1.SchemeGroupVersion, "namespaces")
	podsIn          = namespaced(corev1.SchemeGroupVersion, "pods")
	servicesIn      = namespaced(corev1.SchemeGroupVersion, "services")
	accountsIn      = namespaced(corev1.SchemeGroupVersion, "serviceaccounts")
	configMapsIn    = namespaced(corev1.SchemeGroupVersion, "configmaps")
	eventsIn        = namespaced(corev1.SchemeGroupVersion, "events")
	deploymentsIn   = namespaced(appsv1.SchemeGroupVersion, "deployments")
	slicesIn        = namespaced(discoveryv1.SchemeGroupVersion, "endpointslices")
	rolesIn         = namespaced(rbacv1.SchemeGroupVersion, "roles")
	roleBindingsIn  = namespaced(rbacv1.SchemeGroupVersion, "rolebindings")
	webhooksIn      = clusterScoped(admissionregistrationv1.SchemeGroupVersion, "validatingwebhookconfigurations")
	definitionsIn   = clusterScoped(apiextensionsv1.SchemeGroupVersion, "customresourcedefinitions")
	customResources = func(i int) cluster.Resource {
		return namespaced(schema.GroupVersion{Group: fmt.Sprintf("g%d.test", i), Version: "v1"}, "things")
	}
)

// authority returns a caBundle.
var authority = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})

func tenant(i int) string { return fmt.Sprint("tenant-", i) }

// crowd is a world under construction, with the mischief of tenants.
type crowd struct {
	*cluster.World
	b *testing.B
}

func (c crowd) apply(res cluster.Resource, obj runtime.Object, added bool) {
	if err := c.Apply(res, obj, added); err != nil {
		c.b.Error(err)
	}
}

func (c crowd) remove(res cluster.Resource, obj runtime.Object) {
	if err := c.Remove(res, obj); err != nil {
		c.b.Error(err)
	}
}

func meta(namespace, name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}
}

func listed(namespace, name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: meta(namespace, name, finalizers...)}
}

func pod(namespace, name string, ready bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: meta(namespace, name),
		Spec:       corev1.PodSpec{ServiceAccountName: "app", Containers: []corev1.Container{{Name: "app", Image: "registry.test/app:1"}}},
	}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func junk(of string, n int) []string {
	finalizers := make([]string, n)
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("junk.test/%s-%d", of, i)
	}
	return finalizers
}

func endpoints(namespace, service string, ready bool) *discoveryv1.EndpointSlice {
	m := meta(namespace, service)
	m.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return &discoveryv1.EndpointSlice{ObjectMeta: m, Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
}

func forgedEvent(namespace string, n int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: meta(namespace, fmt.Sprint("event-", n)), Reason: "FailedCreate", LastTimestamp: metav1.NewTime(time.Unix(int64(n), 0)),
		Message: fmt.Sprintf(`Internal error occurred: failed calling webhook "hook.%d.test": failed to call webhook: connection refused %d`, n%manyWebhooks, n),
	}
}

// newCrowd returns the large cluster.
func newCrowd(b *testing.B) crowd {
	c := crowd{cluster.NewWorld(cluster.Options{}), b}
	all := []cluster.Resource{
		namespacesIn, podsIn, servicesIn, accountsIn, configMapsIn, eventsIn, deploymentsIn, slicesIn, rolesIn, roleBindingsIn, webhooksIn, definitionsIn,
	}
	for i := range manyWebhooks {
		all = append(all, customResources(i))
	}
	for _, res := range all {
		c.Begin(res)
	}
	fill := func(namespace string, i int) {
		c.apply(namespacesIn, &corev1.Namespace{ObjectMeta: meta("", namespace)}, true)
		c.apply(accountsIn, &corev1.ServiceAccount{ObjectMeta: meta(namespace, "app")}, true)
		c.apply(rolesIn, &rbacv1.Role{ObjectMeta: meta(namespace, "app"), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"update"},
		}}}, true)
		c.apply(roleBindingsIn, &rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, "app"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "app"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "app"}},
		}, true)
		labels := map[string]string{"app": "app"}
		c.apply(deploymentsIn, &appsv1.Deployment{ObjectMeta: meta(namespace, "app"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(namespace, "app", true).Spec,
		}}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}}, true)
		for n := range 2 {
			c.apply(podsIn, pod(namespace, fmt.Sprint("app-", n), true), true)
		}
		c.apply(servicesIn, &corev1.Service{ObjectMeta: meta(namespace, "app"), Spec: corev1.ServiceSpec{Selector: labels}}, true)
		c.apply(slicesIn, endpoints(namespace, "app", true), true)
		for n := range 3 {
			c.apply(configMapsIn, listed(namespace, fmt.Sprint("app-", n), []string{"app.test/cleanup"}[:n/2]...), true)
		}
		for n := range 3 {
			c.apply(customResources((i+n)%manyWebhooks), listed(namespace, "thing", fmt.Sprintf("g%d.test/finalizer", (i+n)%manyWebhooks)), true)
		}
	}
	for i := range manyNamespaces {
		fill(fmt.Sprint("n", i), i)
	}
	for i := range manyTenants {
		fill(tenant(i), i)
		for n := range 10 {
			name := fmt.Sprint("full-", n)
			c.apply(configMapsIn, listed(tenant(i), name, junk(fmt.Sprint(i, "-", n), 60)...), true)
		}
		for n := range 20 {
			c.apply(eventsIn, forgedEvent(tenant(i), n), true)
		}
	}
	for i := range manyWebhooks {
		name := fmt.Sprint("things.g", i, ".test")
		c.apply(definitionsIn, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: meta("", name), Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: fmt.Sprint("g", i, ".test"), Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}, Scope: apiextensionsv1.NamespaceScoped,
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
				Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: fmt.Sprint("n", i), Name: "app"}, CABundle: authority()},
				}},
			},
		}, true)
		home := fmt.Sprint("n", i)
		if i < manyTenants {
			home = tenant(i) // a team that runs an operator in its own namespace
		}
		hook := admissionregistrationv1.ValidatingWebhook{
			Name:         fmt.Sprintf("hook.%d.test", i),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: home, Name: "app"}, CABundle: authority()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{fmt.Sprint("g", i, ".test"), ""}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}},
		}
		if i%25 == 0 {
			hook.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "others", Expression: `!request.userInfo.username.startsWith("system:serviceaccount:g")`}}
		}
		c.apply(webhooksIn, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: meta("", fmt.Sprint("g", i)), Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
		}, true)
	}
	for _, res := range all {
		c.End(res)
	}
	c.Settle()
	return c
}

// mischief is the n-th action of a tenant.
func (c crowd) mischief(n int) {
	namespace := tenant(n % manyTenants)
	switch n / manyTenants % 8 {
	case 0:
		c.apply(eventsIn, forgedEvent(namespace, n), true)
	case 1:
		c.apply(configMapsIn, listed(namespace, "huge", junk(fmt.Sprint("huge", n), 30_000)...), false)
	case 2:
		c.apply(configMapsIn, listed(namespace, "full-1", junk(fmt.Sprint("other", n), 60)...), false)
	case 3:
		c.apply(podsIn, pod(namespace, "app-0", n/manyTenants/8%2 == 0), false)
	case 4:
		c.apply(podsIn, pod(namespace, fmt.Sprint("short-lived-", n), true), true)
		c.remove(podsIn, pod(namespace, fmt.Sprint("short-lived-", n), true))
	case 5:
		c.apply(accountsIn, &corev1.ServiceAccount{ObjectMeta: meta(namespace, fmt.Sprint("sa-", n))}, true)
		c.remove(accountsIn, &corev1.ServiceAccount{ObjectMeta: meta(namespace, fmt.Sprint("sa-", n))})
	case 6: // the backend of its webhook comes and goes
		c.apply(slicesIn, endpoints(namespace, "app", n/manyTenants/8%2 == 0), false)
	case 7:
		c.apply(roleBindingsIn, &rbacv1.RoleBinding{ObjectMeta: meta(namespace, "mine"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "app"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: fmt.Sprint("sa-", n)}}}, n < 8*manyTenants)
	}
}

// quantiles of measured times, in milliseconds.
type quantiles struct {
	mu    sync.Mutex
	taken []time.Duration
}

func (q *quantiles) add(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = append(q.taken, d)
}

func (q *quantiles) report(b *testing.B, what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.taken) == 0 {
		return
	}
	slices.Sort(q.taken)
	at := func(share float64) float64 {
		return q.taken[min(len(q.taken)-1, int(share*float64(len(q.taken))))].Seconds() * 1000
	}
	b.ReportMetric(at(0.5), what+"-p50-ms")
	b.ReportMetric(at(0.99), what+"-p99-ms")
	b.ReportMetric(at(1), what+"-max-ms")
}

// BenchmarkReviewBesideTenants measures reviews in a cluster of 5,000 namespaces and 500 webhooks,
// at rest and while tenants act as fast as an API server would let them, against the deadline of
// 300 ms. "wait" is how long a reader waits for the facts, "settle" how long it takes to settle
// them.
func BenchmarkReviewBesideTenants(b *testing.B) {
	c := newCrowd(b)
	h := NewHandler(Options{Log: quiet, Evaluator: realEngine(b), Facts: c})
	review := func(namespace string) time.Duration {
		sent := body(b, v1, strings.ReplaceAll(deleteNamespace, "demo", namespace))
		began := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent)))
		if w.Code != http.StatusOK {
			b.Error(w.Code, w.Body)
		}
		return time.Since(began)
	}
	for _, beside := range []struct {
		name            string
		events, reviews int // a second
	}{
		{"nothing", 0, 0}, {"events", 200, 0}, {"reviews", 0, 20}, {"both", 200, 20},
	} {
		b.Run(beside.name, func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			var reviews, theirs, waits, settles quantiles
			every := func(interval time.Duration, do func(n int)) {
				running.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						do(n)
						time.Sleep(interval)
					}
				})
			}
			if beside.events > 0 {
				every(time.Second/time.Duration(beside.events), c.mischief)
			}
			if beside.reviews > 0 {
				every(time.Second/time.Duration(beside.reviews), func(n int) { theirs.add(review(tenant(n % manyTenants))) })
			}
			every(100*time.Millisecond, func(int) {
				began := time.Now()
				c.Settle()
				settles.add(time.Since(began))
			})
			every(time.Millisecond, func(int) {
				began := time.Now()
				c.View(func(map[string]any) {})
				waits.add(time.Since(began))
			})
			n := 0
			for b.Loop() {
				n++
				reviews.add(review(fmt.Sprint("n", n%manyNamespaces)))
				time.Sleep(2 * time.Millisecond)
			}
			reviews.report(b, "review")
			theirs.report(b, "theirs")
			waits.report(b, "wait")
			settles.report(b, "settle")
		})
	}
}
