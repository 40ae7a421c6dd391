package lab

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		changed, done := newSignal(), true
		var called []time.Duration
		go changed.each(t.Context(), time.Second, func() bool {
			called = append(called, time.Since(began))
			return done
		})
		wait := func(until time.Duration) {
			time.Sleep(until - time.Since(began))
			synctest.Wait()
		}
		wait(500 * time.Millisecond)
		changed.raise()
		changed.raise()               // merged
		wait(2500 * time.Millisecond) // nothing after the second call, which comes a second after the first
		done = false
		changed.raise()
		wait(3600 * time.Millisecond)
		done = true
		wait(10 * time.Second)
		want := []time.Duration{0, time.Second, 2500 * time.Millisecond, 3500 * time.Millisecond, 4500 * time.Millisecond, 9500 * time.Millisecond}
		if diff := cmp.Diff(want, called); diff != "" {
			t.Errorf("calls: -want +got\n%s", diff)
		}
	})
}

func TestInformedOfLateKind(t *testing.T) {
	t.Parallel()
	var served atomic.Bool
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !served.Load() || strings.Contains(r.URL.RawQuery, "sendInitialEvents"):
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			select {
			case <-gone:
			case <-r.Context().Done():
			}
		default:
			list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
				Items: []corev1.ConfigMap{{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(server.Close)
	changed := newSignal()
	l := &Lab{config: &rest.Config{Host: server.URL}}
	i, err := l.informed(t.Context(), corev1.SchemeGroupVersion.WithResource("configmaps"), "", metav1.ListOptions{}, changed.raise)
	if err != nil {
		t.Fatal(err)
	}
	await := func(c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Fatal("no word within 20 s")
		}
	}
	select {
	case <-i.ready:
		t.Fatal("a kind that is not served is known")
	case <-time.After(300 * time.Millisecond):
	}
	served.Store(true)
	await(i.ready)
	await(changed)
	served.Store(false)
	close(gone)
	maps, err := typed[corev1.ConfigMap](i)
	if err != nil || len(maps) != 1 || maps[0].Name != "a" {
		t.Errorf("known are %v: %v", maps, err)
	}
	served.Store(true)
	await(changed)
}
