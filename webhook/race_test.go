package webhook

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
)

// TestReviewsTogether answers reviews about finalizers without a verdict, with the policies in the
// binary, while objects come and go, verdicts settle and two replicas learn. It serves the race
// detector; every review must be answered.
func TestReviewsTogether(t *testing.T) {
	const reviewers, rounds = 4, 8
	world := kialis(t, 10, 1)
	client := fake.NewClientset()
	learner := cluster.NewLearner(world, client.CoreV1(), cluster.HomeNamespace, quiet)
	h := NewHandler(Options{Log: quiet, Evaluator: realEngine(t), Facts: world, Authentic: true, Learner: learner})
	widgets := cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "widgets"}, Namespaced: true}
	world.Begin(widgets)
	world.End(widgets)
	var running sync.WaitGroup
	start := make(chan struct{})
	each := func(f func(i int)) {
		running.Go(func() {
			<-start
			for i := range rounds {
				f(i)
			}
		})
	}
	for reviewer := range reviewers {
		each(func(i int) {
			finalizers := fmt.Sprintf(`["kiali.io/finalizer", "x%d.io/f", "finalizer.argoproj.io", "y%d-%d.io/f"]`, i, reviewer, i)
			for _, request := range []string{
				deleteNamespace,
				deleteKiali(`{"name":"kiali","namespace":"demo","uid":"u","finalizers":` + finalizers + `}`),
			} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body(t, v1, request))))
				if w.Code != http.StatusOK {
					t.Errorf("a review is answered with %d: %s", w.Code, w.Body)
				}
			}
		})
	}
	each(func(i int) {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint("w", i), UID: types.UID(fmt.Sprint(i)), Finalizers: []string{fmt.Sprintf("x%d.io/f", i)}}}
		if err := world.Apply(widgets, obj, true); err != nil {
			t.Error(err)
		}
		learner.Saw(cluster.Removal{Resource: widgets.GroupResource(), Namespace: "demo", Name: obj.Name, UID: obj.UID, Finalizers: obj.Finalizers, User: "system:serviceaccount:ops:operator"})
		if i%2 == 0 {
			if err := world.Remove(widgets, obj); err != nil {
				t.Error(err)
			}
		}
	})
	each(func(int) { world.Settle() })
	each(func(i int) {
		world.SetServed(cluster.BuiltinGroups(), map[string]bool{"v1.x.io": i%2 == 0})
	})
	close(start)
	running.Wait()
}

func TestMain(m *testing.M) { race.Main(m, "TestReviewsTogether") }
