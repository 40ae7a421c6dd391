package main

import (
	"fmt"
	"runtime/debug"
	"syscall"
)

// Above soft, in bytes, garbage is collected more often; above hard, allocations fail and end the program.
const soft, hard = 1 << 30, 4 << 30

func boundMemory() error {
	debug.SetMemoryLimit(soft)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: hard, Max: hard}); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}
