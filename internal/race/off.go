//go:build !race

// Package race lets single-goroutine tests skip themselves, or some cases, under the race detector, which
// takes ten times as long and cannot find anything there. make test and make check run them in full without
// it.
package race

// Detector reports whether the race detector is on.
const Detector = false
