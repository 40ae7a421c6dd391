package race

import "testing"

// Skip skips a test under the race detector. It is for tests that run in one goroutine, or whose goroutines
// other tests start as well.
func Skip(t testing.TB) {
	t.Helper()
	if Detector {
		t.Skip("nothing for the race detector to see: it runs without it")
	}
}
