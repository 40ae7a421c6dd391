package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"github.com/termguard/termguard/internal/nogc"
	"github.com/termguard/termguard/internal/startup"
)

// heap is how a run of lint collects its garbage. It holds for the whole process,
// and is put back at the end.
//
// Most of what a run allocates is a document that is done with a moment later. Of
// sets of usual size little is in use at a time: the heap is collected only when it
// comes to early bytes, and from then on to usual bytes, as the pages go that only the start
// needed. With those of the program that is less than 100 MiB. A large document or set, or
// a snapshot, may need more than that: then the heap may grow by largeGC percent of what is
// in use.
type heap struct {
	limit   int64
	most    atomic.Int64 // bytes; 0 is without bound
	unbind  func()
	leave   sync.Once
	follows atomic.Bool // it grows with what is in use, or the run is over
}

const (
	early   = 52 << 20
	usual   = 64 << 20
	largeGC = 60
)

func (h *heap) start() {
	debug.SetGCPercent(-1)
	h.limit, h.unbind = debug.SetMemoryLimit(early), func() {}
	nogc.Unsampled() // nobody takes a memory profile of a run
	h.watch()
}

// watch looks after each collection at what is left: from where largeGC percent more than
// that is more than usual, the heap would be collected over and over for what is in use.
func (h *heap) watch() {
	if h.follows.Load() {
		return
	}
	left := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(left); left[0].Value.Uint64() > usual*100/(100+largeGC) {
		h.large()
		return
	}
	runtime.AddCleanup(&collected{h}, (*heap).settle, h)
}

// settle lets the heap have what the pages took that only the start needed.
func (h *heap) settle() {
	h.leave.Do(func() {
		if startup.LeavePages() == nil && !h.follows.Load() {
			debug.SetMemoryLimit(usual)
		}
	})
	h.watch()
}

// collected is garbage, whose cleanup runs once that is collected. It holds a pointer, as
// what holds none may be kept with others that are in use.
type collected struct{ *heap }

// bound ends the process rather than let it have more than limit bytes.
func (h *heap) bound(limit uint64) {
	h.most.Store(int64(limit))
	h.unbind = boundMemory(limit)
}

// large lets the heap follow what is in use.
func (h *heap) large() {
	h.follows.Store(true)
	h.leave.Do(func() { _ = startup.LeavePages() }) // with them it takes more memory, and works
	limit := int64(math.MaxInt64)
	if most := h.most.Load(); most > 0 {
		limit = most / 4 * 3 // so that it collects before it ends
	}
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(largeGC)
}

func (h *heap) stop() {
	h.follows.Store(true)
	h.leave.Do(func() {}) // which is over then
	h.unbind()
	debug.SetMemoryLimit(h.limit)
	nogc.End()
}
