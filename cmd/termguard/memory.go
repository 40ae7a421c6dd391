package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/termguard/termguard/internal/startup"
)

// heap is how a run of lint collects its garbage. It holds for the whole process,
// and is put back at the end.
//
// Most of what a run allocates is a document that is done with a moment later. Of
// sets of usual size little is in use at a time: the heap is collected only when it
// comes to usual bytes, which with the pages of the program are less than 100 MiB. A
// large set, or a snapshot, may need more than that: then the heap may grow by largeGC
// percent of what is in use, and the pages go that only the start needed.
type heap struct {
	gc     int
	limit  int64
	rate   int          // of memory profiles, which nobody takes of a run
	most   atomic.Int64 // bytes; 0 is without bound
	unbind func()
	leave  sync.Once
}

const (
	usual   = 52 << 20
	largeGC = 60
)

func (h *heap) start() {
	h.gc, h.limit, h.unbind = debug.SetGCPercent(-1), debug.SetMemoryLimit(usual), func() {}
	h.rate, runtime.MemProfileRate = runtime.MemProfileRate, 0
}

// bound ends the process rather than let it have more than limit bytes.
func (h *heap) bound(limit uint64) {
	h.most.Store(int64(limit))
	h.unbind = boundMemory(limit)
}

// large lets the heap follow what is in use.
func (h *heap) large() {
	limit := int64(math.MaxInt64)
	if most := h.most.Load(); most > 0 {
		limit = most / 4 * 3 // so that it collects before it ends
	}
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(largeGC)
	h.leave.Do(func() { _ = startup.LeavePages() }) // with them it takes more memory, and works
}

func (h *heap) stop() {
	h.unbind()
	debug.SetMemoryLimit(h.limit)
	debug.SetGCPercent(h.gc)
	runtime.MemProfileRate = h.rate
}
