//go:build !race

// Package race lets tests of one goroutine skip themselves under the race detector, which takes ten times as
// long and finds nothing there.
package race

// Detector reports whether the race detector is on.
const Detector = false
