package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	sampling "runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// filled returns a review whose text continues with copies of a part, up to a size.
func filled(start, part, end string, size int) []byte {
	n := (size - len(start) - len(end)) / len(part)
	return []byte(start + strings.TrimSuffix(strings.Repeat(part, n), ",") + end)
}

// bodies are the worst requests, and the memory in MiB that each may take beyond its own size while
// it alone is in progress.
var bodies = []struct {
	name string
	body func(size int) []byte
	most int64 // MiB
}{
	{"an array of objects, in a spec", inObject(`"metadata":{"name":"kiali"},"spec":{"a":[`, `{"a":0},`, `]}`), 20},
	{"an array of objects, as a spec", inObject(`"metadata":{"name":"kiali"},"spec":[`, `{"a":0},`, `]`), 20},
	{"an array of objects, in annotations", inObject(`"metadata":{"name":"kiali","annotations":[`, `{"a":0},`, `]}`), 20},
	{"an array of objects, beside the request", func(size int) []byte {
		return filled(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`+deleteKiali(`{"name":"kiali"}`)+`,"x":[`, `{"a":0},`, `]}`, size)
	}, 20},
	{"an array of objects, and no review", func(size int) []byte { return filled(`[`, `{"a":0},`, `]`, size) }, 20},
	{"finalizers", inObject(`"metadata":{"name":"kiali","finalizers":[`, `"",`, `]}`), 20},
	{"finalizers with names", inObject(`"metadata":{"name":"kiali","finalizers":[`, `"example.com/finalizer",`, `]}`), 60},
	{"numbers", inObject(`"metadata":{"name":"kiali"},"spec":[`, `1000,`, `]`), 20},
	{"empty arrays", inObject(`"metadata":{"name":"kiali"},"spec":[`, `[],`, `]`), 20},
	{"one long string", inObject(`"metadata":{"name":"kiali","annotations":{"a":"`, `x`, `"}}`), 30},
	{"one string of escapes", inObject(`"metadata":{"name":"kiali","annotations":{"a":"`, `\"`, `"}}`), 40},
	{"members of one object", func(size int) []byte {
		var members strings.Builder
		for i := 0; members.Len() < size-500; i++ {
			fmt.Fprintf(&members, `"%x":0,`, i)
		}
		return inObject(`"metadata":{"name":"kiali","labels":{`, strings.TrimSuffix(members.String(), ","), `}}`)(size)
	}, 20},
}

func inObject(start, part, end string) func(size int) []byte {
	return func(size int) []byte {
		request := deleteKiali(`{"name":"kiali"}`)
		request = strings.TrimSuffix(request, `{"metadata":{"name":"kiali"}}}`)
		return filled(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`+request+`{`+start, part, end+`}}}`, size)
	}
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHeldByBodies sends the worst bodies, of every size that matters, and measures the live memory
// while they are decoded and evaluated. test/results/attacks.md prints the bounds.
func TestHeldByBodies(t *testing.T) {
	docs, err := os.ReadFile("../test/results/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bodies {
		t.Run(b.name, func(t *testing.T) {
			if row := fmt.Sprintf("| %s | %d |", b.name, b.most); !strings.Contains(string(docs), row) {
				t.Errorf("test/results/attacks.md has no row %q", row)
			}
			most, at := int64(0), 0
			sizes := []int{256 << 10, 1 << 20, MaxBody}
			if race.Detector {
				sizes = sizes[:1]
			}
			for _, size := range sizes {
				sent := b.body(size)
				if growth := heldBy(t, sent); growth > most {
					most, at = growth, size
				}
			}
			t.Logf("takes at most %d MiB, sent as %d KiB", most>>20, at>>10)
			if most > b.most<<20 {
				t.Errorf("takes %d MiB, sent as %d KiB; want at most %d MiB", most>>20, at>>10, b.most)
			}
		})
	}
}

// heldBy returns the largest live memory while a body is answered, without the body.
func heldBy(t *testing.T, sent []byte) int64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // often enough to see what is alive
	before := liveHeap()
	var most atomic.Int64
	look := func(heap int64) {
		if growth := heap - before; growth > most.Load() {
			most.Store(growth)
		}
	}
	h := NewHandler(Options{Log: quiet, Facts: facts{}, Deadline: 1 << 40, Evaluator: evaluatorFunc(func(_ context.Context, _ policies.Trigger, input map[string]any) (policies.Result, error) {
		look(liveHeap())
		runtime.KeepAlive(input)
		return policies.Result{}, nil
	})})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent)))
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		runtime.KeepAlive(sent)
	}()
	sample := []sampling.Sample{{Name: "/gc/heap/live:bytes"}} // by the last collection
	for {
		select {
		case <-done:
			return most.Load()
		default:
			sampling.Read(sample)
			look(int64(sample[0].Value.Uint64()))
			runtime.Gosched()
		}
	}
}

// TestManyBodiesAreBounded sends more large bodies at a time than there is room for, with an
// evaluation that does not end. Small reviews are answered meanwhile.
func TestManyBodiesAreBounded(t *testing.T) {
	race.Skip(t)
	for _, tt := range []struct {
		reason string
		many   int
		sent   []byte
	}{
		{"bodies that are decoded to much more than was sent", 24, inObject(`"metadata":{"name":"kiali"},"spec":[`, `{"a":0},`, `]`)(256 << 10)},
		{"a hundred of 10 MiB, of which only metadata is read", 100, inObject(`"metadata":{"name":"kiali"},"spec":[`, `{"a":"`+strings.Repeat("x", 1<<10)+`"},`, `]`)(10 << 20)},
	} {
		t.Run(tt.reason, func(t *testing.T) { manyBodies(t, tt.many, tt.sent) })
	}
}

func manyBodies(t *testing.T, many int, sent []byte) {
	const most = 2 * largeBodies
	release, entered := make(chan struct{}), atomic.Int32{}
	defer close(release)
	h := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: evaluatorFunc(func(_ context.Context, _ policies.Trigger, input map[string]any) (policies.Result, error) {
		if input["request"].(map[string]any)["name"] == "kiali" {
			entered.Add(1)
			<-release
			runtime.KeepAlive(input)
		}
		return policies.Result{}, nil
	})})
	before := liveHeap()
	var under sync.WaitGroup
	var turnedAway atomic.Int32
	for range many {
		under.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(sent)))
			if w.Code == http.StatusServiceUnavailable {
				turnedAway.Add(1)
			}
		})
	}
	under.Wait() // each at its deadline, at the latest
	if growth := liveHeap() - before; growth > most {
		t.Errorf("%d bodies hold %d MiB, want %d at most", many, growth>>20, most>>20)
	}
	if entered.Load() == 0 || turnedAway.Load() == 0 {
		t.Errorf("%d bodies were evaluated, and %d turned away; want some of each", entered.Load(), turnedAway.Load())
	}
	small := httptest.NewRecorder()
	h.ServeHTTP(small, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body(t, v1, deleteNamespace))))
	if small.Code != http.StatusOK || strings.Contains(small.Body.String(), "not checked") {
		t.Errorf("a small review beside large ones: %d %s", small.Code, small.Body)
	}
}
