package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/semaphore"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/background"
)

var widgets = cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "widgets"}, Namespaced: true}

// fakeLister answers lists and watches from functions.
type fakeLister struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (s fakeLister) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return s.list(o)
}

func (s fakeLister) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.watch(o)
}

// silentLister accepts requests and answers none; if drips is set, it begins to answer watches, and
// sends an object now and then.
type silentLister struct{ drips bool }

func (silentLister) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s silentLister) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if !s.drips {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := watch.NewRaceFreeFake()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			w.Add(widget(fmt.Sprint(i)))
			background.Pause(ctx, time.Second)
		}
		w.Stop()
	}()
	return w, nil
}

// at returns the value at one path of the facts.
func at(w *cluster.World, path ...string) (value any) {
	w.View(func(doc map[string]any) { value = facts.Lookup(doc, path...) })
	return value
}

// whole returns a resource that is watched whole.
func whole(name string) cluster.Resource {
	i := slices.IndexFunc(cluster.Whole(), func(res cluster.Resource) bool { return res.String() == name })
	return cluster.Whole()[i]
}

// apply adds one object.
func apply(t *testing.T, w *cluster.World, res cluster.Resource, obj runtime.Object) {
	t.Helper()
	if err := w.Apply(res, obj, true); err != nil {
		t.Fatal(err)
	}
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x.io/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "demo", "resourceVersion": "5", "finalizers": []any{"x.io/f"}},
	}}
}

func bookmark() *unstructured.Unstructured {
	b := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7"}}}
	b.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return b
}

// sent returns a watch that has delivered its events and stays open.
func sent(list ...watch.Event) *watch.RaceFreeFakeWatcher {
	w := watch.NewRaceFreeFake()
	for _, e := range list {
		w.Action(e.Type, e.Object)
	}
	return w
}

// feeding returns a Cluster that lists so many resources at once; the test creates the feeds.
func feeding(w *cluster.World, atOnce int) *Cluster {
	return &Cluster{
		world: w, log: slog.New(slog.DiscardHandler), lists: semaphore.NewWeighted(int64(atOnce)), slow: semaphore.NewWeighted(int64(atOnce)), kick: make(chan struct{}, 1),
		feeds: map[string]*feed{}, groups: map[string]*semaphore.Weighted{}, listed: true,
	}
}

// follow runs a feed over src for as long as the test's bubble lasts.
func follow(t *testing.T, src lister, verbs ...string) (*cluster.World, *Cluster) {
	t.Helper()
	w := cluster.NewWorld(cluster.Options{})
	c := feeding(w, 1)
	f := &feed{Resource: widgets, verbs: sets.New(verbs...), lister: src}
	c.feeds[f.String()] = f
	w.SetUnseen(widgets, facts.UnseenSyncing, "not listed yet")
	go c.feed(t.Context(), f)
	return w, c
}

func unseenReason(w *cluster.World) any {
	list, _ := at(w, "unseen").([]any)
	for _, u := range list {
		if u.(map[string]any)["resource"] == widgets.String() {
			return u.(map[string]any)["reason"]
		}
	}
	return nil
}

func TestFeed(t *testing.T) {
	forbidden := apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
	noWatchList := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	tests := map[string]struct {
		reason string
		verbs  []string
		lister func() lister
		count  any
		unseen any
		synced bool
	}{
		"initial events": {
			reason: "objects arrive as a stream, and the bookmark ends the listing",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				return fakeLister{watch: func(metav1.ListOptions) (watch.Interface, error) {
					return sent(watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Deleted, Object: widget("a")}, watch.Event{Type: watch.Bookmark, Object: bookmark()}), nil
				}}
			},
			count: 1, synced: true,
		},
		"no initial events to be had": {
			reason: "an API server without KEP-3157 is listed page by page",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				return fakeLister{
					watch: func(o metav1.ListOptions) (watch.Interface, error) {
						if o.SendInitialEvents != nil {
							return nil, noWatchList
						}
						return sent(watch.Event{Type: watch.Added, Object: widget("c")}), nil
					},
					list: func(o metav1.ListOptions) (runtime.Object, error) {
						list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "5"}}}
						if o.Continue == "" {
							list.SetContinue("more")
							list.Items = []unstructured.Unstructured{*widget("a")}
							return list, nil
						}
						list.Items = []unstructured.Unstructured{*widget("b")}
						return list, nil
					},
				}
			},
			count: 3, synced: true,
		},
		"initial events refused": {
			reason: "an API server over an older etcd says so in the stream, and is listed page by page",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				return fakeLister{
					watch: func(o metav1.ListOptions) (watch.Interface, error) {
						if o.SendInitialEvents != nil {
							refusal := apierrors.NewInternalError(errors.New("RequestWatchProgress is disabled")).Status()
							return sent(watch.Event{Type: watch.Added, Object: widget("gone")}, watch.Event{Type: watch.Error, Object: &refusal}), nil
						}
						return sent(watch.Event{Type: watch.Added, Object: widget("b")}), nil
					},
					list: func(metav1.ListOptions) (runtime.Object, error) {
						return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*widget("a")}}, nil
					},
				}
			},
			count: 2, synced: true,
		},
		"no watch": {
			reason: "a resource that cannot be watched is listed at intervals",
			verbs:  []string{"list"},
			lister: func() lister {
				n := 0
				return fakeLister{list: func(metav1.ListOptions) (runtime.Object, error) {
					n++
					list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*widget("a")}}
					if n > 1 {
						list.Items = append(list.Items, *widget("b"))
					}
					return list, nil
				}}
			},
			count: 2, synced: true,
		},
		"forbidden": {
			reason: "a forbidden resource is unseen and is not waited for",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				return fakeLister{watch: func(metav1.ListOptions) (watch.Interface, error) { return nil, forbidden }}
			},
			unseen: facts.UnseenForbidden, synced: true,
		},
		"API server restarted": {
			reason: "after a broken watch the listing is done again, and what vanished meanwhile is swept",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				n := 0
				return fakeLister{watch: func(o metav1.ListOptions) (watch.Interface, error) {
					switch n++; n {
					case 1:
						w := sent(watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Bookmark, Object: bookmark()})
						time.AfterFunc(time.Second, w.Stop)
						return w, nil
					case 2, 3:
						return nil, errors.New("connection refused")
					}
					if o.SendInitialEvents == nil {
						t.Error("resumed although an error came between")
					}
					return sent(watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Bookmark, Object: bookmark()}), nil
				}}
			},
			count: 1, synced: true,
		},
		"too old a resource version": {
			reason: "an expired watch starts over without becoming unseen",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				n := 0
				return fakeLister{watch: func(metav1.ListOptions) (watch.Interface, error) {
					if n++; n == 1 {
						status := apierrors.NewResourceExpired("too old").Status()
						return sent(watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Bookmark, Object: bookmark()}, watch.Event{Type: watch.Error, Object: &status}), nil
					}
					return sent(watch.Event{Type: watch.Added, Object: widget("b")}, watch.Event{Type: watch.Bookmark, Object: bookmark()}), nil
				}}
			},
			count: 1, synced: true,
		},
		"ends before its initial events do": {
			reason: "half a listing is none",
			verbs:  []string{"list", "watch"},
			lister: func() lister {
				return fakeLister{watch: func(metav1.ListOptions) (watch.Interface, error) {
					w := sent(watch.Event{Type: watch.Added, Object: widget("a")})
					time.AfterFunc(time.Second, w.Stop)
					return w, nil
				}}
			},
			unseen: facts.UnseenError, synced: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := follow(t, tc.lister(), tc.verbs...)
				time.Sleep(90 * time.Second) // the bubble's own time
				synctest.Wait()
				want := []any{tc.count, tc.unseen, tc.synced}
				got := []any{at(w, "counts", "demo", "widgets.x.io"), unseenReason(w), c.Synced()}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s\n-want +got (count, unseen, synced)\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// TestSilence checks that an API that accepts requests and answers none becomes unseen, and that a
// dozen of them do not delay others.
func TestSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		silent lister
		verbs  []string
		within time.Duration
	}{
		"watch":         {silentLister{}, []string{"list", "watch"}, 2 * firstSilence},
		"without watch": {silentLister{}, []string{"list"}, 2 * firstSilence},
		"drips":         {silentLister{drips: true}, []string{"list", "watch"}, longestListing + longPlace + 2*firstSilence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := cluster.NewWorld(cluster.Options{})
				c := feeding(w, initialLists)
				start := func(res cluster.Resource, src lister) {
					f := &feed{Resource: res, verbs: sets.New(tc.verbs...), lister: src}
					c.feeds[f.String()] = f
					w.SetUnseen(res, facts.UnseenSyncing, "not listed yet")
					go c.feed(t.Context(), f)
				}
				for i := range 12 {
					silent := widgets
					silent.Group = fmt.Sprintf("silent%d.io", i)
					start(silent, tc.silent)
				}
				synctest.Wait()
				start(widgets, fakeLister{
					watch: func(metav1.ListOptions) (watch.Interface, error) {
						return sent(watch.Event{Type: watch.Added, Object: widget("a")}, watch.Event{Type: watch.Bookmark, Object: bookmark()}), nil
					},
					list: func(metav1.ListOptions) (runtime.Object, error) {
						return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*widget("a")}}, nil
					},
				})
				time.Sleep(tc.within)
				synctest.Wait()
				if !c.Synced() {
					t.Error("the facts wait for an API that does not answer")
				}
				if got := unseenReason(w); got != nil {
					t.Errorf("an API that answers is unseen: %v", got)
				}
				list, _ := at(w, "unseen").([]any)
				if len(list) != 12 {
					t.Errorf("%d resources are unseen, want the 12 that do not answer", len(list))
				}
				for _, u := range list {
					if message, _ := u.(map[string]any)["message"].(string); !strings.Contains(message, errSilent.Error()) {
						t.Errorf("unseen because %q", message)
					}
				}
			})
		})
	}
}

// mute answers lists and leaves watches unanswered, as the API server does before Kubernetes 1.31
// while it cannot fill its cache.
type mute struct {
	list func() (runtime.Object, error)
}

func (s mute) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return s.list()
}

func (mute) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestUnanswered checks that a watch without an answer hides no objects that cannot be converted.
func TestUnanswered(t *testing.T) {
	const failure = refusals.ConversionFailure + "x.io/v1, Kind=Widget failed: refused"
	for name, tc := range map[string]struct {
		reason, strategy string
		then             error // of lists after the first
		unseen, failure  any
	}{
		"not converted": {"objects that cannot be converted are reported, not taken for absent", "Webhook", apierrors.NewInternalError(errors.New(failure)), facts.UnseenError, "Internal error occurred: " + failure},
		"converted":     {"the cache is filled soon: the watch is left alone", "Webhook", nil, nil, nil},
		"no webhook":    {"no conversion webhook, so no request", "None", apierrors.NewInternalError(errors.New(failure)), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listed := false
				w, _ := follow(t, mute{func() (runtime.Object, error) {
					if listed && tc.then != nil {
						return nil, tc.then
					}
					listed = true
					return &unstructured.UnstructuredList{}, nil
				}}, "list", "watch")
				definitions := whole("customresourcedefinitions.apiextensions.k8s.io")
				w.Begin(definitions)
				apply(t, w, definitions, &apiextensionsv1.CustomResourceDefinition{
					ObjectMeta: metav1.ObjectMeta{Name: widgets.String()},
					Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.ConversionStrategyType(tc.strategy)}},
				})
				w.End(definitions)
				time.Sleep(2 * againInterval) // the bubble's own time
				synctest.Wait()
				w.Settle()
				want := []any{tc.unseen, tc.failure}
				got := []any{unseenReason(w), at(w, "unconverted", widgets.String(), "listError")}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s\n-want +got (unseen, why lists fail)\n%s", tc.reason, diff)
				}
			})
		})
	}
}

func TestWantedResources(t *testing.T) {
	api := func(name string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, Namespaced: true, Verbs: verbs}
	}
	all := []string{"delete", "list", "watch"}
	got, older := feedsOf([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{api("pods", all...), api("pods/status", "get"), api("events", all...), api("bindings", "create"), api("configmaps", all...)}},
		{GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{api("pods", "get", "list")}},
		{GroupVersion: "x.io/v1", APIResources: []metav1.APIResource{api("widgets", all...)}},
		{GroupVersion: "x.io/v2", APIResources: []metav1.APIResource{api("widgets", all...)}},
		{GroupVersion: "x.io/v1alpha1", APIResources: []metav1.APIResource{api("gadgets", all...)}},
		{GroupVersion: "apps/v1beta1", APIResources: []metav1.APIResource{api("deployments", all...)}},
		{GroupVersion: "resource.k8s.io/v1alpha3", APIResources: []metav1.APIResource{api("resourceclaims", all...)}},
		{GroupVersion: "resource.k8s.io/v1beta1", APIResources: []metav1.APIResource{api("resourceclaims", all...)}},
		{GroupVersion: "resource.k8s.io/v1beta2", APIResources: []metav1.APIResource{api("resourceclaims", all...)}},
	}, map[string]string{"": "v1", "x.io": "v2"})
	versions := map[string]string{}
	for name, f := range got {
		versions[name] = f.Version
	}
	want := map[string]string{"pods": "v1", "events": "v1", "configmaps": "v1", "widgets.x.io": "v2", "gadgets.x.io": "v1alpha1", "resourceclaims.resource.k8s.io": "v1beta2"}
	if diff := cmp.Diff(want, versions); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"deployments.apps": {"v1beta1"}}, older); diff != "" {
		t.Errorf("served in other versions: -want +got\n%s", diff)
	}
}
