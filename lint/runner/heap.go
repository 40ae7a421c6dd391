package runner

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Most runs allocate some 170 MB, and use a tenth of that at a time: no collection up to roomy, in bytes, saves
// a quarter of the processor time. If more than crowded remains in use after one, Go's default GOGC applies.
const minHeap, maxLive = 96 << 20, 32 << 20

// growHeap lets the heap grow, unless GOGC or GOMEMLIMIT is set.
func growHeap() {
	if os.Getenv("GOGC")+os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(minHeap)
		afterCollection()
	}
}

// afterCollection checks the heap after each collection until it exceeds crowded.
func afterCollection() {
	runtime.AddCleanup(&struct{ _ *int }{}, func(int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		if metrics.Read(live); live[0].Value.Uint64() > maxLive {
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
			return
		}
		afterCollection()
	}, 0)
}
