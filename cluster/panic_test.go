package cluster

import (
	"context"
	"log/slog"
	"net"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/termguard/termguard/internal/background"
)

// panics are the parts that panicked, in order.
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
		t.Errorf("panics that were counted: -want +got\n%s", diff)
	}
}

// TestPanicInWatch: an object on which a part panics makes its resource unseen, no
// more; and once the part copes with it, the facts are whole.
func TestPanicInWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted panics
		ctx := counted.context(t)
		left := 2
		kinds[widgets.String()] = &kind{Resource: widgets, keepers: []keeper{{
			keep: func(_ *World, obj runtime.Object) bool {
				if m := obj.(metav1.Object); m.GetName() == "poison" && left > 0 {
					left--
					panic("boom")
				}
				return false
			},
			forget: func(*World, types.NamespacedName) {},
		}}}
		defer delete(kinds, widgets.String())
		w := NewWorld(Options{})
		l := &Live{
			world: w, log: slog.New(slog.DiscardHandler), lists: make(places, 1), slow: make(places, 1), kick: make(chan struct{}, 1),
			feeds: map[string]*feed{}, groups: map[string]places{}, listed: true,
		}
		f := &feed{Resource: widgets, verbs: sets.New("list", "watch"), source: fakeSource{watch: func(metav1.ListOptions) (watch.Interface, error) {
			return events(
				watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Added, Object: widget("poison")},
				watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Bookmark, Object: bookmark()},
			), nil
		}}}
		l.feeds[f.String()] = f
		go l.feed(ctx, f)
		synctest.Wait()
		counted.want(t, "watch")
		if got := unseenReason(w); got != "error" {
			t.Errorf("a resource whose watch failed is unseen for %v", got)
		}
		time.Sleep(time.Minute) // the bubble's own
		synctest.Wait()
		counted.want(t, "watch", "watch")
		if got := unseenReason(w); got != nil {
			t.Errorf("once it is read, it is unseen for %v", got)
		}
		if got := at(w, "counts", "demo", "widgets.x.io"); got != 3 {
			t.Errorf("%v widgets are counted, want 3", got)
		}
		w.Settle()
		if groups, _ := at(w, "finalized", "demo", "x.io/f", "widgets.x.io").(map[string]any); len(groups) != 1 {
			t.Errorf("groups of widgets with finalizers: %v", groups)
		} else {
			for _, group := range groups {
				if got := group.(map[string]any)["count"]; got != 3 {
					t.Errorf("%v widgets with finalizers are counted, want 3", got)
				}
			}
		}
	})
}

// TestPanicInSettling: what a panic kept from being settled is settled when the part
// starts again.
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
		go background.Keep(ctx, "settling", w.keepSettled)
		time.Sleep(10 * time.Second) // the bubble's own
		synctest.Wait()
		counted.want(t, "settling")
		if got := at(w, "unconverted", "widgets.x.io"); got == nil {
			t.Error("what was being settled when it panicked is left as it was")
		}
	})
}

// TestPanicInDialling: it costs that endpoint a look, and nothing else.
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
	w.tryCertificates(counted.context(t), func(context.Context, string, string) (net.Conn, error) { panic("boom") })
	counted.want(t, "certificates of webhooks")
}
