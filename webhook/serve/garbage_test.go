package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// Who keeps little may leave garbage lying, as long as nobody has said otherwise.
func TestBoundGarbage(t *testing.T) {
	usual := debug.SetGCPercent(usualGarbage)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	for _, tc := range []struct {
		reason string
		keeps  int // bytes
		known  bool
		gogc   string
		want   int
	}{
		{"what it will keep is not known", 0, false, "", lessGarbage},
		{"it keeps little", 0, true, "", usualGarbage},
		{"it keeps much", 2 * smallHeap, true, "", lessGarbage},
		{"the operator has decided", 2 * smallHeap, true, "80", usualGarbage},
	} {
		debug.SetGCPercent(usualGarbage)
		t.Setenv("GOGC", tc.gogc)
		keeps := make([]byte, tc.keeps)
		runtime.GC()
		boundGarbage(tc.known)
		runtime.KeepAlive(keeps)
		if got := debug.SetGCPercent(usualGarbage); got != tc.want {
			t.Errorf("%s: %d %%, want %d", tc.reason, got, tc.want)
		}
	}
}
