package webhook

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// realEngine returns an engine with the policies in the binary.
func realEngine(t testing.TB) *policies.Engine {
	t.Helper()
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Brief: true, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// kialis returns n objects in namespace demo, each with one of so many finalizers.
func kialis(t testing.TB, n, finalizers int) *cluster.World {
	t.Helper()
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{"finalizers": []any{"kubernetes"}},
	}}}
	for i := range n {
		finalizer := "kiali.io/finalizer"
		if own := i % finalizers; own > 0 {
			finalizer = fmt.Sprintf("gone.test/%d", own)
		}
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kiali.io/v1alpha1", "kind": "Kiali",
			"metadata": map[string]any{"namespace": "demo", "name": fmt.Sprint("kiali-", i), "finalizers": []any{finalizer}},
		}})
	}
	world, err := cluster.FromObjects(cluster.Options{}, objects)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// BenchmarkReviewCold measures reviews after other work has used the processor's caches, as where
// deletes are rare: most of the cost is then waiting for memory.
func BenchmarkReviewCold(b *testing.B) {
	others := make([]byte, 96<<20)
	engine := realEngine(b)
	for _, c := range []struct{ name, request string }{
		{"quiet", deleteKiali(`{"name":"kiali","namespace":"demo"}`)},
		{"object", deleteKiali(`{"name":"kiali","namespace":"demo","finalizers":["kiali.io/finalizer"]}`)},
		{"no-op", with(deleteNamespace, "DELETE", "CONNECT")},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := NewHandler(Options{Log: quiet, Evaluator: engine, Facts: kialis(b, 0, 1)})
			sent := body(b, v1, c.request)
			for b.Loop() {
				b.StopTimer()
				for i := 0; i < len(others); i += 64 {
					others[i]++
				}
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent))
				b.StartTimer()
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkReview measures a whole review without the network: reading, decoding, the policies in
// the binary, and the answer.
func BenchmarkReview(b *testing.B) {
	big := strings.Repeat("x", 1<<20)
	cases := []struct {
		name    string
		objects int // with finalizers, in the namespace
		groups  int // of them, by finalizer
		request string
	}{
		{"namespace", 0, 1, deleteNamespace},
		{"namespace-10000-finalized", 10_000, 1, deleteNamespace},
		{"namespace-40-finalizers", 5_000, 40, deleteNamespace},
		{"object", 0, 1, deleteKiali(`{"name":"kiali","namespace":"demo","finalizers":["kiali.io/finalizer"]}`)},
		{"object-1MiB", 0, 1, deleteKiali(`{"name":"kiali","namespace":"demo","annotations":{"a":"` + big + `"}}`)},
		{"no-op", 0, 1, with(deleteNamespace, "DELETE", "CONNECT")},
	}
	engine := realEngine(b)
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			h := NewHandler(Options{Log: quiet, Evaluator: engine, Facts: kialis(b, c.objects, c.groups)})
			sent := body(b, v1, c.request)
			b.SetBytes(int64(len(sent)))
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
