//go:build race

package race

// Detector tells whether the race detector watches.
const Detector = true
