package serve

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// Of a large cluster so much is alive that as much garbage again would be most of the
// process. So it is collected twice as often as Go does by itself: of 150,000 pods and
// 1,000,000 objects, that takes 1 to 3 ms of processor time a second while 500 objects a
// second change (docs/benchmarks.md). Of a small one, it would cost reviews and save little.
const (
	usualGarbage, lessGarbage = 100, 50 // in percent of what is alive (GOGC)
	smallHeap                 = 48 << 20
)

// boundGarbage bounds the garbage of a process while it does not know yet how much it will
// keep, and again once it does. Who sets GOGC has decided.
func boundGarbage(known bool) {
	if os.Getenv("GOGC") != "" {
		return
	}
	if known && alive() < smallHeap {
		debug.SetGCPercent(usualGarbage)
		return
	}
	debug.SetGCPercent(lessGarbage)
}

// alive are the bytes that the last collection has found to be in use.
func alive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
