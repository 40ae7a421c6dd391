package race

import "testing"

// Skip leaves a test out under the race detector, which takes ten times as long: one that
// runs in one goroutine, or starts those that other tests start as well.
func Skip(t testing.TB) {
	t.Helper()
	if Detector {
		t.Skip("nothing for the race detector to see: it runs without it")
	}
}
