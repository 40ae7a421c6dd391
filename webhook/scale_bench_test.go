package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/termguard/termguard/cluster"
)

// size is the size of a cluster: 1 % of its objects have a finalizer.
type size struct{ nodes, pods, namespaces, definitions, objects int }

var nodesIn = clusterScoped(corev1.SchemeGroupVersion, "nodes")

// runningPod returns a pod as kubelets report it.
func runningPod(namespace, name, owner string, node int, ready bool) *corev1.Pod {
	p := pod(namespace, name, ready)
	p.UID = types.UID(namespace + "/" + name)
	p.Labels = map[string]string{"app": "app", "pod-template-hash": "5566fd454f"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true), BlockOwnerDeletion: new(true)}}
	p.Spec.NodeName = fmt.Sprint("node-", node)
	p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	p.Status.Phase = corev1.PodRunning
	return p
}

// grown is a world of a size, as the watches bring it.
type grown struct {
	crowd
	size
}

func grow(b *testing.B, s size) grown {
	g := grown{crowd{cluster.NewWorld(cluster.Options{}), b}, s}
	all := []cluster.Resource{namespacesIn, nodesIn, podsIn, accountsIn, configMapsIn, deploymentsIn, slicesIn, definitionsIn}
	for i := range s.definitions {
		all = append(all, customResources(i))
	}
	g.Follow(all)
	for _, res := range all {
		g.Begin(res)
	}
	for i := range s.namespaces {
		g.apply(namespacesIn, &corev1.Namespace{ObjectMeta: meta("", g.namespace(i))}, true)
		g.apply(accountsIn, &corev1.ServiceAccount{ObjectMeta: meta(g.namespace(i), "app")}, true)
		g.apply(slicesIn, endpoints(g.namespace(i), "app", true), true)
	}
	for i := range s.nodes {
		g.apply(nodesIn, &corev1.Node{ObjectMeta: meta("", fmt.Sprint("node-", i)), Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}, true)
	}
	for i := range s.definitions {
		g.apply(definitionsIn, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", fmt.Sprintf("things.g%d.test", i)), Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: fmt.Sprintf("g%d.test", i), Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		}}, true)
	}
	for i := range s.pods {
		g.apply(podsIn, g.pod(i, true), true)
	}
	for i := range s.objects - s.pods {
		res, obj := g.object(i)
		g.apply(res, obj, true)
	}
	for _, res := range all {
		g.End(res)
	}
	g.Settle()
	return g
}

func (g grown) namespace(i int) string { return fmt.Sprint("n", i%g.namespaces) }

// pod returns one of five pods of a ReplicaSet, each on another node.
func (g grown) pod(i int, ready bool) *corev1.Pod {
	replicaSet := fmt.Sprintf("%s-app%d-5566fd454f", g.namespace(i), i/g.namespaces/5)
	return runningPod(g.namespace(i), fmt.Sprint(replicaSet, "-", i), replicaSet, (i+i/g.namespaces*37)%g.nodes, ready)
}

type object interface {
	metav1.Object
	k8sruntime.Object
}

// object returns a ConfigMap or, one in four, a custom resource, which arrives whole: it refers to
// another of its kind, and to a Secret.
func (g grown) object(i int) (cluster.Resource, object) {
	var finalizers []string
	res, of := configMapsIn, 0
	if i%4 == 0 {
		of = i / 4 % g.definitions
		res = customResources(of)
	}
	if i%100 == 0 {
		finalizers = []string{fmt.Sprintf("g%d.test/finalizer", of)}
	}
	obj := listed(g.namespace(i), fmt.Sprint("object-", i), finalizers...)
	obj.UID = types.UID(fmt.Sprint("uid-", i))
	if res == configMapsIn {
		return res, obj
	}
	whole := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"thingName": fmt.Sprint("object-", i%g.objects/8*8), "image": "registry.test/app:1", "auth": map[string]any{"tokenSecretRef": map[string]any{"name": "token"}}},
		"status": map[string]any{"phase": "Ready"},
	}}
	whole.SetName(obj.Name)
	whole.SetNamespace(obj.Namespace)
	whole.SetFinalizers(finalizers)
	whole.SetUID(obj.UID)
	return res, whole
}

// change makes one of many changes: pods become ready or not, are created and deleted; objects and
// endpoints are updated.
func (g grown) change(n int) {
	switch i := n * 7919; n % 10 {
	case 0, 1, 2, 3:
		g.apply(podsIn, g.pod(i%g.pods, n/10%2 == 0), false)
	case 4:
		g.apply(podsIn, runningPod(g.namespace(i), fmt.Sprint("new-", n), "new", i%g.nodes, true), true)
	case 5:
		g.remove(podsIn, runningPod(g.namespace((n-1)*7919), fmt.Sprint("new-", n-1), "new", (n-1)*7919%g.nodes, true))
	case 6:
		g.apply(slicesIn, endpoints(g.namespace(i), "app", n/10%2 == 0), false)
	default:
		res, obj := g.object(i % (g.objects - g.size.pods))
		g.apply(res, obj, false)
	}
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peak returns the largest memory of this process so far, in MiB (getrusage(2)).
func peak(b *testing.B) float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return float64(used.Maxrss) / 1024
}

// BenchmarkScale grows a cluster through the handlers that the watches feed. It measures the memory
// that is kept, the peak of the process, the processor time of the objects and of 500 changes a
// second, and reviews beside them. make bench with OBJECTS measures the API server's lists and the
// transport.
func BenchmarkScale(b *testing.B) {
	engine := realEngine(b)
	for _, s := range []size{{50, 1_500, 50, 5, 10_000}, {500, 15_000, 500, 50, 100_000}, {5_000, 150_000, 5_000, 500, 1_000_000}} {
		b.Run(fmt.Sprintf("nodes=%d,pods=%d,namespaces=%d,definitions=%d,objects=%d", s.nodes, s.pods, s.namespaces, s.definitions, s.objects), func(b *testing.B) {
			const changes, perSettle = 5_000, 50 // 500 a second, settled every 100 ms
			before, used := liveHeap(), processor(b)
			g := grow(b, s)
			takenIn, held := processor(b)-used, liveHeap()-before
			used = processor(b)
			for n := range changes {
				g.change(n)
				if n%perSettle == 0 {
					g.Settle()
				}
			}
			changing := processor(b) - used
			h := NewHandler(Options{Log: quiet, Evaluator: engine, Facts: g})
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() {
				for n := changes; ctx.Err() == nil; n++ {
					g.change(n)
					time.Sleep(time.Second / 500)
				}
			})
			running.Go(func() {
				for ctx.Err() == nil {
					g.Settle()
					time.Sleep(100 * time.Millisecond)
				}
			})
			var reviews quantiles
			n := 0
			for b.Loop() {
				n++
				sent := body(b, v1, strings.ReplaceAll(deleteNamespace, "demo", g.namespace(n)))
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent)))
				reviews.add(time.Since(began))
				if w.Code != http.StatusOK {
					b.Error(w.Code, w.Body)
				}
				time.Sleep(5 * time.Millisecond)
			}
			stop()
			running.Wait()
			reviews.report(b, "review")
			b.ReportMetric(takenIn.Seconds(), "take-in-CPU-s")
			b.ReportMetric(float64(held)/(1<<20), "facts-MiB")
			b.ReportMetric(changing.Seconds()*1000/(changes/500), "changes-CPU-ms/s")
			b.ReportMetric(peak(b), "process-MiB")
			runtime.KeepAlive(g.World)
		})
	}
}
