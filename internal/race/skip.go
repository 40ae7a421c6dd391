package race

import "testing"

// Skip skips a test of one goroutine, or of goroutines that other tests start, under the race detector.
func Skip(t testing.TB) {
	t.Helper()
	if Detector {
		t.Skip("nothing for the race detector to see: it runs without it")
	}
}
