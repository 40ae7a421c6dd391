package cluster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/termguard/termguard/internal/background"
)

// panics records the parts that panicked, in order.
type panics struct {
	mu    sync.Mutex
	parts []string
}

func (p *panics) context(t *testing.T) context.Context {
	return background.With(t.Context(), func(part string, _ any, _ []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.parts = append(p.parts, part)
	})
}

func (p *panics) want(t *testing.T, parts ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(parts, p.parts); diff != "" {
		t.Errorf("counted panics: -want +got\n%s", diff)
	}
}

// TestPanicInSettling checks that facts that a panic left unsettled are settled when the part
// restarts.
func TestPanicInSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted panics
		ctx, cancel := context.WithCancel(counted.context(t))
		defer cancel()
		armed := true
		w := NewWorld(Options{Now: func() time.Time {
			if armed {
				armed = false
				panic("boom")
			}
			return time.Now()
		}})
		services, slicesOf := namespaced(corev1.SchemeGroupVersion, "services"), namespaced(discoveryv1.SchemeGroupVersion, "endpointslices")
		definitions := cluster(apiextensionsv1.SchemeGroupVersion, "customresourcedefinitions")
		for _, res := range []Resource{services, slicesOf, definitions} {
			w.Begin(res)
			defer w.End(res)
		}
		m := metav1.ObjectMeta{Namespace: "demo", Name: "converter", Labels: map[string]string{discoveryv1.LabelServiceName: "converter"}}
		for res, obj := range map[Resource]runtime.Object{
			services: &corev1.Service{ObjectMeta: m},
			slicesOf: &discoveryv1.EndpointSlice{ObjectMeta: m, Endpoints: []discoveryv1.Endpoint{{}}},
			definitions: &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: "widgets.x.io"},
				Spec: apiextensionsv1.CustomResourceDefinitionSpec{Conversion: &apiextensionsv1.CustomResourceConversion{
					Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
						Service: &apiextensionsv1.ServiceReference{Namespace: "demo", Name: "converter"}, CABundle: []byte("no certificate"),
					}},
				}},
			},
		} {
			apply(t, w, res, obj, true)
		}
		go background.Keep(ctx, "settling", w.KeepSettled)
		time.Sleep(10 * time.Second) // the bubble's own
		synctest.Wait()
		counted.want(t, "settling")
		if got := at(w, "unconverted", "widgets.x.io"); got == nil {
			t.Error("facts left unsettled by the panic stay unsettled")
		}
	})
}

// TestPanicInDialling checks that a panic costs its endpoint one check and nothing else.
func TestPanicInDialling(t *testing.T) {
	var counted panics
	w := world(t, `
{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: demo}, spec: {clusterIP: 192.0.2.1}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: hook, namespace: demo, labels: {kubernetes.io/service-name: hook}}, endpoints: [{conditions: {ready: true}}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: it}
webhooks: [{name: hook.x.io, clientConfig: {service: {namespace: demo, name: hook}}}]
`)
	w.TryCertificates(counted.context(t), func(context.Context, Backend) Handshake { panic("boom") }, nil)
	counted.want(t, "certificates of webhooks")
}
