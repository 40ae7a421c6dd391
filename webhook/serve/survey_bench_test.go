package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
	"github.com/termguard/termguard/webhook"
)

// BenchmarkBesideSurvey measures reviews with a finding, one each 10 ms, without a survey and
// beside one that never pauses between rounds: what a review waits for it shows in the 99th
// percentile. Run it with -benchtime 3000x.
func BenchmarkBesideSurvey(b *testing.B) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		b.Fatal(err)
	}
	engine, err := policies.NewEngine(b.Context(), set, policies.EngineOptions{Brief: true, Deadline: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	world := stuckNamespaces(b, 2000)
	sent := []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "DELETE",
		"kind": {"group": "", "version": "v1", "kind": "Namespace"}, "resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "team-7", "namespace": "team-7", "userInfo": {"username": "alice"}, "options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
		"oldObject": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-7"}, "spec": {"finalizers": ["kubernetes"]}}}}`)
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside a survey"}[beside], func(b *testing.B) {
			h := webhook.NewHandler(webhook.Options{Log: slog.New(slog.DiscardHandler), Evaluator: engine, Facts: world})
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			rounds := 0
			if beside {
				s := newSurvey(prometheus.NewRegistry(), func(ctx context.Context, rest func(context.Context) error) (tally scan.Tally, err error) {
					all := scan.Survey{World: world, Engine: func() check.Evaluator { return engine }, Rest: rest}
					for ; err == nil; rounds++ {
						tally, err = all.Round(ctx)
					}
					return tally, err
				}, h.Busy, slog.New(slog.DiscardHandler))
				go func() {
					s.run(ctx)
					close(ended)
				}()
			} else {
				close(ended)
			}
			var took []time.Duration
			each := time.NewTicker(10 * time.Millisecond)
			for b.Loop() {
				<-each.C
				w, began := httptest.NewRecorder(), time.Now()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, webhook.Path, bytes.NewReader(sent)))
				took = append(took, time.Since(began))
				if !bytes.Contains(w.Body.Bytes(), []byte("will hang")) {
					b.Fatal(w.Code, w.Body)
				}
			}
			each.Stop()
			stop()
			<-ended
			slices.Sort(took)
			for name, part := range map[string]int{"p50": 50, "p99": 99} {
				b.ReportMetric(float64(took[len(took)*part/100].Microseconds()), name+"-µs")
			}
			if beside {
				b.ReportMetric(float64(rounds), "rounds")
			}
		})
	}
}

// stuckNamespaces are n namespaces, each with an object whose finalizer nobody removes.
func stuckNamespaces(b *testing.B, n int) *cluster.World {
	b.Helper()
	var objects []*unstructured.Unstructured
	for i := range n {
		name := fmt.Sprint("team-", i)
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}, "spec": map[string]any{"finalizers": []any{"kubernetes"}},
		}}, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kiali.io/v1alpha1", "kind": "Kiali",
			"metadata": map[string]any{"namespace": name, "name": "kiali", "finalizers": []any{"kiali.io/finalizer"}},
		}})
	}
	world, err := cluster.FromObjects(cluster.Options{}, objects)
	if err != nil {
		b.Fatal(err)
	}
	return world
}
