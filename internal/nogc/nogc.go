// Package nogc starts a program without collecting garbage, and without samples of what
// allocates memory: while packages are initialized they allocate 5 MB, of which little is
// garbage.
//
// It imports next to nothing, so that it is initialized before the packages that allocate
// much: of those that could be next, it is the first by import path
// (https://go.dev/ref/spec#Program_initialization).
package nogc

import (
	"runtime"
	"runtime/debug"
	"sync"
)

var percent, rate = debug.SetGCPercent(-1), runtime.MemProfileRate

func init() { runtime.MemProfileRate = 0 }

var mu sync.Mutex // tests run commands side by side

// End has garbage collected as GOGC says, and samples taken.
func End() {
	mu.Lock()
	defer mu.Unlock()
	debug.SetGCPercent(percent)
	runtime.MemProfileRate = rate
}

// Unsampled has no samples taken until End.
func Unsampled() {
	mu.Lock()
	defer mu.Unlock()
	runtime.MemProfileRate = 0
}
