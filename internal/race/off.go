//go:build !race

// Package race lets tests that one goroutine runs do a part of their cases under
// the race detector, which has nothing to see there and takes ten times as long.
// make unit runs them whole, without it: they are listed as PARTLY in the Makefile.
package race

// Detector tells whether the race detector watches.
const Detector = false
