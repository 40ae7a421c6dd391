package serve

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// So much garbage a process may have, within these percents of what is alive (GOGC): of a
// small cluster, to collect it costs reviews more than it saves; of a large one, as much
// garbage as is alive would be most of the process (test/results/benchmarks.md).
const (
	garbage             = 32 << 20 // bytes
	leastGOGC, mostGOGC = 50, 200
)

// boundGarbage bounds the garbage of a process while it does not know yet how much it will
// keep, and again once it does. Who sets GOGC has decided.
func boundGarbage(known bool) {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := leastGOGC
	if known {
		percent = int(min(max(100*garbage/max(alive(), 1), leastGOGC), mostGOGC))
	}
	debug.SetGCPercent(percent)
}

// alive are the bytes that the last collection has found to be in use.
func alive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
