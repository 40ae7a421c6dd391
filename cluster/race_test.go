package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/probe/report"
	"github.com/termguard/termguard/question"
)

// atOnce runs each function n times, each in a goroutine of its own, all at once.
func atOnce(n int, functions ...func(i int)) {
	var running sync.WaitGroup
	start := make(chan struct{})
	for _, f := range functions {
		running.Go(func() {
			<-start
			for i := range n {
				f(i)
			}
		})
	}
	close(start)
	running.Wait()
}

// TestOwnershipTogether evaluates finalizers for the first time in concurrent reviews, each of
// which looks up a catalog entry.
func TestOwnershipTogether(t *testing.T) {
	w := world(t, kialiCRD)
	ask := func(i int) {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "x"}}
		for _, entry := range w.options.Catalog.Entries()[:50] {
			obj.Finalizers = append(obj.Finalizers, entry.Finalizer+entry.Prefix)
		}
		w.Ownership(obj, schema.GroupResource{Group: "kiali.io", Resource: "kialis"}, nil)
	}
	atOnce(1, slices.Repeat([]func(int){ask}, 8)...)
}

// everyKind returns the resources of the objects in the stress test.
func everyKind() []Resource {
	kinds := append(slices.Clone(Whole()), widgets)
	for group, plurals := range map[string][]string{
		"": {"configmaps", "secrets"}, "apps": {"replicasets"}, "resource.k8s.io": {"resourceclaims"}, "helm.toolkit.fluxcd.io": {"helmreleases"},
		"kubernetes.m.crossplane.io": {"objects", "providerconfigs", "providerconfigusages"},
	} {
		for _, plural := range plurals {
			kinds = append(kinds, Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: versionOf[group], Resource: plural}, Namespaced: true})
		}
	}
	return append(kinds, Resource{GroupVersionResource: widgets.GroupVersion().WithResource("widgetmakers")})
}

// versionOf maps groups to their version if it is not v1.
var versionOf = map[string]string{"": "v1", "apps": "v1", "resource.k8s.io": "v1", "kubernetes.m.crossplane.io": "v1", "helm.toolkit.fluxcd.io": "v2"}

// TestStress calls every public method of World and Learner from many goroutines, while objects
// come and go, listings start over, verdicts settle and replicas merge what they learned. It serves
// the race detector; other tests check the answers.
func TestStress(t *testing.T) {
	const rounds = 60
	start := time.Unix(0, 0)
	w := NewWorld(Options{Now: func() time.Time { return start }, Owners: map[string]string{"two.io/f": "Deployment/a/x"}})
	client := fake.NewClientset()
	replicas := []*Learner{
		NewLearner(w, client.CoreV1(), HomeNamespace, slog.New(slog.DiscardHandler)),
		NewLearner(w, client.CoreV1(), HomeNamespace, slog.New(slog.DiscardHandler)),
	}
	w.Follow(everyKind())
	for _, res := range everyKind() {
		w.Begin(res)
		w.End(res)
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	// One random object, typed if the facts read more than its metadata.
	random := func(rng *rand.Rand) (Resource, *unstructured.Unstructured, runtime.Object) {
		make := []func(*testing.T, *rand.Rand) *unstructured.Unstructured{randomObject, randomDependent, randomGrant, randomLeavingPod, randomReference}[rng.IntN(5)]
		obj := make(t, rng)
		typed, err := typedObject(obj)
		must(err)
		return Resources([]*unstructured.Unstructured{obj})[obj.GroupVersionKind()], obj, typed
	}
	rngs := make(chan *rand.Rand, 64)
	for seed := range cap(rngs) {
		rngs <- rand.New(rand.NewPCG(uint64(seed), 7))
	}
	with := func(f func(rng *rand.Rand)) {
		rng := <-rngs
		defer func() { rngs <- rng }()
		f(rng)
	}
	// asks returns a request about an object, from a command or an API server.
	asks := func(rng *rand.Rand, i int) *question.Request {
		res, obj, _ := random(rng)
		r := question.Target{Kind: obj.GroupVersionKind(), Resource: res.GroupVersionResource, Namespace: "a", Name: "x", Object: obj.Object}.Delete(nil)
		r.UnderWay = i%2 == 0
		return r
	}
	read := func(m Moment) {
		m.Input()
		m.Knows()
		if m.Declared() {
			m.Undeclared().View(func(doc map[string]any) { _ = fmt.Sprint(doc["finalized"]) })
		}
	}
	calls := map[string]func(i int){
		"World.Apply": func(int) {
			with(func(rng *rand.Rand) { res, _, obj := random(rng); must(w.Apply(res, obj, rng.IntN(2) == 0)) })
		},
		"World.Remove": func(int) { with(func(rng *rand.Rand) { res, _, obj := random(rng); must(w.Remove(res, obj)) }) },
		"World.Begin":  func(i int) { w.Begin(everyKind()[i%len(everyKind())]) },
		"World.End":    func(i int) { w.End(everyKind()[i%len(everyKind())]) },
		"World.Drop": func(i int) {
			res := Resource{GroupVersionResource: schema.GroupVersionResource{Group: "y.io", Version: "v1", Resource: "gizmos"}}
			w.Begin(res)
			w.Drop(res)
		},
		"World.SetUnseen":    func(i int) { w.SetUnseen(widgets, facts.UnseenError, fmt.Sprint(i)) },
		"World.Seen":         func(int) { w.Seen(widgets) },
		"World.Settle":       func(int) { w.Settle() },
		"World.SetVersion":   func(i int) { w.SetVersion(fmt.Sprintf("v1.%d.0", 25+i%10)) },
		"World.SetServed":    func(i int) { w.SetServed(append(BuiltinGroups(), "x.io"), map[string]bool{"v1.x.io": i%2 == 0}) },
		"World.SetListError": func(i int) { w.SetListError(widgets, fmt.Sprint(refusals.ConversionFailure, i%2)) },
		"World.SetLearned":   func(int) { w.SetLearned(learned.Memory{}) },
		"World.Recall":       func(int) { w.Recall(t.Context(), client.CoreV1(), HomeNamespace, slog.New(slog.DiscardHandler)) },
		"World.Unread":       func(int) { w.Unread("a") },
		"World.UnreadOf":     func(int) { w.UnreadOf("widgets.x.io") },
		"World.View": func(int) {
			w.View(func(doc map[string]any) { _, err := json.Marshal(doc); must(err) }) // reads all of it
		},
		"World.Read": func(int) {
			w.Read(func(f Facts) {
				for _, held := range f.Held("a", "") {
					f.Conditioned("a", held.Resource, held.Owner.Owner)
				}
				for pod := range f.Pods("") {
					f.Stops(pod.Namespace, pod.Workload)
				}
				_, _ = f.Unseen(), f.Namespace("a")
			})
		},
		"World.Meanwhile": func(int) {
			with(func(rng *rand.Rand) {
				res, _, obj := random(rng)
				must(w.Meanwhile(Repair{Changes: []Change{{Resource: res, Before: obj}}, Probed: []string{"n1"}}, func() { w.View(func(map[string]any) {}) }))
			})
		},
		"World.Lacks": func(int) { w.Lacks("n1") },
		"World.SetLeases": func(i int) {
			holder, now := fmt.Sprint("op_", i%2), metav1.NewMicroTime(start)
			w.SetLeases([]coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "x.io"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now}}})
		},
		"World.Ask":    func(i int) { with(func(rng *rand.Rand) { w.Ask(asks(rng, i), read) }) },
		"World.TryAsk": func(i int) { with(func(rng *rand.Rand) { w.TryAsk(asks(rng, i), read) }) },
		"World.TakeConditions": func(int) {
			w.TakeConditions("a", func(Conditioned) *unstructured.Unstructured { return nil })
		},
		"World.Handshakes": func(int) { w.Handshakes() },
		"World.Unverified": func(i int) { with(func(rng *rand.Rand) { w.Unverified([]*question.Request{asks(rng, i)}) }) },
		"World.Reached":    func(int) { _ = w.Reached(t.Context()) },
		"World.Shows": func(int) {
			w.Shows(widgets.GroupResource(), types.NamespacedName{Namespace: "a", Name: "x"}, "u", []string{"x.io/f"})
		},
		"World.Ownership": func(i int) {
			with(func(rng *rand.Rand) {
				res, obj, _ := random(rng)
				entries := w.options.Catalog.Entries()
				obj.SetFinalizers(append(obj.GetFinalizers(), entries[i%len(entries)].Finalizer))
				w.Ownership(obj, res.GroupResource(), []string{"kubernetes", "one.io/f"})
			})
		},
		"World.TakeWarnings": func(int) {
			w.TakeWarnings([]corev1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, InvolvedObject: corev1.ObjectReference{UID: "u"}}})
		},
		"World.Conditioned": func(int) { w.Conditioned("a") },
		"World.KeepWarnings": func(int) {
			w.KeepWarnings(widgets.GroupResource(), &metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u"})
		},
		"World.Options":        func(int) { w.Options() },
		"World.Over":           func(int) { NewWorld(Options{}).Over(NewWorld(Options{})) }, // of final ones
		"World.Follow":         func(int) { w.Follow(everyKind()) },
		"World.Role":           func(int) { w.Role(widgets) },
		"World.Converts":       func(int) { w.Converts(widgets) },
		"World.Unconverted":    func(int) { w.Unconverted() },
		"World.SetWithin":      func(int) { w.SetWithin("") },
		"World.WorksElsewhere": func(int) { w.WorksElsewhere("a") },
		"World.AskForObjects":  func(int) { w.AskForObjects("") },
		"World.Lookups":        func(int) { w.Lookups() },
		"World.TakeIn":         func(int) { w.TakeIn(nil) },
		"World.Needs":          func(int) { w.Needs("a") },
		"World.Answered":       func(int) { w.Answered(w.Needs("a"), make([]error, maxAsked)) }, // as live.Collect does
		"World.KeepReport":     func(i int) { w.KeepReport(report.Report{Node: fmt.Sprint("n", i%3)}) },
		"World.ForgetReport":   func(i int) { w.ForgetReport(fmt.Sprint("n", i%3)) },
		"World.KeepSettled": func(int) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w.KeepSettled(ctx)
		},
		"World.TryCertificates": func(int) {
			w.TryCertificates(t.Context(), func(context.Context, Backend) Handshake { return Handshake{Unseen: "closed"} }, nil)
		},
	}
	for i, l := range replicas {
		calls[fmt.Sprint(i, "Learner.Saw")] = func(n int) {
			l.Saw(Removal{Resource: widgets.GroupResource(), Namespace: "a", Name: "x", UID: types.UID(fmt.Sprint(n)), Finalizers: []string{"x.io/f"}, User: operatorUser})
		}
		// Run waits for its tickers; this calls its work in between, and its end:
		calls[fmt.Sprint(i, "Learner.Run")] = func(int) {
			l.confirm()
			_, _ = l.merge(t.Context()) // two may write at once more often than one tries again
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[*World](), reflect.TypeFor[*Learner]()} {
		for i := range of.NumMethod() {
			name := of.Elem().Name() + "." + of.Method(i).Name
			if calls[name] == nil && calls["0"+name] == nil {
				t.Errorf("method %s is not called: add it", name)
			}
		}
	}
	var all []func(int)
	for _, call := range calls {
		all = append(all, call)
	}
	atOnce(rounds, all...)
	w.Settle()
}

func TestMain(m *testing.M) { race.Main(m, "TestStress") }
