package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// largePlace has 5,000 namespaces with 100,000 objects, 1,000 of them custom resources with a
// finalizer that no controller removes, and an API that does not answer, which blocks every
// namespace.
func largePlace(b *testing.B) *Place {
	b.Helper()
	const namespaces, each, blocked = 5_000, 20, 1_000
	var objects []*unstructured.Unstructured
	add := func(object map[string]any) { objects = append(objects, &unstructured.Unstructured{Object: object}) }
	add(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.x.io"},
		"spec": map[string]any{
			"group": "x.io", "scope": "Namespaced", "names": map[string]any{"kind": "Widget", "plural": "widgets"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
	})
	add(map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service": map[string]any{"namespace": "monitoring", "name": "adapter"},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "gone"}}},
	})
	add(map[string]any{"apiVersion": "termguard.dev/v1", "kind": "Cluster", "version": "v1.36.3", "stale": []any{"v1beta1.metrics.k8s.io"}})
	for i := range namespaces {
		ns := fmt.Sprintf("ns-%d", i)
		add(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns, "uid": ns}, "spec": map[string]any{"finalizers": []any{"kubernetes"}}})
		for n := range each {
			kind, meta := "ConfigMap", map[string]any{"namespace": ns, "name": fmt.Sprintf("o-%d", n), "uid": fmt.Sprintf("%s-%d", ns, n)}
			object := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta}
			switch {
			case n == 0 && i < blocked:
				object["apiVersion"], object["kind"] = "x.io/v1", "Widget"
				meta["finalizers"] = []any{"x.io/f"}
			case n < 5:
				object["kind"] = "Pod"
				object["spec"] = map[string]any{"nodeName": fmt.Sprintf("node-%d", i%50), "containers": []any{map[string]any{"name": "c", "image": "i"}}}
				object["status"] = map[string]any{"phase": "Running"}
			}
			add(object)
		}
	}
	for i := range 50 {
		add(map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": fmt.Sprintf("node-%d", i)},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T08:00:00Z"}}},
		})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, object := range objects {
		text.WriteString("---\n")
		if err := encoder.Encode(object.Object); err != nil {
			b.Fatal(err)
		}
	}
	file := filepath.Join(b.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return placeOf(b, file)
}

// BenchmarkScan scans a large world. It begins after all is read: listing is the API server's cost.
func BenchmarkScan(b *testing.B) {
	place := largePlace(b)
	engine := newEngine(b)
	for b.Loop() {
		began, cpu := time.Now(), processor(b)
		s := Run(b.Context(), engine, []*Place{place}, Options{})
		b.ReportMetric(processor(b)-cpu, "s-of-processor")
		b.ReportMetric(time.Since(began).Seconds(), "s")
		b.ReportMetric(float64(s.Total().Objects), "asked")
		b.ReportMetric(float64(s.Causes[0].Holds), "held-by-the-first")
		b.ReportMetric(float64(s.Mended.Free), "free-when-mended")
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-heap")
	}
}

// processor returns the processor time of the process, in seconds.
func processor(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
