package main

import (
	"math"
	"runtime/debug"
	"sync/atomic"
)

// heap is how a run of lint collects its garbage. It holds for the whole process,
// and is put back at the end.
//
// Most of what a run allocates is a document that is done with a moment later. Of
// sets of usual size little is in use at a time: the heap is collected only when it
// comes to usual bytes, which with the pages of the program are less than 100 MiB. A
// large set, or a snapshot, may need more than that: then the heap may grow by largeGC
// percent of what is in use.
type heap struct {
	gc     int
	limit  int64
	most   atomic.Int64 // bytes; 0 is without bound
	unbind func()
}

const (
	usual   = 44 << 20
	largeGC = 80
)

func (h *heap) start() {
	h.gc, h.limit, h.unbind = debug.SetGCPercent(-1), debug.SetMemoryLimit(usual), func() {}
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
}

func (h *heap) stop() {
	h.unbind()
	debug.SetMemoryLimit(h.limit)
	debug.SetGCPercent(h.gc)
}
