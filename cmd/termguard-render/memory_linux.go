package main

import (
	"fmt"
	"runtime/debug"
	"syscall"
)

// Memory that rendering may take: beyond soft, garbage is collected more often, and
// allocations beyond hard fail and end the program.
const soft, hard = 1 << 30, 4 << 30

func boundMemory() error {
	debug.SetMemoryLimit(soft)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: hard, Max: hard}); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}
