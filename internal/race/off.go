//go:build !race

// Package race lets tests that one goroutine runs do nothing, or a part of their cases,
// under the race detector, which has nothing to see there and takes ten times as long.
// make test and make check run them whole, without it.
package race

// Detector tells whether the race detector watches.
const Detector = false
