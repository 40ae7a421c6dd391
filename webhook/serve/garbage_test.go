package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// What is alive may leave so much garbage, as long as nobody has said otherwise.
func TestBoundGarbage(t *testing.T) {
	const before = 70
	usual := debug.SetGCPercent(before)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	for _, tc := range []struct {
		reason   string
		keeps    int // bytes, beside what the test itself keeps
		known    bool
		gogc     string
		from, to int
	}{
		{"what it will keep is not known", 0, false, "", leastGOGC, leastGOGC},
		{"it keeps little", 0, true, "", 101, mostGOGC},
		{"it keeps as much", garbage, true, "", leastGOGC + 1, 100},
		{"it keeps much", 4 * garbage, true, "", leastGOGC, leastGOGC},
		{"the operator has decided", 4 * garbage, true, "80", before, before},
	} {
		debug.SetGCPercent(before)
		t.Setenv("GOGC", tc.gogc)
		keeps := make([]byte, tc.keeps)
		runtime.GC()
		boundGarbage(tc.known)
		runtime.KeepAlive(keeps)
		if got := debug.SetGCPercent(before); got < tc.from || got > tc.to {
			t.Errorf("%s: %d %%, want %d to %d", tc.reason, got, tc.from, tc.to)
		}
	}
}
