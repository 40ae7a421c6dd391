package runner

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestGrowHeap checks that garbage is collected late, until much memory is in use.
func TestGrowHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	t.Cleanup(func() { debug.SetGCPercent(100); debug.SetMemoryLimit(math.MaxInt64) })
	growHeap()
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	runtime.GC()
	if limit() != minHeap {
		t.Fatalf("the heap may grow to %d bytes, want %d", limit(), minHeap)
	}
	held := make([]byte, 2*maxLive)
	for deadline := time.Now().Add(time.Minute); limit() == minHeap; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatal("much is in use, and the heap is still bounded: it would be collected all the time")
		}
	}
	runtime.KeepAlive(held)
}
