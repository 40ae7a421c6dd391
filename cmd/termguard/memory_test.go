package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestHeapFollows: where a document alone takes more than usual, the heap grows with it,
// and is not collected again and again for what is in use.
func TestHeapFollows(t *testing.T) {
	var h heap
	h.start()
	defer h.stop()
	document := make([]byte, 2*usual)
	for until := time.Now().Add(time.Minute); !h.follows.Load(); {
		if time.Now().After(until) {
			t.Fatal("the heap is still collected as if little were in use")
		}
		runtime.GC()
	}
	runtime.KeepAlive(document)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("the heap follows what is in use up to %d bytes", limit)
	}
}
