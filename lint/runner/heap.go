package runner

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Most runs allocate some 170 MB, and use a tenth of that at a time: no collection up to minHeap, in bytes,
// saves a quarter of the processor time. With more than maxLive in use, Go's default GOGC applies.
const minHeap, maxLive = 96 << 20, 32 << 20

// growHeap does nothing if GOGC or GOMEMLIMIT is set.
func growHeap() {
	if os.Getenv("GOGC")+os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(minHeap)
		afterCollection()
	}
}

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
