//go:build unix

package lint

import (
	"runtime"
	"syscall"
	"time"
)

// processorTime returns the process's processor time, divided by the processors that it may use at once.
func processorTime() time.Time {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return time.Now()
	}
	return time.Unix(0, (used.Utime.Nano()+used.Stime.Nano())/int64(runtime.GOMAXPROCS(0)))
}
