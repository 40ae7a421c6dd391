//go:build !race

// Package race lets tests that one goroutine runs do a part of their cases under
// the race detector, which has nothing to see there and takes ten times as long.
// make unit runs them once more without it.
package race

// Detector tells whether the race detector watches.
const Detector = false
